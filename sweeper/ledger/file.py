"""The SQLite file of a ledger: opened by one process, checked, and copied; errors of the disk."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sweeper.errors import LedgerError, Problem, not_written
from sweeper.ledger.checking import check, damaged, digest_of

_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
_HINTS = {
    sqlite3.SQLITE_CANTOPEN: "see that there is room, and that this user may write there",
    sqlite3.SQLITE_BUSY: "another program has it open: close it there",
    sqlite3.SQLITE_LOCKED: "another program has it open: close it there",
    sqlite3.SQLITE_NOMEM: "let it have more memory",
}


@contextmanager
def refusing(name: str) -> Generator[None]:
    """Turn errors of SQLite about the ledger `name` into errors with a fix.

    Raises:
        LedgerError: of what the block raises as an error of SQLite.
    """
    try:
        yield
    except sqlite3.IntegrityError:  # a round that is there already: nothing is wrong with the file
        raise
    except sqlite3.DatabaseError as error:
        raise _of_the_disk(name, error) or damaged(name, f"SQLite says: {error}") from error


def _of_the_disk(name: str, error: sqlite3.Error) -> LedgerError | None:
    """The fault of the machine in an error of ledger `name`; None if the ledger is damaged."""
    code = code_of(error)
    if code in _ERRNO:
        number = _ERRNO[code]
        said = OSError(number, f"{os.strerror(number)} (SQLite says: {error})")
        return LedgerError(not_written(name, said))
    if code in _HINTS:
        found = f"cannot be written: SQLite says: {error}"
        return LedgerError(Problem(name, "", found, f"{_HINTS[code]}, then go on"))
    return None


def code_of(error: sqlite3.Error) -> int:
    """SQLite's number of an error, 0 where it is the file that is damaged."""
    extended = getattr(error, "sqlite_errorcode", 0)
    # a file that ends too early is damaged, whatever the disk
    return 0 if extended == sqlite3.SQLITE_IOERR_SHORT_READ else extended & 0xFF


class SameFile:
    """Whether a path still leads to the file that was opened there.

    SQLite goes on writing to a file that was removed or renamed, and says nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._opened = None if path is None else _identity(path)

    def check(self) -> None:
        """Refuse to go on where it does not.

        Raises:
            LedgerError: what is written to it from now on would be lost.
        """
        if self._path is not None and _identity(self._path) != self._opened:
            found = "it was removed or replaced while the study ran"
            hint = "put it back, or start over; nothing is written to it any more"
            raise LedgerError(Problem(str(self._path), "", found, hint))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Closable(Protocol):
    """A connection, or what has one."""

    def close(self) -> None:
        """Let go of the file."""


def open_database(path: Path, name: str = "") -> tuple[sqlite3.Connection, int]:
    """The ledger at `path`, locked, every row of it checked; and its version.

    Errors call it by its `name`, which is its path where none is given.

    Raises:
        DamagedLedgerError: it is damaged or emptied.
        LedgerError: it is of a later version, or the disk does not let it be opened.
    """
    name = name or str(path)
    with _refusing(path, name):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        with closed_on_error(connection):
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
                connection.execute(f"PRAGMA {pragma}")
            return connection, check(connection, name)


def opened_to_read(path: Path) -> tuple[sqlite3.Connection, int]:
    """The same ledger to be read only: neither the file nor anything next to it changes.

    SQLite reads a log only where it may write next to it. So if there is one, a copy is read.

    Raises:
        LedgerError: as `open_database`; another process is writing to it.
    """
    for file in (path, _log_of(path)):
        if file.is_symlink():
            found = "it is a link, and no link inside a run directory is followed"
            raise LedgerError(Problem(str(file), "", found, "put a copy of the file in its place"))
    with _refusing(path, str(path)):
        if is_held(path):
            raise LedgerError(Problem(str(path), "", "another program writes to it", "wait for it"))
        if not _has_log(path):
            address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            connection = sqlite3.connect(
                address, uri=True, isolation_level=None, check_same_thread=False
            )
            with closed_on_error(connection):
                return connection, check(connection, str(path))
    with tempfile.TemporaryDirectory() as directory:
        for file in (path, _log_of(path)):
            shutil.copyfile(file, Path(directory) / file.name)
        connection, version = open_database(Path(directory) / path.name, str(path))
        return in_memory(connection), version


def _has_log(path: Path) -> bool:
    """Whether some of the ledger is in its log, as after a crash."""
    try:
        return _log_of(path).stat().st_size > 0
    except FileNotFoundError:
        return False


def _log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


@contextmanager
def closed_on_error(connected: Closable) -> Generator[None]:
    """Where an error leaves the block, close what nobody else knows: its file would stay locked."""
    try:
        yield
    except BaseException:
        connected.close()
        raise


def checked(path: Path) -> int:
    """The closed rounds of a ledger that nobody has open; nothing is written.

    Raises:
        LedgerError: as `open_database`.
    """
    with _refusing(path, str(path)):
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as db:
            check(db, str(path))
            return int(db.execute("SELECT count(*) FROM closing").fetchone()[0])


def is_held(path: Path) -> bool:
    """Whether another process has the ledger at `path` open as the one that writes to it.

    To be asked by whoever has the lock of its directory; nothing is left beside it.
    """
    if not path.is_file():
        return False
    log = _log_of(path)
    has_log = log.exists()
    address = f"{path.absolute().as_uri()}?mode=ro&readonly_shm=1"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as db:
            db.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error as error:  # what else is wrong with it says whoever opens it
        if code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return True
    if not has_log and log.exists() and log.stat().st_size == 0:
        log.unlink()
    return False


def copied(db: sqlite3.Connection, path: Path) -> None:
    """Write a copy of `db` to `path`, and check it.

    Raises:
        LedgerError: the disk does not take it.
    """
    path.unlink(missing_ok=True)
    with refusing(str(path)), closing(sqlite3.connect(path, isolation_level=None)) as copy:
        db.backup(copy)
        # one file, which needs none beside it to be read
        copy.execute("PRAGMA journal_mode=DELETE")
    checked(path)


def in_memory(db: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of `db` in memory; `db` is closed."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with closing(db):
        db.backup(copy)
    return copy


@dataclass(frozen=True, slots=True)
class Remains:
    """What can be read of a file that may be no ledger any more: its sessions, by number."""

    sessions: Mapping[int, Mapping[str, Any]]
    n_ended: int


def remains(path: Path) -> Remains:
    """What is left of the ledger at `path`, which nobody has open; nothing is written."""
    sessions: dict[int, Mapping[str, Any]] = {}
    n_ended = 0
    # as it lies there: what its log holds is no part of it
    address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as db:
        for number, body, digest in db.execute("SELECT session, body, digest FROM session"):
            if digest_of(number, body) == digest:
                sessions[number] = json.loads(body)
        ((n_ended,),) = db.execute("SELECT count(*) FROM ending")
    return Remains(sessions, n_ended)


@contextmanager
def _refusing(path: Path, name: str) -> Generator[None]:
    """Say what is wrong with a ledger that is opened."""
    if path.is_symlink():
        found = "it is a link, and sweeper follows no link inside a run directory"
        raise LedgerError(Problem(name, "", found, "put a copy of the file in its place"))
    if not path.exists():
        raise damaged(name, "it is gone")
    if path.stat().st_size == 0:
        raise damaged(name, "the ledger is empty")
    try:
        with refusing(name):
            yield
    except (ValueError, TypeError, KeyError) as error:
        # of text that cannot be read as such, or is no JSON
        raise damaged(name, f"SQLite says: {error}") from error
