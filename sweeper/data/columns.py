"""Columns as NumPy has them, whatever kind of table they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_complex_dtype,
    is_extension_array_dtype,
    is_float_dtype,
    is_numeric_dtype,
)

# what pandas finds in columns of objects that are numbers all the same
_NUMBERS = ("boolean", "decimal", "floating", "integer", "mixed-integer-float")
_TEXT = ("string", "empty")
# text with more values than these that seldom come twice is a name or a date, not a category
_MOST_TEXT_VALUES = 100


def plain(frame: pd.DataFrame) -> tuple[pd.DataFrame, frozenset[str]]:
    """The columns as numbers, truth values or text, and which were declared as categories.

    Missing values are NaN. What is none of these stays what it is: see `unfit_kind`.
    """
    declared = [name for name in frame if isinstance(frame[name].dtype, pd.CategoricalDtype)]
    changed = {str(name): _plain(frame[name]) for name in frame if not _is_plain(frame[name])}
    return (frame.assign(**changed) if changed else frame), frozenset(map(str, declared))


def unfit_kind(column: pd.Series[Any]) -> str | None:
    """What the column holds that is neither number nor text; None where there is nothing else."""
    if is_complex_dtype(column.dtype):
        return "complex numbers"
    if is_numeric_dtype(column.dtype) or isinstance(column.dtype, pd.StringDtype):
        return None
    kind = infer_dtype(column, skipna=True)
    if kind in _TEXT:
        return None
    if "date" in kind or "time" in kind or kind == "period":
        return "times"
    if kind == "integer":
        return "whole numbers of more than 64 bits, too large or too alike to be floats"
    types = sorted({type(value).__name__ for value in column.dropna()})
    return f"values of type {' and '.join(types[:3])}"


def is_of_truth(column: pd.Series[Any]) -> bool:
    """Whether the column, as it was read, holds truth values, whether or not some are missing."""
    return is_bool_dtype(column.dtype) or infer_dtype(column, skipna=True) == "boolean"


def has_too_many_values(column: pd.Series[Any]) -> bool:
    """Whether text is names or numbers of rows rather than categories."""
    return column.nunique() > max(_MOST_TEXT_VALUES, column.count() / 2)


def strays(column: pd.Series[Any]) -> pd.Series[bool]:
    """Where there is text that is no number."""
    if is_numeric_dtype(column.dtype):
        return pd.Series(False, column.index)
    return pd.to_numeric(column, errors="coerce").isna() & column.notna()


def without_fractions(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of floats that are all whole, as integers; pandas makes floats of them for gaps."""
    if not is_float_dtype(column.dtype) or not len(column):
        return column
    is_whole = (np.abs(column) < 2**53) & (column == np.floor(column))
    return column.astype(np.int64) if is_whole.all() else column


def _is_plain(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    is_number = is_numeric_dtype(dtype) and not is_extension_array_dtype(dtype)
    if dtype == np.float16:  # by which pandas sorts and groups nothing
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
    """The same of numbers as Python has them.

    Whole numbers that 64 bits do not hold are floats where these are as many different ones.
    """
    try:
        floats = column.astype(float)
        numbers = floats if gaps.any() or kind == "decimal" else pd.to_numeric(column)
    except OverflowError:
        return column
    is_kept = is_numeric_dtype(numbers.dtype) or floats.nunique() < column.nunique()
    return numbers if is_kept else floats


def _number(column: pd.Series[Any], gaps: pd.Series[Any]) -> pd.Series[Any]:
    """A number that pandas keeps beside a mask, as NumPy has it."""
    if gaps.any() or is_float_dtype(column.dtype):
        return pd.Series(column.to_numpy(np.float64, na_value=np.nan), column.index)
    return column.astype(bool if is_bool_dtype(column.dtype) else np.int64)
