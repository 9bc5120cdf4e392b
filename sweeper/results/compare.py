"""Compares a published table with its ledger, and two runs by one digest of their results."""

from __future__ import annotations

import json
from enum import Enum
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet, types

from sweeper.errors import SetupError
from sweeper.results.decoded import check_published
from sweeper.results.schema import deterministic_columns
from sweeper.rundir import RunDir

# what it says follows from which files are there, not from the ledger
_APART = frozenset({"model_path"})


class TableDifference(Enum):
    """How a table is not what it should be."""

    MISSING = "it is not there"
    UNREADABLE = "it cannot be read"
    COLUMNS = "it has other columns than the ledger tells"
    ROWS = "it holds rows that the ledger does not tell"
    BEHIND = "it lacks rows that were committed last"


def differences(published: Path, told: Path) -> TableDifference | None:
    """How the table in `published` differs from that in `told`; None where it does not.

    Both are a file, or a directory of parts. Rows may be in any order.
    """
    expected = _read(told)
    if not published.exists():
        return TableDifference.MISSING if expected.num_rows else TableDifference.BEHIND
    try:
        check_published(published)
        found = _read(published)
    except (pa.ArrowException, OSError, ValueError, SetupError):
        return TableDifference.UNREADABLE
    if found.schema.names != expected.schema.names or found.schema.types != expected.schema.types:
        return TableDifference.COLUMNS
    rows, every = _rows(found), _rows(expected)
    if not rows <= every or len(rows) < found.num_rows:
        return TableDifference.ROWS
    return TableDifference.BEHIND if len(rows) < len(every) else None


def _read(path: Path) -> pa.Table:
    """All of a table; a directory of parts as one."""
    table = parquet.read_table(path)
    table.validate(full=True)
    return table


def _rows(table: pa.Table) -> set[bytes]:
    """The rows of a table, each by all of its bits."""
    ordered = table.combine_chunks()
    columns = [_cells(ordered[name]) for name in table.schema.names if name not in _APART]
    return {repr(row).encode() for row in zip(*columns, strict=True)}


def _cells(column: pa.ChunkedArray) -> list[object]:
    """The values of a column, floats by their bits: NaN is equal to NaN then."""
    values = column.to_pylist()
    return [value.hex() if isinstance(value, float) else value for value in values]


_TRIAL_ORDER = ("trial_number",)
_METRIC_ORDER = ("trial_number", "replicate", "fold", "epoch", "metric")


def deterministic_digest(run_dir: RunDir) -> str:
    """A digest of the deterministic columns of trials and metrics, floats by their bits.

    How the metrics are cut into parts, and the order of the rows, make no difference.
    """
    trials = table_digest(run_dir.trials, _TRIAL_ORDER)
    metrics = table_digest(run_dir.metrics, _METRIC_ORDER)
    return blake2b(f"{trials} {metrics}".encode(), digest_size=32).hexdigest()


def table_digest(path: Path, order: tuple[str, ...]) -> str:
    """A digest of the deterministic columns of the file or directory `path`, sorted by `order`."""
    table = parquet.read_table(path)
    table = table.sort_by([(name, "ascending") for name in order])
    hashed = blake2b(digest_size=32)
    for name in deterministic_columns(table.schema):
        column = table[name].combine_chunks()
        content = _content(column)
        hashed.update(f"{name} {column.type} {len(content)} ".encode() + content)
    return hashed.hexdigest()


def _content(column: pa.Array) -> bytes:
    """The values of a column, where they are null and what they are."""
    if types.is_string(column.type):
        return json.dumps(column.to_pylist()).encode()
    # What an array holds where it is null is nobody's.
    values = column.fill_null(False if types.is_boolean(column.type) else 0)
    parts = (column.is_null(), values)
    return b"".join(part.to_numpy(zero_copy_only=False).tobytes() for part in parts)
