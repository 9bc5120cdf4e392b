"""Checks that each row of a ledger is intact and that none is missing.

Digests show that a row is unchanged, and the chain of rounds that none of a round's rows is
missing. References between tables reveal what neither covers: a row that was removed as a whole.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from sweeper.errors import FRESH, DamagedLedgerError, LedgerError, Problem
from sweeper.ledger.digests import chain_of, digest_of, digests_by_round
from sweeper.ledger.schema import SCHEMA_VERSION, TABLES

HINT = f"restore a copy of it, or start over with {FRESH}"


def missing_rows(db: sqlite3.Connection) -> Iterator[str]:
    """The missing rows of a ledger whose rows are all intact.

    Raises:
        ValueError, TypeError, KeyError: a body is damaged JSON.
    """
    for table in ("session", "round"):
        ((count, last),) = db.execute(f"SELECT count(*), max({table}) FROM {table}")
        if count != (last or 0):
            yield f"row {_first_gap(db, table)} of table {table} is missing"
    ((sessions, rounds, closed),) = db.execute(
        "SELECT (SELECT count(*) FROM session), (SELECT count(*) FROM round),"
        " (SELECT count(*) FROM closing)"
    )
    ((trials,),) = db.execute("SELECT count(*) FROM trial")
    if (rounds or trials or closed) and not sessions:
        yield f"table session is empty, but there are {trials} trials and {rounds} rounds"
    needed = [closed]
    for table in ("trial", "bucket", "ending"):
        ((last,),) = db.execute(f"SELECT max(round) FROM {table}")
        needed.append(last or 0)
        # buckets and endings are added in the transaction that closes their round
        if table != "trial" and (last or 0) > closed:
            yield f"row {last} of table closing is missing"
    if max(needed) > rounds:
        yield f"row {max(needed)} of table round is missing"
    if rounds > closed + 1:  # at most one is open
        yield f"row {closed + 1} of table closing is missing"
    yield from (f"row {number} of table trial is missing" for number in _lost_trials(db, closed))


def _first_gap(db: sqlite3.Connection, table: str) -> int:
    for expected, (number,) in enumerate(db.execute(f"SELECT {table} FROM {table} ORDER BY 1"), 1):
        if number != expected:
            return expected
    raise AssertionError("no row is missing")


def _lost_trials(db: sqlite3.Connection, closed: int) -> Iterator[int]:
    """Trials that have ended or are in training, but were never asked for."""
    query = "SELECT number FROM ending WHERE number NOT IN (SELECT number FROM trial)"
    yield from (number for (number,) in db.execute(f"{query} ORDER BY number"))
    # the last round mentions unfinished trials, in its plan or in what it decided
    rounds = db.execute("SELECT body FROM round WHERE round > ?", (closed,)).fetchall()
    closings = db.execute("SELECT body FROM closing WHERE round = ?", (closed,)).fetchall()
    training = {number for (body,) in rounds for number in _planned(json.loads(body))}
    training |= {int(number) for (body,) in closings for number in json.loads(body)["live"]}
    known = "SELECT 1 FROM trial WHERE number = ?"
    yield from (n for n in sorted(training) if not db.execute(known, (n,)).fetchone())


def _planned(body: Mapping[str, Any]) -> Iterator[int]:
    plan = body.get("plan", body)  # version 1 wrote only the plan
    for bucket in plan.get("buckets", ()):
        yield from (lane["number"] for lane in bucket["lanes"])


def check(db: sqlite3.Connection, name: str) -> int:
    """The version of a ledger, after checking that every row is intact and none is missing.

    Raises:
        DamagedLedgerError: with the row, or with what SQLite says.
        LedgerError: a later version of sweeper wrote it.
        sqlite3.DatabaseError: SQLite cannot read it.
        ValueError, TypeError, KeyError: the version, or a plan, is not valid JSON any more.
    """
    # SQLite notices a row that its page no longer counts, but not a flipped bit in a value
    (verdict,) = _rows(db, "PRAGMA quick_check(1)")[0]
    if verdict != "ok":
        raise damaged_error(name, f"SQLite says: {verdict}")
    _check_rows(db, name, "meta")  # the same in every version, and checked before it is used
    rows = _rows(db, "SELECT body FROM meta WHERE key = 'schema_version'")
    if not rows:
        raise damaged_error(name, "it does not say its version")
    written = json.loads(rows[0][0])
    version = written["schema_version"]
    if version > SCHEMA_VERSION:
        by = written.get("sweeper")
        found = f"the ledger has version {version}, but this sweeper reads up to {SCHEMA_VERSION}"
        hint = f"use {f'sweeper {by}, which wrote it' if by else 'the later version'}, or later"
        raise LedgerError(Problem(name, "", found, hint))
    for table in TABLES:
        if table != "closing":  # its digest does not cover the chain, which is checked with it
            _check_rows(db, name, table)
    query = "SELECT round, body, digest, chain FROM closing ORDER BY round"
    chain, row_digests = b"", digests_by_round(db)
    for expected, (number, body, digest, recorded_chain) in enumerate(db.execute(query), 1):
        chain = chain_of(chain, digest, row_digests.get(number, ()))
        if number != expected or digest != digest_of(number, body) or chain != recorded_chain:
            raise _damaged_row(name, "closing", number)
    for missing in missing_rows(db):
        raise damaged_error(name, missing)
    return version


def _check_rows(db: sqlite3.Connection, name: str, table: str) -> None:
    for *values, digest in db.execute(f"SELECT * FROM {table}"):
        if digest_of(*values) != digest:
            raise _damaged_row(name, table, values[0])


def damaged_error(name: str, found: str) -> DamagedLedgerError:
    """The error of a ledger whose content is not what was written."""
    return DamagedLedgerError(Problem(name, "", found, HINT))


def _damaged_row(name: str, table: str, key: object) -> DamagedLedgerError:
    return damaged_error(name, f"row {key} of table {table} is damaged")


def _rows(db: sqlite3.Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return db.execute(query, values).fetchall()
