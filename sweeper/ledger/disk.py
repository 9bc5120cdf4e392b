"""What SQLite says of the disk: an error that a ledger can do nothing about, and what mends it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sweeper.errors import LedgerError, Problem, not_written
from sweeper.ledger.checking import damaged

_ERRNO = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
}
_MENDS = {
    sqlite3.SQLITE_CANTOPEN: "see that there is room, and that this user may write there",
    sqlite3.SQLITE_BUSY: "another program has it open: close it there",
    sqlite3.SQLITE_LOCKED: "another program has it open: close it there",
    sqlite3.SQLITE_NOMEM: "let it have more memory",
}


@contextmanager
def refusing(name: str) -> Generator[None]:
    """Say what SQLite has against the ledger `name`, and what mends it.

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
    """What the machine has against the ledger `name`; None where the ledger itself is damaged."""
    code = code_of(error)
    if code in _ERRNO:
        number = _ERRNO[code]
        said = OSError(number, f"{os.strerror(number)} (SQLite says: {error})")
        return LedgerError(not_written(name, said))
    if code in _MENDS:
        found = f"cannot be written: SQLite says: {error}"
        return LedgerError(Problem(name, "", found, f"{_MENDS[code]}, then go on"))
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
            mend = "put it back, or start over; nothing is written to it any more"
            raise LedgerError(Problem(str(self._path), "", found, mend))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
