"""Tables of results with only the columns that a test needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from sweeper.dashboard.buckets import Buckets, Spans
from sweeper.dashboard.trials import PublishedTrials
from sweeper.results.columns import BUCKETS, CIRCUMSTANCES, INT64, OUTCOME, SPANS, STRING, TIME
from sweeper.results.tables import rows_table
from sweeper.results.timeline import Span

Row = Mapping[str, Any]
SEARCH = {"optimizer.lr": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True}}
_TYPES = {column.name: column.type for column in (*OUTCOME, *CIRCUMSTANCES, *BUCKETS, *SPANS)}


def trials_of(
    rows: Sequence[Row],
    search: Mapping[str, Any] = SEARCH,
    metric: str | Sequence[str] = "val_loss",
    direction: str | Sequence[str] = "minimize",
) -> PublishedTrials:
    """Trials with these columns; number and state are filled in."""
    filled = [
        {
            "trial_number": number,
            "state": "COMPLETE",
            "reason": None,
            "epochs_done": 4,
            "error_type": None,
            "error_message": None,
            "started_at": 100.0,
            "finished_at": 101.0 + number,
            "last_round": number,
            "params_json": json.dumps({k[7:]: v for k, v in row.items() if k.startswith("params")}),
            **row,
        }
        for number, row in enumerate(rows)
    ]
    said = {"metric": metric, "direction": direction, "search": search, "columns": {}}
    return PublishedTrials(_table(filled), said)


def spans_of(sessions: Sequence[Sequence[Span]]) -> Spans:
    """The recorded spans of some starts of the program, in their first round."""
    rows = [
        {"run_id": f"run {number}", "round": number, **span._asdict()}
        for number, spans in enumerate(sessions, 1)
        for span in spans
    ]
    return Spans(_table(rows))


def buckets_of(rows: Sequence[Row], recorded: Spans | None = None) -> Buckets:
    """Buckets with these columns; the others have the values of a thread on a CPU."""
    common = {
        "round": 1,
        "bucket_id": 0,
        "class_id": "c",
        "strategy": "exact",
        "lane_loop": "map",
        "capacity": 4,
        "lanes_live": 4,
        "trials": "[0, 1]",
        "place": "thread 0",
        "device": "cpu:0",
        "started_at": 100.0,
        "finished_at": None,
        "compile_s": 0.0,
        "cache_hit": None,
        "train_s": 1.0,
        "predicted_compile_s": None,
        "predicted_train_s": 1.0,
        "waste_fraction": 0.0,
        "occupancy": 1.0,
        "epochs_from": 1,
        "epochs_to": 4,
        "memory_predicted_bytes": 10_000_000,
        "memory_peak_bytes": None,
        "attempt": 1,
        "outcome": "trained",
    }
    return Buckets(_table([{**common, **row} for row in rows]), recorded)


def _table(rows: Sequence[Row]) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    schema = pa.schema([pa.field(name, _type(name, rows)) for name in names])
    table = rows_table(rows, schema)
    columns = [
        column.dictionary_encode() if pa.types.is_string(column.type) else column
        for column in table.columns
    ]
    return pa.table(dict(zip(names, columns, strict=True)))


def _type(name: str, rows: Sequence[Row]) -> pa.DataType:
    if name in _TYPES:
        return _TYPES[name]
    if name.endswith("_at"):
        return TIME
    values = [row.get(name) for row in rows]
    if any(isinstance(value, bool) for value in values):
        return pa.bool_()
    if any(isinstance(value, str) for value in values):
        return STRING
    return INT64 if all(isinstance(value, int) for value in values) else pa.float64()
