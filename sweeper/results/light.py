"""Reads published results without importing pandas or the configuration.

Most of Arrow's conversions to NumPy import pandas if it is installed, or `pyarrow.compute`, which
takes longer than reading the table; tensors and lists need neither.
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
    """The table in the file `path`, or its `columns` that exist; None if the file does not exist.

    Text is returned as a dictionary with codes.

    Raises:
        SetupError: it is damaged.
    """
    # read_table uses pyarrow.dataset, which also imports pandas
    if not path.is_file():
        return None
    with refusing_damage(path):
        check_light(path, columns)
    content = pa.BufferReader(path.read_bytes())  # a single version of the file
    with refusing_damage(path):
        schema = parquet.read_schema(content)
        texts = [field.name for field in schema if _is_text(field.type)]
        wanted = [name for name in schema.names if columns is None or name in columns]
        content.seek(0)
        with parquet.ParquetFile(
            content, read_dictionary=texts, page_checksum_verification=True
        ) as file:
            # Arrow's threads abort a program that ends soon after (apache/arrow issue 34314)
            table = file.read(columns=wanted, use_threads=False)
        study_metadata(table)  # a file has two copies of it, of which `check_light` reads one
        return table


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column has text; pandas and Polars write it as large strings."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def readable(path: Path, columns: Sequence[str] | None = None) -> pa.Table | None:
    """Like `read_light`, but None if the file is damaged."""
    try:
        return read_light(path, columns)
    except (SetupError, OSError):
        return None


def study_metadata(table: pa.Table) -> dict[str, Any]:
    """The metadata of a study in a published table, such as the search space; may be empty."""
    return json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))


def floats(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers, booleans or times as float64, nan where null; times in seconds since 1970."""
    kind, array = column.type, _whole(column)
    if pa.types.is_boolean(kind):
        return np.array(array.to_pylist(), np.float64)
    is_time = pa.types.is_timestamp(kind)
    batch = pa.RecordBatch.from_arrays([array.view(pa.int64()) if is_time else array], ["value"])
    values = batch.to_tensor(null_to_nan=True).to_numpy().reshape(-1).astype(np.float64)
    return values / _TICKS[kind.unit] if is_time else values


def whole_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Integers of at most 53 bits as int64, -1 for null."""
    return np.nan_to_num(floats(column), nan=-1).astype(np.int64)


def texts(column: pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The different strings of a column, and each row's index among them, -1 for null."""
    array = _whole(column.unify_dictionaries())
    return array.dictionary.to_pylist(), whole_numbers(pa.chunked_array([array.indices]))


def _whole(column: pa.ChunkedArray) -> Any:
    chunks = column.combine_chunks()
    return chunks.chunk(0) if isinstance(chunks, pa.ChunkedArray) else chunks


def diverged_epochs(trials: pa.Table | None) -> dict[int, int]:
    """The epoch in which each trial of the table diverged, by number, if it did.

    Values of that epoch may be finite, but are those of a model, or of some members only.
    """
    if trials is None or not {"trial_number", "diverged_epoch"} <= {*trials.column_names}:
        return {}
    epochs = floats(trials["diverged_epoch"])
    rows = ~np.isnan(epochs)
    numbers = floats(trials["trial_number"])[rows].astype(int).tolist()
    return dict(zip(numbers, epochs[rows].astype(int).tolist(), strict=True))
