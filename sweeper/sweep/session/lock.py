"""The lock of a run directory: only one process at a time runs or inspects the study in it.

The owner writes its process number into the lock file. This file may be removed during a run, and
then a new one could be locked; the ledger stays locked in that case.

On a file system without `flock`, a second file names the process that holds the lock. It outlives a
killed process: the next start on the same host removes it if that process is gone. The start time
and the boot of the machine distinguish it from a later process with the same number.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from sweeper.errors import Problem, StudyHeldError
from sweeper.files import open_inside
from sweeper.ledger import is_held
from sweeper.results.owner import parse_owner, read_lock_file
from sweeper.results.status import find_status
from sweeper.rundir import RunDir

_WAIT_S = 0.2  # `read_status` shares a lock that nobody holds, for less than a millisecond
# errors of file systems without `flock`
_UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)
_held_here: set[Path] = set()  # the run directories that this process holds
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_held_here.clear)


@contextmanager
def hold(run_dir: RunDir) -> Iterator[None]:
    """Hold the lock of a run directory; the system releases it when the process ends in any way.

    Raises:
        StudyHeldError: another process has the lock, or has the ledger open.
    """
    # read before locking, since some versions of filelock empty the file
    before = read_lock_file(run_dir)
    try:
        lock = _lock(run_dir)
    except Timeout:
        raise _held_by(run_dir, _owner(before) or _of_status(run_dir)) from None
    place = run_dir.root.resolve()
    with lock:
        if is_held(run_dir.ledger):
            raise _held_by(run_dir, _of_status(run_dir))
        _record_owner(run_dir, f"{os.getpid()} {socket.gethostname()}")
        own = read_lock_file(run_dir)
        _held_here.add(place)
        try:
            yield
        finally:
            _held_here.discard(place)
            if read_lock_file(run_dir) == own:  # otherwise the directory was replaced
                # if a study was killed, its status names the process that the file named before
                _record_owner(run_dir, before)


def _lock(run_dir: RunDir) -> AbstractContextManager[object]:
    """Take the lock itself, which the returned context releases.

    Raises:
        Timeout: another process has it.
        StudyHeldError: another process has it, on a file system without locks.
    """
    try:
        lock = FileLock(run_dir.lock, timeout=_WAIT_S, fallback_to_soft=False)
        return lock.acquire(poll_interval=_WAIT_S / 20)
    except OSError as error:
        if isinstance(error, Timeout) or error.errno not in _UNSUPPORTED:
            raise
    try:
        return SoftFileLock(run_dir.owner, timeout=0).acquire()
    except Timeout:
        owner = _owner(read_lock_file(run_dir))
        if run_dir.root.resolve() in _held_here:
            raise _held_by(run_dir, owner) from None
        found = f"another process runs this study{owner}, or was killed while running it"
        hint = f"wait for it, or end it; if it is gone, remove {run_dir.owner}"
        raise StudyHeldError(Problem(str(run_dir.root), "", found, hint)) from None


@contextmanager
def hold_for_reading(run_dir: RunDir) -> Iterator[None]:
    """Like `hold`, for read-only commands; without write permission, no lock is taken.

    Raises:
        StudyHeldError: as `hold`.
    """
    if os.access(run_dir.root, os.W_OK):
        with hold(run_dir):
            yield
        return
    if is_held(run_dir.ledger):
        raise _held_by(run_dir, _of_status(run_dir))
    yield


def _held_by(run_dir: RunDir, owner: str) -> StudyHeldError:
    if run_dir.root.resolve() in _held_here:
        found = f"this program already runs this study{owner}"
        return StudyHeldError(Problem(str(run_dir.root), "", found, "wait until it has ended"))
    found = f"another process runs this study{owner}"
    return StudyHeldError(Problem(str(run_dir.root), "", found, "wait for it, or end it"))


def _record_owner(run_dir: RunDir, text: str) -> None:
    """Write into the lock file, if it still exists."""
    path = run_dir.lock
    with suppress(OSError), open_inside(run_dir.root, path, "r+", encoding="utf-8") as file:
        file.write(text)
        file.truncate()


def _owner(text: str) -> str:
    """The process that the text of a lock file names, in words; empty if it names none."""
    owner = parse_owner(text)
    return "" if owner is None else _in_words(*owner)


def _of_status(run_dir: RunDir) -> str:
    status = find_status(run_dir)
    if status is None or not status.is_running:
        return ""  # it has just started, and this is the status of the previous process, if any
    return _in_words(status.pid, status.host)


def _in_words(pid: int | str, host: str) -> str:
    return f" (pid {pid} on {host})"
