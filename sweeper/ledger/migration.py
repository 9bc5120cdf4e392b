"""Converts ledgers of earlier versions to the current one.

Each version has one function, which returns the body that the next version would have written.
Version 1 comes from before samplers and pruners stored anything with the study.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from sweeper.ledger.digests import chain_of, digest_of, digests_by_round
from sweeper.ledger.schema import SCHEMA_VERSION, TABLES
from sweeper.trial import fields_of

Body = dict[str, Any]
_NOTHING: Mapping[str, Any] = {"trials": {}, "study": {}}


def _from_1(table: str, body: Body) -> Body:
    match table:
        case "round":
            return {"plan": body, "memory": _NOTHING}
        case "closing":
            kept: Body = {"trials": body.pop("attributes"), "study": {}}
            # the timeout, for which the time of all sessions is summed up, did not exist yet
            return {**body, "memory": kept, "spent_s": body["elapsed_s"]}
        case "session":
            # a digest of arrays in a layout that no later version has; it is not compared
            return {"code": {}, "continued_from": None, **body, "data_digest": None}
        case _:
            return body


MIGRATIONS: Mapping[int, Callable[[str, Body], Body]] = {1: _from_1}


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Rewrite every row of a checked ledger of `version`, in the current transaction."""
    for table in TABLES:
        for key, *values in db.execute(f"SELECT rowid, * FROM {table}").fetchall():
            _rewrite(db, table, key, values, version)
    chain, row_digests = b"", digests_by_round(db)
    query = "SELECT round, digest FROM closing ORDER BY round"
    for number, digest in db.execute(query).fetchall():
        chain = chain_of(chain, digest, row_digests.get(number, ()))
        db.execute("UPDATE closing SET chain = ? WHERE round = ?", (chain, number))


def _rewrite(db: sqlite3.Connection, table: str, key: int, values: list[Any], version: int) -> None:
    columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
    row = dict(zip(columns, values, strict=True))
    body = json.loads(row["body"])
    if table == "meta" and row["key"] == "schema_version":
        body = {**body, "schema_version": SCHEMA_VERSION, "began_as": version}
    for step in range(version, SCHEMA_VERSION):
        body = MIGRATIONS[step](table, body)
    row["body"] = dumps(body)
    digest_inputs = [value for name, value in row.items() if name not in ("digest", "chain")]
    db.execute(
        f"UPDATE {table} SET body = ?, digest = ? WHERE rowid = ?",
        (row["body"], digest_of(*digest_inputs), key),
    )


def dumps(body: Mapping[str, Any]) -> str:
    """The JSON text of a body, the same in every version; dataclasses are written as dicts."""
    return json.dumps(body, default=fields_of, separators=(",", ":"), allow_nan=False)
