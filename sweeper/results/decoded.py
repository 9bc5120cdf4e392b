"""How much memory a Parquet file takes when it is read, according to its own metadata.

A file of a few megabytes may become gigabytes, since repeated values take almost no space in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from sweeper.errors import Problem, SetupError, size_text
from sweeper.process import available_bytes
from sweeper.results.columns import DIGEST_KEY, METADATA_KEY, schema_digest

# the most memory that commands and the page use for one results file: 30 million rows of metrics
MAX_AT_ONCE = 1 << 30
_WIDTHS = {"BOOLEAN": 1, "INT32": 8, "INT64": 8, "INT96": 8, "FLOAT": 8, "DOUBLE": 8}
_TEXT_BYTES = 16  # per string, in addition to its characters
_CODE_BYTES = 4


def check_published(path: Path) -> None:
    """Refuse published tables, a file or a directory of parts, that do not fit into memory.

    Raises:
        SetupError: with both sizes.
        OSError, ValueError, pa.ArrowException: they cannot be read at all, or are damaged.
    """
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    for file in files:
        _check_schema(file)
    if (free := available_bytes()) is not None:
        _check(path, decoded_bytes(files, free), free)


def check_light(path: Path, columns: Sequence[str] | None) -> None:
    """Refuse a published file if its `columns` (None for all) are too large, with text as codes.

    Raises:
        SetupError: with both sizes.
        OSError, ValueError, pa.ArrowException: it cannot be read at all, or is damaged.
    """
    most = min(MAX_AT_ONCE, available_bytes() or MAX_AT_ONCE)
    _check(path, path.stat().st_size, most)
    _check_schema(path)
    summary = _summary(path)
    widths = [
        _CODE_BYTES if width is None else width
        for name, width in summary.widths.items()
        if columns is None or name in columns
    ]
    _check(path, summary.rows * sum(widths), most)


def _check(path: Path, needed: int, most: int) -> None:
    if needed > most:
        found = f"it takes {size_text(needed)} of memory, but at most {size_text(most)} are allowed"
        hint = "if that is expected, read it with Polars or DuckDB, which read it in parts"
        raise SetupError(Problem(str(path), "", found, hint))


def decoded_bytes(paths: Iterable[Path], most: int) -> int:
    """The memory that the columns of all these files take together, to compare with `most`."""
    total = 0
    for path in paths:
        summary = _summary(path)
        widths = summary.widths.values()
        total += summary.rows * sum(_TEXT_BYTES if width is None else width for width in widths)
        texts = [name for name, width in summary.widths.items() if width is None]
        # many rows may share one long text
        if total <= most < total + summary.rows * summary.stored:
            total += sum(_letters(path, name) for name in texts)
    return total


@dataclass(frozen=True, slots=True)
class _FileSummary:
    """What a file says about itself: its rows, the bytes of its pages, and each column's width.

    Strings have no width. Nothing else is read with Arrow: in a damaged file, reading part of a
    column may crash the program.
    """

    rows: int
    stored: int
    widths: Mapping[str, int | None]


def _summary(path: Path) -> _FileSummary:
    with parquet.ParquetFile(path) as file:
        metadata = file.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    columns = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    return _FileSummary(
        max(metadata.num_rows, sum(max(group.num_rows, 0) for group in groups)),
        sum(max(group.total_byte_size, 0) for group in groups),
        {column.path: _width(column) for column in columns},
    )


def _check_schema(path: Path) -> None:
    """Refuse a published table whose columns and metadata are not what was written.

    Tables of studies begun before digests were written have none.

    Raises:
        ValueError: they are damaged.
    """
    schema = parquet.read_schema(path)
    known = schema.metadata or {}
    about_study, digest = known.get(METADATA_KEY), known.get(DIGEST_KEY)
    if digest is not None:
        is_whole = about_study is not None and schema_digest(schema, about_study) == digest
    elif about_study is not None:
        about = json.loads(about_study)
        is_whole = isinstance(about, dict) and [*about.get("columns", schema.names)] == schema.names
    else:
        return
    if not is_whole:
        raise ValueError("the columns are not those that were written")


def _width(column: Any) -> int | None:
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return max(column.length, _TEXT_BYTES)
    return _WIDTHS.get(column.physical_type)


def _letters(path: Path, name: str) -> int:
    """The number of characters in a column, without expanding repeated strings."""
    from pyarrow import compute  # slow to import

    total = 0
    with parquet.ParquetFile(path, read_dictionary=[name]) as file:
        for group in range(file.num_row_groups):
            column = file.read_row_group(group, columns=[name], use_threads=False)[
                name.split(".")[0]
            ]
            for chunk in column.chunks:
                total += chunk.nbytes
                if pa.types.is_dictionary(chunk.type):
                    lengths = compute.call_function("binary_length", [chunk.dictionary])
                    places = chunk.indices.drop_null().to_numpy()
                    total += int(
                        np.nan_to_num(lengths.to_numpy(zero_copy_only=False))[places].sum()
                    )
    return total
