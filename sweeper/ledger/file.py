"""The SQLite file of a ledger: opened by one process, checked and copied, with clear errors."""

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
from sweeper.files import NO_LINK
from sweeper.ledger.checking import check, damaged_error
from sweeper.ledger.digests import digest_of

_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
_HINTS = {
    sqlite3.SQLITE_CANTOPEN: "check that there is disk space, and that this user may write there",
    sqlite3.SQLITE_BUSY: "another program has it open: close it there",
    sqlite3.SQLITE_LOCKED: "another program has it open: close it there",
    sqlite3.SQLITE_NOMEM: "allow it more memory",
}


@contextmanager
def as_ledger_errors(name: str) -> Generator[None]:
    """Turn SQLite errors about the ledger `name` into errors with a fix.

    Raises:
        sqlite3.IntegrityError: a row exists already, so the file is fine.
        sqlite3.ProgrammingError: sweeper misuses the connection, such as after it was closed.
        LedgerError: for any other SQLite error, which is about the file.
    """
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):  # not the file's fault
        raise
    except sqlite3.DatabaseError as error:
        raise _of_the_disk(name, error) or damaged_error(name, f"SQLite says: {error}") from error


def _of_the_disk(name: str, error: sqlite3.Error) -> LedgerError | None:
    """The error of ledger `name` that the machine caused; None if the ledger is damaged."""
    code = code_of(error)
    if code in _ERRNO:
        number = _ERRNO[code]
        described = OSError(number, f"{os.strerror(number)} (SQLite says: {error})")
        return LedgerError(not_written(name, described))
    if code in _HINTS:
        found = f"cannot be written: SQLite says: {error}"
        return LedgerError(Problem(name, "", found, f"{_HINTS[code]}, then try again"))
    return None


def code_of(error: sqlite3.Error) -> int:
    """SQLite's error number; 0 if the file itself is damaged."""
    extended = getattr(error, "sqlite_errorcode", 0)
    # a truncated file is damaged, whatever the disk does
    return 0 if extended == sqlite3.SQLITE_IOERR_SHORT_READ else extended & 0xFF


class SameFile:
    """Whether a path still refers to the file that was opened there.

    SQLite continues to write to a file that was removed or renamed, without an error.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._opened = None if path is None else _identity(path)

    @property
    def is_in_place(self) -> bool:
        """Whether it does."""
        return self._path is None or _identity(self._path) == self._opened

    @property
    def is_replaced(self) -> bool:
        """Whether it refers to another file, and not just to none."""
        return not self.is_in_place and self._path is not None and self._path.exists()

    def check(self) -> None:
        """Refuse to continue if it does not.

        Raises:
            LedgerError: everything written from now on would be lost.
        """
        if not self.is_in_place:
            found = "it was removed or replaced while the study ran"
            hint = "restore it, or start over; nothing more is written to it"
            raise LedgerError(Problem(str(self._path), "", found, hint))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Closable(Protocol):
    """A connection, or an object that has one."""

    def close(self) -> None:
        """Close the file."""


def open_database(path: Path, name: str = "") -> tuple[sqlite3.Connection, int]:
    """Lock the ledger at `path` and check every row of it; returns it and its version.

    Errors call it `name`, by default its path.

    Raises:
        DamagedLedgerError: it is damaged or emptied.
        LedgerError: it has a later version, or cannot be opened.
    """
    name = name or str(path)
    with _as_open_errors(path, name):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        with close_on_error(connection):
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
                connection.execute(f"PRAGMA {pragma}")
            return connection, check(connection, name)


def open_to_read(path: Path) -> tuple[sqlite3.Connection, int]:
    """Like `open_database`, but read-only: neither the file nor anything next to it changes.

    SQLite reads a log only if it may write next to it, so if there is a log, a copy is read.

    Raises:
        LedgerError: as `open_database`; another process is writing to it.
    """
    for file in (path, _log_of(path)):
        if file.is_symlink():
            found = "it is a link, and no link inside a run directory is followed"
            raise LedgerError(Problem(str(file), "", found, "put a copy of the file in its place"))
    with _as_open_errors(path, str(path)):
        if is_held(path):
            raise LedgerError(
                Problem(str(path), "", "another program is writing to it", "wait for it")
            )
        if not _has_log(path):
            connection = _to_read(path, "immutable=1")
            with close_on_error(connection):
                return connection, check(connection, str(path))
    with _copied_with_log(path) as copy:
        connection, version = open_database(copy, str(path))
        return in_memory(connection), version


def _to_read(path: Path, options: str = "", timeout_s: float = 5) -> sqlite3.Connection:
    """A read-only connection that waits up to `timeout_s` for other processes."""
    address = f"{path.absolute().as_uri()}?mode=ro&{options}"
    return sqlite3.connect(
        address, timeout=timeout_s, uri=True, isolation_level=None, check_same_thread=False
    )


def _log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def _has_log(path: Path) -> bool:
    """Whether part of a ledger is in its log, as after a crash."""
    try:
        return _log_of(path).stat().st_size > 0
    except FileNotFoundError:
        return False


@contextmanager
def _copied_with_log(path: Path) -> Generator[Path]:
    """A temporary copy of a ledger and its log, next to which SQLite may write."""
    with tempfile.TemporaryDirectory() as directory:
        for file in (path, _log_of(path)):
            shutil.copyfile(file, Path(directory) / file.name)
        yield Path(directory) / path.name


@contextmanager
def close_on_error(connected: Closable) -> Generator[None]:
    """Close `connected` if the block fails, since otherwise its file would stay locked."""
    try:
        yield
    except BaseException:
        connected.close()
        raise


def check_file(path: Path) -> int:
    """Check a ledger that no process has open, without writing; returns its closed rounds.

    Raises:
        LedgerError: as `open_database`.
    """
    with _as_open_errors(path, str(path)), closing(_to_read(path)) as db:
        check(db, str(path))
        return int(db.execute("SELECT count(*) FROM closing").fetchone()[0])


def is_held(path: Path) -> bool:
    """Whether another process has the ledger at `path` open for writing; it leaves no files.

    Other problems of the ledger are reported when it is opened.
    """
    if not path.is_file():
        return False
    log = _log_of(path)
    has_log = log.exists()
    with suppress(sqlite3.Error), closing(_to_read(path, "readonly_shm=1", timeout_s=0)) as db:
        try:
            db.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.Error as error:
            if code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return True
        # SQLite creates a log to read from. Until this connection is closed, which shares the lock
        # of the ledger, no process can open the ledger for writing, so the log is nobody else's.
        if not has_log and log.exists() and not _has_log(path):
            log.unlink(missing_ok=True)
    return False


def write_copy(db: sqlite3.Connection, path: Path) -> None:
    """Write a copy of `db` to `path`, and check it.

    Raises:
        LedgerError: it cannot be written.
    """
    path.unlink(missing_ok=True)
    with as_ledger_errors(str(path)), closing(sqlite3.connect(path, isolation_level=None)) as copy:
        db.backup(copy)
        # a single file, which needs no other next to it to be read
        copy.execute("PRAGMA journal_mode=DELETE")
    check_file(path)


def in_memory(db: sqlite3.Connection) -> sqlite3.Connection:
    """An in-memory copy of `db`, which is closed."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    with closing(db):
        db.backup(copy)
    return copy


@dataclass(frozen=True, slots=True)
class Remains:
    """What can be read of a file that may no longer be a ledger: its sessions, by number."""

    sessions: Mapping[int, Mapping[str, Any]]
    n_ended: int


def read_remains(path: Path) -> Remains:
    """What can be read of the ledger at `path`, which no process has open; nothing is written."""
    sessions: dict[int, Mapping[str, Any]] = {}
    n_ended = 0
    # without its log
    with suppress(sqlite3.Error), closing(_to_read(path, "immutable=1")) as db:
        for number, body, digest in db.execute("SELECT session, body, digest FROM session"):
            if digest_of(number, body) == digest:
                sessions[number] = json.loads(body)
        ((n_ended,),) = db.execute("SELECT count(*) FROM ending")
    return Remains(sessions, n_ended)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many trials have ended, and how many rounds are closed."""

    trials: int
    rounds: int


def count_committed(path: Path) -> Counts | None:
    """Count the rows of the ledger of a study that does not run, without checking or writing.

    None if it cannot be read.
    """
    with suppress(sqlite3.Error, OSError):
        if not _has_log(path):
            return _count(_to_read(path, "immutable=1"))
        with _copied_with_log(path) as copy:
            return _count(_to_read(copy))
    return None


def _count(connection: sqlite3.Connection) -> Counts:
    """The counts of a ledger, whose connection is closed."""
    with closing(connection) as db:
        query = "SELECT (SELECT count(*) FROM ending), count(*) FROM closing"
        ((trials, rounds),) = db.execute(query)
    return Counts(trials, rounds)


@contextmanager
def _as_open_errors(path: Path, name: str) -> Generator[None]:
    """Report what is wrong with a ledger that is being opened."""
    if path.is_symlink():
        raise LedgerError(Problem(name, "", NO_LINK, "put a copy of the file in its place"))
    if not path.exists():
        raise damaged_error(name, "it is missing")
    if path.stat().st_size == 0:
        raise damaged_error(name, "the ledger is empty")
    try:
        with as_ledger_errors(name):
            yield
    except (ValueError, TypeError, KeyError) as error:
        # text with an invalid encoding, or JSON that is invalid or lacks a key
        reason = f"{type(error).__name__}: {error}"
        raise damaged_error(name, f"a row cannot be read ({reason})") from error
