"""The process that runs a study: what the lock of the run directory says, and whether it has ended.

A process that holds the lock writes its number and its host into the lock file.
"""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from sweeper.files import open_inside, read_json
from sweeper.rundir import RunDir

_MAX_LETTERS = 300  # of a lock file: enough for a number and a host name


class Owner(NamedTuple):
    """A process that holds the lock of a run directory, or held it last."""

    pid: str
    host: str


def read_lock_file(run_dir: RunDir) -> str:
    """The text of the lock file; empty if it has none, or cannot be read."""
    if not run_dir.lock.is_file():  # a pipe would block
        return ""
    try:
        with open_inside(run_dir.root, run_dir.lock, "r", encoding="utf-8") as file:
            return file.read(_MAX_LETTERS)
    except (OSError, ValueError):
        return ""


def parse_owner(text: str) -> Owner | None:
    """The process that the text of a lock file names; None if it names none."""
    match text.split():
        case [pid, host]:
            return Owner(pid, host)
        case _:
            return None


def has_ended(run_dir: RunDir, pid: int, host: str) -> bool:
    """Whether the process that ran a study ended without updating the status.

    False if that is not known. It is known for any host if the process noted that a signal ended
    it, otherwise only for this host.
    """
    return _noted_its_end(run_dir, pid, host) or _was_killed(run_dir, pid, host)


def _noted_its_end(run_dir: RunDir, pid: int, host: str) -> bool:
    """Whether the process noted that a signal ended it at once."""
    try:
        noted = read_json(run_dir.exit_note)
    except (OSError, ValueError):
        return False
    return noted == {"pid": pid, "host": host}


def _was_killed(run_dir: RunDir, pid: int, host: str) -> bool:
    """Whether the process is gone from this host.

    Never True on systems where asking for a process is harmful. Another process may have the same
    number now, so the lock is checked, too.
    """
    if host != socket.gethostname() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it belongs to somebody else
    return _has_lost_lock(run_dir, host)


def _has_lost_lock(run_dir: RunDir, host: str) -> bool:
    """Whether a process of this host has held the lock, and nobody holds it now.

    False if that is not known: the file was removed, or cannot be opened, or its file system has
    no locks. The check shares the lock for less than a millisecond; a study that starts meanwhile
    waits for it.
    """
    import fcntl  # only on POSIX

    owner = parse_owner(read_lock_file(run_dir))
    if owner is None or owner.host != host:
        return False
    try:
        with open_inside(run_dir.root, run_dir.lock, "r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # somebody holds it, or it is not known
        return False
    return True
