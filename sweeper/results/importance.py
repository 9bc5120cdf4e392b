"""`importance.parquet`: how much each parameter matters for each objective."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from sweeper.results.columns import IMPORTANCE
from sweeper.results.replace import swapped
from sweeper.results.tables import rows_table
from sweeper.rundir import RunDir

_SCHEMA = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in IMPORTANCE])


def is_importance(path: Path) -> bool:
    """Whether the file at `path` can be read, and has its columns."""
    try:
        table = parquet.read_table(path)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        return False
    return table.schema.names == _SCHEMA.names


def write_importance(
    run_dir: RunDir, importances: Mapping[str, Mapping[str, float]], rounds: int, n_trials: int
) -> None:
    """Replace the file by these importances, by objective and parameter.

    They are of `n_trials` complete trials, after this many `rounds`.
    """
    at = time.time()
    rows = [
        {
            "round": rounds,
            "metric": objective,
            "parameter": param,
            "importance": importance,
            "n_trials": n_trials,
            "computed_at": at,
        }
        for objective, by_param in importances.items()
        for param, importance in by_param.items()
    ]
    sink = pa.BufferOutputStream()
    parquet.write_table(rows_table(rows, _SCHEMA), sink)
    swapped(run_dir.importance, run_dir.staging, sink.getvalue().to_pybytes())
