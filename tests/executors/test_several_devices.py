"""A study on four devices of one process, which XLA simulates on the available cores."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest

from sweeper import open_results
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from tests.command_line import STUDY
from tests.digest import deterministic_digest
from tests.processes import finish, kill, start

FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
DEVICES = {f"cpu:{index}" for index in range(4)}
BUCKETS = (
    "study.n_trials=24",
    "study.sampler={name='random'}",
    "study.pruner={name='halving',min_resource=1,reduction_factor=2}",
    "schedule.parallel=24",
    "schedule.round_epochs=1",
    "execution.threads=4",
    "search.model.width={type='int', low=4, high=8, base=2}",
    "execution.strategy=exact",
)


def begin(directory: Path, cache: Path, *settings: str) -> subprocess.Popen[str]:
    directory.mkdir(exist_ok=True)
    (directory / "study.toml").write_text(STUDY, encoding="utf-8")
    more = [word for setting in settings for word in ("--set", setting)]
    return start(directory, cache, ["run", "study.toml", "--quiet", *more], environment=FOUR)


def run(directory: Path, cache: Path, *settings: str) -> Path:
    """The results of the study, run to its end."""
    finish(begin(directory, cache, *settings))
    return directory / "runs" / "wine"


def buckets(results: Path) -> pd.DataFrame:
    return open_results(results).buckets()


def devices(results: Path) -> set[str]:
    return set(buckets(results)["device"])


def digest(results: Path) -> str:
    return deterministic_digest(RunDir(results))


def test_four_devices_give_the_same_rows_as_one(tmp_path: Path, compile_cache: Path) -> None:
    four = run(tmp_path / "four", compile_cache, *BUCKETS)

    assert 1 < len(devices(four)) <= 4
    assert devices(four) <= DEVICES
    one = run(tmp_path / "one", compile_cache, *BUCKETS, "execution.devices=1")
    assert devices(one) == {"cpu:0"}
    assert digest(one) == digest(four)


@pytest.mark.slow
def test_a_study_resumed_on_other_devices_gives_the_same_rows(
    tmp_path: Path, compile_cache: Path
) -> None:
    """Its programs are those first planned, for the devices available at that time."""
    settings = (*BUCKETS, "execution.lane_loop=vmap")
    whole = run(tmp_path / "whole", compile_cache, *settings)

    broken = begin(tmp_path / "broken", compile_cache, *settings)
    run_dir = RunDir(tmp_path / "broken" / "runs" / "wine")
    while broken.poll() is None and not (
        run_dir.status.exists() and read_status(run_dir).round >= 1
    ):
        time.sleep(0.005)
    kill(broken)
    again = run(tmp_path / "broken", compile_cache, *settings, "execution.devices=2")

    assert devices(again) <= DEVICES
    assert digest(again) == digest(whole)
