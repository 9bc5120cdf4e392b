"""Arrow arrays of the published types, put together from their buffers.

Whatever else makes an array of values of Python or NumPy imports pandas where it is installed,
which takes longer than a small study spends on publishing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sweeper.results.columns import BOOL, DOUBLE, INT32, INT64, STRING, TIME

# the standard library's arrays refuse what would be rounded or cut, which NumPy's do not
_CODES = {INT32: "i", INT64: "q", TIME: "q", DOUBLE: "d"}


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """`values` as an array of a published type, null where they are None; times in microseconds.

    Raises:
        TypeError: a value is of another type.
        OverflowError: one does not fit.
    """
    missing = np.array([value is None for value in values], bool)
    if kind == STRING:
        return _texts(["" if value is None else value for value in values], missing)
    filled = [0 if value is None else value for value in values]
    if kind == BOOL:
        return _whole(_bits(np.array(filled, bool)), BOOL, missing)
    return _whole(array(_CODES[kind], filled), kind, missing)


def numbers(values: np.ndarray, kind: pa.DataType, missing: np.ndarray | None = None) -> pa.Array:
    """A flat array of numbers as Arrow has them, null where `missing` says so."""
    missing = np.zeros(len(values), bool) if missing is None else missing
    return _whole(values.astype(kind.to_pandas_dtype(), copy=False), kind, missing)


def repeated(texts: Sequence[str], times: int) -> pa.Array:
    """The texts in turn, all of them `times` over."""
    return _texts(texts, np.zeros(len(texts) * times, bool), times)


def _texts(texts: Sequence[str], missing: np.ndarray, times: int = 1) -> pa.Array:
    encoded = [text.encode() for text in texts]
    lengths = np.tile(np.array([len(text) for text in encoded], np.int64), times)
    offsets = array("i", [0, *np.cumsum(lengths).tolist()])
    buffers = [_validity(missing), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded) * times)]
    return pa.Array.from_buffers(STRING, len(missing), buffers)


def _whole(values: Any, kind: pa.DataType, missing: np.ndarray) -> pa.Array:
    """The array whose values lie in memory as `values` do."""
    return pa.Array.from_buffers(kind, len(missing), [_validity(missing), pa.py_buffer(values)])


def _validity(missing: np.ndarray) -> pa.Buffer | None:
    return pa.py_buffer(_bits(~missing)) if missing.any() else None


def _bits(values: np.ndarray) -> np.ndarray:
    return np.packbits(values, bitorder="little")
