"""A study whose process is gone, or has lost its lock, was interrupted."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from sweeper.results.status import read_status, write_status
from sweeper.rundir import RunDir
from tests.live_status import STATUS


def test_a_running_study_whose_process_is_gone_was_interrupted(run_dir: RunDir) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    write_status(run_dir, replace(STATUS, pid=ended.pid))
    assert read_status(run_dir).state == "interrupted"


def _named_in_lock(run_dir: RunDir, pid: int) -> None:
    """Write a lock file as the process `pid` of this host does, and its status."""
    run_dir.lock.write_text(f"{pid} {STATUS.host}", encoding="utf-8")
    write_status(run_dir, replace(STATUS, pid=pid))


def test_a_killed_study_was_interrupted_if_its_process_number_is_in_use_again(
    run_dir: RunDir,
) -> None:
    """Such as process 1 of a container, which every container has."""
    _named_in_lock(run_dir, os.getppid())
    assert read_status(run_dir).state == "interrupted"
    with run_dir.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it after the question
        assert read_status(run_dir).state == "running"
    assert read_status(run_dir).state == "interrupted"


def test_a_study_that_was_killed_again_before_its_first_status_was_interrupted(
    run_dir: RunDir,
) -> None:
    _named_in_lock(run_dir, os.getppid())
    run_dir.lock.write_text(f"{os.getpid()} {STATUS.host}", encoding="utf-8")
    assert read_status(run_dir).state == "interrupted"


def test_a_lock_that_is_a_pipe_is_not_waited_for(run_dir: RunDir) -> None:
    _named_in_lock(run_dir, os.getppid())
    run_dir.lock.unlink()
    os.mkfifo(run_dir.lock)
    assert read_status(run_dir).state == "running"


@pytest.mark.parametrize("lock", ["removed", "made again", "of a host", "link", "unsupported"])
def test_a_process_that_exists_runs_a_study_whose_lock_says_nothing(
    lock: str, run_dir: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    _named_in_lock(run_dir, os.getppid())
    match lock:
        case "removed":
            run_dir.lock.unlink()
        case "made again":
            run_dir.lock.write_bytes(b"")
        case "of a host":
            run_dir.lock.write_text(f"{os.getppid()} elsewhere", encoding="utf-8")
        case "link":
            other = run_dir.lock.rename(run_dir.root / "other")
            run_dir.lock.symlink_to(other)
        case _:

            def flock(_descriptor: int, _operation: int) -> None:
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

            monkeypatch.setattr(fcntl, "flock", flock)
    assert read_status(run_dir).state == "running"


def test_a_process_of_another_host_that_noted_its_end_was_interrupted(run_dir: RunDir) -> None:
    write_status(run_dir, replace(STATUS, host="another", pid=1))
    for noted, state in (({"pid": 2}, "running"), ({"pid": 1}, "interrupted")):
        run_dir.exit_note.write_text(json.dumps({**noted, "host": "another"}), encoding="utf-8")
        assert read_status(run_dir).state == state
