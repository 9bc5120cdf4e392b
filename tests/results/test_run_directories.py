"""Run directories are found at most two levels down, by their status."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sweeper.errors import SetupError
from sweeper.results.run_directories import newest_run, runs_in
from sweeper.results.status import write_status
from sweeper.rundir import RunDir
from tests.live_status import STATUS


def begin(directory: Path) -> Path:
    """Write a status there, and return its path."""
    directory.mkdir(parents=True)
    write_status(RunDir(directory), STATUS)
    return RunDir(directory).status


def test_runs_are_found_at_most_two_levels_down_and_not_inside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/b", "runs/a", "runs/a/confirm", "runs/group/c", "runs/group/deep/d"):
        begin(Path(name))
    for name in ("runs/.new/e", "runs/group/.new"):  # what is half-written
        begin(Path(name))
    found = [Path("runs/a"), Path("runs/b"), Path("runs/group/c")]
    assert runs_in(Path("runs")) == found
    assert runs_in(Path("runs/a")) == found[:1]
    assert runs_in(Path("nowhere")) == []


def test_the_newest_run_is_the_one_whose_status_was_written_last(tmp_path: Path) -> None:
    for name, age_s in (("old", 200), ("new", 100), ("older", 300)):
        written = begin(tmp_path / name)
        modified = time.time() - age_s
        os.utime(written, (modified, modified))
    assert newest_run(tmp_path) == tmp_path / "new"


def test_the_newest_run_needs_at_least_one_run(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no study has been run here; name a run directory"):
        newest_run(tmp_path / "runs")
