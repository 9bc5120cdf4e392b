"""Whether every row of a ledger is what was written, and none is missing."""

from __future__ import annotations

import json
import sqlite3
from hashlib import blake2b
from typing import Any

from sweeper.errors import LedgerError

SCHEMA_VERSION = 2
MEND = "put back a copy of ledger.db, or start over with --fresh"

_TABLES = ("meta", "session", "round", "trial", "ending", "bucket")


def check(db: sqlite3.Connection, name: str) -> None:
    """Refuse a ledger in which any row is not what was written, or one is missing.

    Raises:
        LedgerError: with the row, or with what SQLite says.
        sqlite3.DatabaseError: SQLite cannot read it.
        ValueError, TypeError, KeyError: what says its version is no longer JSON.
    """
    # SQLite sees a row that its page no longer counts; it does not see a flipped bit in a value
    (said,) = _rows(db, "PRAGMA quick_check(1)")[0]
    if said != "ok":
        raise LedgerError(f"{name}: SQLite says: {said}; {MEND}")
    rows = _rows(db, "SELECT body FROM meta WHERE key = 'schema_version'")
    version = json.loads(rows[0][0])["schema_version"] if rows else None
    if version != SCHEMA_VERSION:
        raise LedgerError(
            f"{name}: the ledger has version {version}, this program reads "
            f"{SCHEMA_VERSION}; run it with the version of sweeper that wrote it"
        )
    for table in _TABLES:
        for *values, digest in _rows(db, f"SELECT * FROM {table}"):
            if digest_of(*values) != digest:
                raise _damaged(name, table, values[0])
    _check_chain(db, name)


def digest_of(*values: int | str | bytes) -> bytes:
    """The digest of a row, or of a part of it."""
    hashed = blake2b(digest_size=16)
    for value in values:
        raw = value if isinstance(value, bytes) else str(value).encode()
        hashed.update(len(raw).to_bytes(8, "little") + raw)
    return hashed.digest()


def _check_chain(db: sqlite3.Connection, name: str) -> None:
    """Each closed round is chained to the one before it, and to its buckets and endings."""
    chain = b""
    query = "SELECT round, body, digest, chain FROM closing ORDER BY round"
    for expected, (number, body, digest, written) in enumerate(_rows(db, query), 1):
        parts = [chain, digest]
        for table, order in (("bucket", "bucket"), ("ending", "rowid")):
            select = f"SELECT digest FROM {table} WHERE round = ? ORDER BY {order}"
            parts += [row for (row,) in _rows(db, select, number)]
        chain = blake2b(b"".join(parts)).digest()
        if number != expected or digest != digest_of(number, body) or chain != written:
            raise _damaged(name, "closing", number)


def _rows(db: sqlite3.Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return db.execute(query, values).fetchall()


def _damaged(name: str, table: str, key: object) -> LedgerError:
    return LedgerError(f"{name}: row {key} of table {table} is damaged; {MEND}")
