"""`importance.parquet`: how much each parameter matters for each objective."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from sweeper.errors import SetupError
from sweeper.files import write_unsynced
from sweeper.results.columns import IMPORTANCE
from sweeper.results.decoded import check_published
from sweeper.results.tables import rows_table
from sweeper.rundir import RunDir

_NAMES = [column.name for column in IMPORTANCE]
_LEAST_COLUMNS = 6  # in the first version


def is_importance(path: Path) -> bool:
    """Whether the file at `path` can be read and has the columns of importances."""
    try:
        check_published(path)
        table = parquet.read_table(path, page_checksum_verification=True)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, SetupError):
        return False
    names = table.schema.names
    return names == _NAMES[: len(names)] and len(names) >= _LEAST_COLUMNS


def write_importance(
    run_dir: RunDir,
    schema: pa.Schema,
    importances: Mapping[str, Mapping[str, Mapping[str, Any]]],
    rounds: int,
    n_trials: int,
) -> None:
    """Replace the file of a study by these importances: values by objective, parameter and column.

    They were computed from `n_trials` complete trials after this many `rounds`; `schema` describes
    the study, too.
    """
    at = time.time()
    rows = [
        {
            "round": rounds,
            "metric": objective,
            "parameter": param,
            **measures,
            "n_trials": n_trials,
            "computed_at": at,
        }
        for objective, by_param in importances.items()
        for param, measures in by_param.items()
    ]
    sink = pa.BufferOutputStream()
    parquet.write_table(rows_table(rows, schema), sink, write_page_checksum=True)
    write_unsynced(run_dir.importance, run_dir.staging, sink.getvalue().to_pybytes())
