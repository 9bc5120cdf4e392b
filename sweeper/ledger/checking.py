"""Whether every row of a ledger is what was written, and none is missing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sweeper.errors import DamagedLedgerError, LedgerError, Problem
from sweeper.ledger.agreement import disagreement

SCHEMA_VERSION = 2
MEND = "put back a copy of it, or start over with --fresh"
TABLES = ("meta", "session", "round", "trial", "ending", "bucket")


def check(db: sqlite3.Connection, name: str) -> int:
    """The version of a ledger in which every row is what was written, and none is missing.

    Raises:
        DamagedLedgerError: with the row, or with what SQLite says.
        LedgerError: a later version of sweeper wrote it.
        sqlite3.DatabaseError: SQLite cannot read it.
        ValueError, TypeError, KeyError: what says its version, or a plan, is no longer JSON.
    """
    # SQLite sees a row that its page no longer counts; it does not see a flipped bit in a value
    (said,) = _rows(db, "PRAGMA quick_check(1)")[0]
    if said != "ok":
        raise damaged(name, f"SQLite says: {said}")
    _check_rows(db, name, "meta")  # of every version, before what it says is believed
    rows = _rows(db, "SELECT body FROM meta WHERE key = 'schema_version'")
    if not rows:
        raise damaged(name, "it does not say its version")
    written = json.loads(rows[0][0])
    version = written["schema_version"]
    if version > SCHEMA_VERSION:
        by = written.get("sweeper")
        found = f"the ledger has version {version}, this sweeper reads up to {SCHEMA_VERSION}"
        mend = f"go on with {f'sweeper {by}, which wrote it' if by else 'the later one'}, or later"
        raise LedgerError(Problem(name, "", found, mend))
    for table in TABLES:
        _check_rows(db, name, table)
    query = "SELECT round, body, digest, chain FROM closing ORDER BY round"
    chain, brought = b"", digests_by_round(db)
    for expected, (number, body, digest, told) in enumerate(db.execute(query), 1):
        chain = chained(chain, digest, brought.get(number, ()))
        if number != expected or digest != digest_of(number, body) or chain != told:
            raise _damaged_row(name, "closing", number)
    if missing := disagreement(db):
        raise damaged(name, missing)
    return version


def _check_rows(db: sqlite3.Connection, name: str, table: str) -> None:
    for *values, digest in db.execute(f"SELECT * FROM {table}"):
        if digest_of(*values) != digest:
            raise _damaged_row(name, table, values[0])


def digest_of(*values: int | str | bytes) -> bytes:
    """The digest of a row, or of a part of it."""
    hashed = blake2b(digest_size=16)
    for value in values:
        raw = value if isinstance(value, bytes) else str(value).encode()
        hashed.update(len(raw).to_bytes(8, "little") + raw)
    return hashed.digest()


def digests_by_round(db: sqlite3.Connection) -> Mapping[int, Sequence[bytes]]:
    """The digests of what each round brought: of its buckets, then of its endings."""
    found: dict[int, list[bytes]] = {}
    for table, order in (("bucket", "round, bucket"), ("ending", "number")):
        for number, digest in db.execute(f"SELECT round, digest FROM {table} ORDER BY {order}"):
            found.setdefault(number, []).append(digest)
    return found


def chained(before: bytes, digest: bytes, brought: Iterable[bytes]) -> bytes:
    """The chain of a closed round: to the chain `before` it, with what it decided and brought."""
    return blake2b(b"".join([before, digest, *brought])).digest()


def damaged(name: str, found: str) -> DamagedLedgerError:
    """That the ledger `name` is not what was written."""
    return DamagedLedgerError(Problem(name, "", found, MEND))


def _damaged_row(name: str, table: str, key: object) -> DamagedLedgerError:
    return damaged(name, f"row {key} of table {table} is damaged")


def _rows(db: sqlite3.Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return db.execute(query, values).fetchall()
