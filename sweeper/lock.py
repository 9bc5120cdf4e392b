"""The lock of a run directory: one process at a time runs the study in it, or looks it through.

Its owner writes its number into the lock's file. That may be removed while the study runs, and a
new one can be locked by anybody; the ledger stays locked then.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from filelock import FileLock, Timeout

from sweeper.errors import Problem, SetupError, StudyHeldError
from sweeper.ledger import is_held
from sweeper.results.status import read_status
from sweeper.rundir import RunDir

_MOST_LETTERS = 300  # of a number and a host's name


@contextmanager
def held(run_dir: RunDir) -> Iterator[None]:
    """The lock of a run directory; the system lets go of it when the process ends, however.

    Raises:
        StudyHeldError: another process has it, or has the ledger open.
    """
    owner = _noted(run_dir)  # before it is asked for: some versions of filelock empty the file then
    try:
        with FileLock(run_dir.lock, timeout=0):
            if is_held(run_dir.ledger):
                raise _held_by(run_dir, _of_status(run_dir))
            _note(run_dir, f"{os.getpid()} {socket.gethostname()}")
            try:
                yield
            finally:
                _note(run_dir, "")
    except Timeout:
        raise _held_by(run_dir, owner or _of_status(run_dir)) from None


@contextmanager
def held_to_look(run_dir: RunDir) -> Iterator[None]:
    """The same for who writes nothing there; where this user may not, no lock is taken.

    Raises:
        StudyHeldError: as `held`.
    """
    if os.access(run_dir.root, os.W_OK):
        with held(run_dir):
            yield
        return
    if is_held(run_dir.ledger):
        raise _held_by(run_dir, _of_status(run_dir))
    yield


def _held_by(run_dir: RunDir, owner: str) -> StudyHeldError:
    found = f"another process runs this study{owner}"
    return StudyHeldError(Problem(str(run_dir.root), "", found, "wait for it, or end it"))


def _note(run_dir: RunDir, text: str) -> None:
    """Write into the lock's file, if it is still there."""
    with suppress(OSError), run_dir.lock.open("r+", encoding="utf-8") as file:
        file.write(text)
        file.truncate()


def _noted(run_dir: RunDir) -> str:
    try:
        with run_dir.lock.open(encoding="utf-8") as file:
            pid, host = file.read(_MOST_LETTERS).split()
    except (OSError, ValueError):
        return ""
    return f" (pid {pid} on {host})"


def _of_status(run_dir: RunDir) -> str:
    try:
        status = read_status(run_dir)
    except SetupError:
        return ""  # it has only just started
    if status.state != "running":
        return ""  # the same, and this is the status of the process before it
    return f" (pid {status.pid} on {status.host})"
