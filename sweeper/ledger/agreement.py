"""Whether the tables of a ledger agree with each other: no row is missing that another one needs.

A digest tells that a row is what was written, the chain that nothing is gone of what a closed round
brought; that a row of another table was removed as a whole neither of them tells.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any


def disagreement(db: sqlite3.Connection) -> str | None:
    """The first row that is missing from a ledger whose rows are all as written; None if none is.

    Raises:
        ValueError, TypeError, KeyError: a body is no longer JSON.
    """
    return next(_missing(db), None)


def _missing(db: sqlite3.Connection) -> Iterator[str]:
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
        yield f"table session is empty, and there are {trials} trials and {rounds} rounds"
    needed = [closed]
    for table in ("trial", "bucket", "ending"):
        ((last,),) = db.execute(f"SELECT max(round) FROM {table}")
        needed.append(last or 0)
        # a round brings buckets and endings in the transaction that closes it
        if table != "trial" and (last or 0) > closed:
            yield f"row {last} of table closing is missing"
    if max(needed) > rounds:
        yield f"row {max(needed)} of table round is missing"
    if rounds > closed + 1:  # one at most is open
        yield f"row {closed + 1} of table closing is missing"
    yield from (f"row {number} of table trial is missing" for number in _lost_trials(db, closed))


def _first_gap(db: sqlite3.Connection, table: str) -> int:
    for expected, (number,) in enumerate(db.execute(f"SELECT {table} FROM {table} ORDER BY 1"), 1):
        if number != expected:
            return expected
    raise AssertionError("there is none")


def _lost_trials(db: sqlite3.Connection, closed: int) -> Iterator[int]:
    """The trials that have ended, or are in training, and were never asked for."""
    query = "SELECT number FROM ending WHERE number NOT IN (SELECT number FROM trial)"
    yield from (number for (number,) in db.execute(f"{query} ORDER BY number"))
    # whoever has not ended is told of by the last round: in its plan, or in what it decided
    rounds = db.execute("SELECT body FROM round WHERE round > ?", (closed,)).fetchall()
    closings = db.execute("SELECT body FROM closing WHERE round = ?", (closed,)).fetchall()
    training = {number for (body,) in rounds for number in _planned(json.loads(body))}
    training |= {int(number) for (body,) in closings for number in json.loads(body)["live"]}
    known = "SELECT 1 FROM trial WHERE number = ?"
    yield from (n for n in sorted(training) if not db.execute(known, (n,)).fetchone())


def _planned(body: Mapping[str, Any]) -> Iterator[int]:
    plan = body.get("plan", body)  # version 1 wrote the plan alone
    for bucket in plan.get("buckets", ()):
        yield from (lane["number"] for lane in bucket["lanes"])
