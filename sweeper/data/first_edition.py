"""Reads columns as in edition 1, so that studies of that edition keep their numbers.

In edition 1, decimals of Arrow lost their fraction, and integers next to gaps the digits that a
float cannot hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_extension_array_dtype,
    is_float_dtype,
    is_numeric_dtype,
)

from sweeper.data.columns import with_columns

_NUMBERS = ("boolean", "decimal", "floating", "integer", "mixed-integer-float")


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns as numbers, booleans or text; others are unchanged."""
    changed = {str(name): _plain(frame[name]) for name in frame if not _is_plain(frame[name])}
    return with_columns(frame, changed)


def _is_plain(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    is_number = is_numeric_dtype(dtype) and not is_extension_array_dtype(dtype)
    if dtype == np.float16:  # pandas can neither sort nor group by it
        return False
    return is_number or (isinstance(dtype, pd.StringDtype) and dtype.na_value is np.nan)


def _plain(column: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    gaps = column.isna()
    if is_numeric_dtype(column.dtype):
        return _number(column, gaps)
    if isinstance(column.dtype, pd.StringDtype):
        return column.astype("str")
    kind = infer_dtype(column, skipna=True)
    if kind in _NUMBERS:
        return _number_of_objects(column, gaps, kind)
    return column.astype("str") if kind == "string" else column


def _number_of_objects(column: pd.Series[Any], gaps: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """Python numbers as an array; integers beyond 64 bits as floats if no values become equal."""
    try:
        floats = column.astype(float)
        numbers = floats if gaps.any() or kind == "decimal" else pd.to_numeric(column)
    except OverflowError:
        return column
    is_kept = is_numeric_dtype(numbers.dtype) or floats.nunique() < column.nunique()
    return numbers if is_kept else floats


def _number(column: pd.Series[Any], gaps: pd.Series[Any]) -> pd.Series[Any]:
    """A masked pandas number as a NumPy number."""
    if gaps.any() or is_float_dtype(column.dtype):
        return pd.Series(column.to_numpy(np.float64, na_value=np.nan), column.index)
    return column.astype(bool if is_bool_dtype(column.dtype) else np.int64)
