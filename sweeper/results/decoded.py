"""How much memory a Parquet file takes when it is read, as its own metadata tell.

A file of some megabytes may become gigabytes: values that repeat take next to nothing in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from sweeper.errors import Problem, SetupError
from sweeper.naming import size_text
from sweeper.resources import available_bytes

# the most that commands and the page take for a file of results: 30 million rows of metrics
MOST_AT_ONCE = 1 << 30
_WIDTHS = {"BOOLEAN": 1, "INT32": 8, "INT64": 8, "INT96": 8, "FLOAT": 8, "DOUBLE": 8}
_TEXT_BYTES = 16  # of a text, beside its letters
_CODE_BYTES = 4


def check_published(path: Path) -> None:
    """Refuse published tables, a file or a directory of parts, that do not fit into memory.

    Raises:
        SetupError: with both sizes.
        OSError, pa.ArrowException: they cannot be read at all.
    """
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if (free := available_bytes()) is not None:
        _check(path, decoded_bytes(files, free), free)


def check_light(path: Path, columns: Sequence[str] | None) -> None:
    """Refuse a published file whose `columns`, all if None, are too large, with texts as codes.

    Raises:
        SetupError: with both sizes.
        OSError, pa.ArrowException: it cannot be read at all.
    """
    most = min(MOST_AT_ONCE, available_bytes() or MOST_AT_ONCE)
    _check(path, path.stat().st_size, most)
    with parquet.ParquetFile(path) as file:
        metadata = file.metadata
    wanted = [c for c in _columns(metadata) if columns is None or c.path in columns]
    _check(path, sum(column.bytes_as_codes for column in wanted), most)


def _check(path: Path, needed: int, most: int) -> None:
    if needed > most:
        found = f"it takes {size_text(needed)} of memory, and at most {size_text(most)} may be"
        mend = "if it is what you expect, read it with Polars or DuckDB, which do so in parts"
        raise SetupError(Problem(str(path), "", found, mend))


def decoded_bytes(paths: Iterable[Path], most: int) -> int:
    """What the columns of all these files take in memory together, to be compared with `most`."""
    total = 0
    for path in paths:
        with parquet.ParquetFile(path) as file:
            metadata = file.metadata
        total += sum(_decoded(path, column, most) for column in _columns(metadata))
    return total


@dataclass(frozen=True, slots=True)
class _Column:
    """What the metadata of a file say of a column: `width` is of a value, None for texts.

    `stored` is the size of its pages, uncompressed, `at_most` what its texts may take.
    """

    path: str
    width: int | None
    values: int
    stored: int
    at_most: int
    is_repeated: bool

    @property
    def bytes_as_codes(self) -> int:
        if self.width is not None:
            return self.values * self.width
        return self.values * _CODE_BYTES + self.stored


def _columns(metadata: Any) -> Iterator[_Column]:
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        groups = range(metadata.num_row_groups)
        chunks = [metadata.row_group(group).column(index) for group in groups]
        width = _WIDTHS.get(column.physical_type)
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            width = max(column.length, _TEXT_BYTES)
        yield _Column(
            column.path,
            width,
            sum(max(chunk.num_values, 0) for chunk in chunks),
            sum(max(chunk.total_uncompressed_size, 0) for chunk in chunks),
            sum(max(chunk.num_values * chunk.total_uncompressed_size, 0) for chunk in chunks),
            any("DICTIONARY" in name for chunk in chunks for name in chunk.encodings),
        )


def _decoded(path: Path, column: _Column, most: int) -> int:
    if column.width is not None:
        return column.values * column.width
    at_least = column.values * _TEXT_BYTES + column.stored
    if at_least > most or column.at_most <= most or not column.is_repeated:
        return at_least
    if "." in column.path:  # texts within lists or records, which no column that is used has
        return at_least + column.at_most
    return at_least + _repeated_bytes(path, column.path)


def _repeated_bytes(path: Path, name: str) -> int:
    """The letters of all texts of a column, without writing out those that repeat."""
    total = 0
    with parquet.ParquetFile(path, read_dictionary=[name]) as file:
        for group in range(file.num_row_groups):
            column = file.read_row_group(group, columns=[name], use_threads=False)[name]
            for chunk in column.chunks:
                if pa.types.is_dictionary(chunk.type):
                    texts = chunk.dictionary.to_pylist()
                    lengths = np.array([*(len(text or "") for text in texts), 0])
                    places = chunk.indices.fill_null(len(texts))
                    total += int(lengths[places.to_numpy()].sum())
    return total
