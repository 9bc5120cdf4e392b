"""A status is read as it was written, without any library."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from sweeper.errors import SetupError
from sweeper.results.status import Status, read_status, write_status
from sweeper.rundir import RunDir

STATUS = Status(
    study="small",
    run_id="r1",
    pid=os.getpid(),
    host=socket.gethostname(),
    state="running",
    started_at=1.5,
    updated_at=2.5,
    round=3,
    n_trials=64,
    counts={"COMPLETE": 2, "PRUNED": 1, "FAIL": 0, "RUNNING": 4, "WAITING": 57},
    best={"trial_number": 1, "value": 0.5, "params": {"width": 16, "rate": 1e-3}},
    metric="val_accuracy",
    direction="maximize",
    trials_per_minute=10.0,
    eta_s=None,
    running=[{"bucket": 0, "place": "thread 0", "class_id": "c", "trials": [4, 5]}],
    compile_s=1.0,
    train_s=2.0,
    predicted_compile_s=9.5,
    predicted_train_s=2.5,
    n_compiled=3,
    n_cache_hits=1,
    spent_s={},
    committed_at=2.0,
)


def test_a_status_is_read_as_it_was_written(run_dir: RunDir) -> None:
    write_status(run_dir, replace(STATUS, round=2))
    write_status(run_dir, STATUS)
    assert read_status(run_dir) == STATUS


def test_a_running_study_whose_process_is_gone_was_interrupted(run_dir: RunDir) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    write_status(run_dir, replace(STATUS, pid=ended.pid))
    assert read_status(run_dir).state == "interrupted"


@pytest.mark.parametrize(
    "status", [replace(STATUS, state="finished"), replace(STATUS, host="another")]
)
def test_no_other_status_is_doubted(run_dir: RunDir, status: Status) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    status = replace(status, pid=ended.pid)
    write_status(run_dir, status)
    assert read_status(run_dir) == status


def test_a_directory_without_status_is_refused_with_the_mend(run_dir: RunDir) -> None:
    with pytest.raises(SetupError, match="no study has been run here; start one with"):
        read_status(run_dir)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"study": "small"}', "{}"])
def test_what_is_no_status_is_refused(run_dir: RunDir, text: str) -> None:
    run_dir.status.write_text(text)
    with pytest.raises(SetupError, match=r"status\.json: not a status of this version"):
        read_status(run_dir)


def test_a_status_is_read_without_any_library() -> None:
    code = "import sys, sweeper.results.status; print(*sys.modules)"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    heavy = {"pyarrow", "pandas", "numpy", "pydantic", "jax", "optuna"}
    assert heavy & set(listed.decode().split()) == set()
