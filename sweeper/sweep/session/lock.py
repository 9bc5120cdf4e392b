"""The lock of a run directory: one process at a time runs the study in it, or looks it through.

Its owner writes its number into the lock's file. That may be removed while the study runs, and a
new one can be locked by anybody; the ledger stays locked then.

On a file system without `flock` a second file names the process that holds the lock. It outlives a
process that was killed: the next start on the same host removes it if that process is gone, which
its start time and the boot of the machine tell from a later process of the same number.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from filelock import FileLock, SoftFileLock, Timeout

from sweeper.errors import Problem, SetupError, StudyHeldError
from sweeper.ledger import is_held
from sweeper.results.status import read_status
from sweeper.rundir import RunDir, open_inside

_MAX_LETTERS = 300  # of a number and a host's name
# what file systems without `flock` answer
_UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)


@contextmanager
def held(run_dir: RunDir) -> Iterator[None]:
    """The lock of a run directory; the system lets go of it when the process ends, however.

    Raises:
        StudyHeldError: another process has it, or has the ledger open.
    """
    owner = _noted(run_dir)  # before it is asked for: some versions of filelock empty the file then
    try:
        with _locked(run_dir):
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
def _locked(run_dir: RunDir) -> Iterator[None]:
    """The lock itself.

    Raises:
        Timeout: another process has it.
        StudyHeldError: another process has it, on a file system without locks.
    """
    lock = FileLock(run_dir.lock, timeout=0, fallback_to_soft=False)
    try:
        lock.acquire()
    except OSError as error:
        if isinstance(error, Timeout) or error.errno not in _UNSUPPORTED:
            raise
        with _owned(run_dir):
            yield
        return
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _owned(run_dir: RunDir) -> Iterator[None]:
    lock = SoftFileLock(run_dir.owner, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        owner = _noted(run_dir)
        found = f"another process runs this study{owner}, or was killed while it did"
        hint = f"wait for it, or end it; if it is gone, remove {run_dir.owner}"
        raise StudyHeldError(Problem(str(run_dir.root), "", found, hint)) from None
    try:
        yield
    finally:
        lock.release()


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
    path = run_dir.lock
    with suppress(OSError), open_inside(run_dir.root, path, "r+", encoding="utf-8") as file:
        file.write(text)
        file.truncate()


def _noted(run_dir: RunDir) -> str:
    try:
        with run_dir.lock.open(encoding="utf-8") as file:
            pid, host = file.read(_MAX_LETTERS).split()
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
