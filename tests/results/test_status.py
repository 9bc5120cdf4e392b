"""A status is read as it was written, without any library."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from sweeper.errors import SetupError
from sweeper.results.status import Status, read_status, what_takes_requests, write_status
from sweeper.rundir import RunDir
from tests.live_status import STATUS


def test_a_status_is_read_as_it_was_written(run_dir: RunDir) -> None:
    write_status(run_dir, replace(STATUS, round=2))
    write_status(run_dir, STATUS)
    assert read_status(run_dir) == STATUS


def test_the_text_of_a_status_is_one_short_line() -> None:
    text = "<Status of digits: running, 3 of 20 trials"
    assert repr(STATUS) == f"{text}, best 0.5 (trial 2)>"
    assert repr(replace(STATUS, best=None)) == f"{text}>"


@pytest.mark.parametrize(
    "status", [replace(STATUS, state="finished"), replace(STATUS, host="another")]
)
def test_other_statuses_are_unchanged(run_dir: RunDir, status: Status) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    status = replace(status, pid=ended.pid)
    write_status(run_dir, status)
    assert read_status(run_dir) == status


def test_a_study_that_ends_while_its_status_is_read_was_not_interrupted(
    run_dir: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = replace(STATUS, state="finished")

    def ends(run_dir: RunDir, _pid: int, _host: str) -> bool:
        write_status(run_dir, last)
        return True

    write_status(run_dir, STATUS)
    monkeypatch.setattr("sweeper.results.status.has_ended", ends)
    assert read_status(run_dir) == last


def test_a_directory_without_status_is_refused_with_the_hint(run_dir: RunDir) -> None:
    with pytest.raises(SetupError, match="no study has been run here; start one with"):
        read_status(run_dir)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"study": "small"}', "{}"])
def test_an_invalid_status_is_refused(run_dir: RunDir, text: str) -> None:
    run_dir.status.write_text(text)
    with pytest.raises(SetupError, match=r"status\.json: not a status file of this version"):
        read_status(run_dir)


def test_a_status_is_read_without_any_library() -> None:
    code = "import sys, sweeper.results.status; print(*sys.modules)"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    heavy = {"pyarrow", "pandas", "numpy", "pydantic", "jax", "optuna"}
    assert heavy & set(listed.decode().split()) == set()


@pytest.mark.parametrize(
    ("ended", "advice"),
    [
        ({"state": "interrupted"}, "the study is interrupted: its next `run` takes the request"),
        ({}, "the study is finished: run it with a larger study.n_trials to"),
        (
            {"timeout": "2h", "counts": {"WAITING": 3}},
            "study.timeout = 2h, over all of its sessions: run it with a longer study.timeout to",
        ),
        (
            {"stop": {"value": 0.9}},
            "study.stop.value = 0.9: run it with another study.stop (or none) and a larger "
            "study.n_trials to",
        ),
        (
            {"state": "failed", "max_failures": 2, "counts": {"WAITING": 1}},
            "the study was ended by execution.max_failures = 2: run it with a larger limit to",
        ),
    ],
)
def test_a_request_needs_another_limit_than_the_one_that_ended_the_study(
    ended: dict, advice: str
) -> None:
    assert advice in what_takes_requests(replace(STATUS, **{"state": "finished"} | ended))
