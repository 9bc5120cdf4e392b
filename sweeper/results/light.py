"""Published results as Arrow alone reads them: neither pandas nor the configuration is imported.

Most of what turns a column of Arrow into values of Python or NumPy imports pandas where it is
installed, or Arrow's computing, which takes longer than reading the table: so columns are taken
from their buffers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from sweeper.errors import SetupError
from sweeper.results.columns import METADATA_KEY
from sweeper.results.decoded import check_light
from sweeper.results.table_file import refusing_damage

_TICKS = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


def read_light(path: Path, columns: Sequence[str] | None = None) -> pa.Table | None:
    """The table in the file `path`, or those of `columns` that it has; None where there is none.

    Text comes as a dictionary and its codes.

    Raises:
        SetupError: it is damaged.
    """
    # pyarrow.dataset, by which read_table goes, imports pandas, too
    if not path.is_file():
        return None
    with refusing_damage(path):
        check_light(path, columns)
    content = pa.BufferReader(path.read_bytes())  # one version, even where it is replaced meanwhile
    with refusing_damage(path):
        schema = parquet.read_schema(content)
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        wanted = [name for name in schema.names if columns is None or name in columns]
        content.seek(0)
        with parquet.ParquetFile(
            content, read_dictionary=texts, page_checksum_verification=True
        ) as file:
            # Arrow's threads abort a program that ends soon after (apache/arrow issue 34314)
            return file.read(columns=wanted, use_threads=False)


def readable(path: Path, columns: Sequence[str] | None = None) -> pa.Table | None:
    """As `read_light`; None also where the file is damaged."""
    try:
        return read_light(path, columns)
    except (SetupError, OSError):
        return None


def said_of_study(table: pa.Table) -> dict[str, Any]:
    """What a published table says of its study, such as the search space; empty if it does not."""
    return json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))


def floats(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers, truth values or times as float64, nan where null; times in seconds since 1970."""
    array = _whole(column)
    values = _values(array).astype(np.float64)
    values[_is_null(array)] = np.nan
    return values / _TICKS[array.type.unit] if pa.types.is_timestamp(array.type) else values


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Whole numbers as int64, -1 where null."""
    array = _whole(column)
    values = _values(array).astype(np.int64)
    values[_is_null(array)] = -1
    return values


def texts(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The different texts of a column, and each row's place among them, -1 where it is null."""
    array = _whole(column.unify_dictionaries())
    return array.dictionary.to_pylist(), whole_numbers(pa.chunked_array([array.indices]))


def _whole(column: pa.ChunkedArray) -> Any:
    chunks = column.combine_chunks()
    return chunks.chunk(0) if isinstance(chunks, pa.ChunkedArray) else chunks


def _values(array: Any) -> np.ndarray:
    """What the buffer of an array holds: anything where it is null."""
    kind, bits, data = array.type, array.type.bit_width, array.buffers()[1]
    if pa.types.is_boolean(kind):
        return _bits(data, array)
    letter = "f" if pa.types.is_floating(kind) else "i"
    values = np.frombuffer(data or b"", f"{letter}{bits // 8}")
    return values[array.offset : array.offset + len(array)]


def _is_null(array: Any) -> np.ndarray:
    validity = array.buffers()[0]
    if validity is None or not array.null_count:
        return np.zeros(len(array), bool)
    return ~_bits(validity, array)


def _bits(data: pa.Buffer | None, array: Any) -> np.ndarray:
    """The bits of a buffer that are of this array, as truth values."""
    if data is None or not len(array):
        return np.empty(0, bool)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(bool)
