"""Compares a published table with its ledger."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from sweeper.errors import SetupError
from sweeper.results.decoded import check_published

# these columns depend on which files exist, not on the ledger
_APART = frozenset({"model_path"})


class TableDifference(Enum):
    """How a table differs from what it should be."""

    MISSING = "it is missing"
    UNREADABLE = "it cannot be read"
    COLUMNS = "its columns differ from those of the ledger"
    ROWS = "it contains rows that are not in the ledger"
    BEHIND = "it lacks the rows that were committed last"


def differences(published: Path, rebuilt: Path) -> TableDifference | None:
    """How the table in `published` differs from that in `rebuilt`; None if it does not.

    Both are a file, or a directory of parts. Rows may be in any order.
    """
    if not published.exists():
        return TableDifference.MISSING
    expected = _read(rebuilt)
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
    """A table; a directory of parts is read as one table."""
    table = parquet.read_table(path)
    table.validate(full=True)
    return table


def _rows(table: pa.Table) -> set[bytes]:
    """The rows of a table, by all of their bits."""
    ordered = table.combine_chunks()
    columns = [_cells(ordered[name]) for name in table.schema.names if name not in _APART]
    return {repr(row).encode() for row in zip(*columns, strict=True)}


def _cells(column: pa.ChunkedArray) -> list[object]:
    """The values of a column, with floats as bits, so that NaN equals NaN."""
    values = column.to_pylist()
    return [value.hex() if isinstance(value, float) else value for value in values]
