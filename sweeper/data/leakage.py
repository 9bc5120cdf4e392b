"""Columns that reveal the target, such as a copy of it under another name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

LEAVE_OUT = "add it to data.drop, unless it is known before the target is"
"""How to fix such a column."""

# with fewer rows, columns may agree by chance
_LEAST_ROWS = 20
# columns that do not agree in the first rows are not checked further
_FIRST_ROWS = 2_000
# most values per row that a category may have for its classes to mean anything
_ROWS_PER_VALUE = 5
_MAX_VALUES = 20
# numbers with at least this many different values are not just codes
_LEAST_NUMBERS = 10
_SAME_LINE = 1 - 1e-6


def leak_reason(column: pd.Series[Any], target: pd.Series[Any], *, is_classes: bool) -> str:
    """How a feature reveals the target, as in "is a copy of the target 'y'"; else empty."""
    head, of_target = column.iloc[:_FIRST_ROWS], target.iloc[:_FIRST_ROWS]
    is_known = (head.notna() & of_target.notna()).sum() >= _LEAST_ROWS
    if is_known and len(column) > _FIRST_ROWS and not _reason(head, of_target, is_classes):
        return ""
    reason = _reason(column, target, is_classes)
    return reason and f"{reason} '{target.name}'"


def _reason(column: pd.Series[Any], target: pd.Series[Any], is_classes: bool) -> str:
    known = (column.notna() & target.notna()).to_numpy()
    if known.sum() < _LEAST_ROWS:
        return ""
    one, other = column[known], target[known]
    if is_classes:
        return _of_classes(one, other) or _by_gaps(column, target)
    if not is_numeric_dtype(other.dtype):
        return ""
    if is_numeric_dtype(one.dtype):
        return _of_numbers(one.to_numpy(np.float64), other.to_numpy(np.float64))
    return _of_texts(one, other)


def _of_classes(column: pd.Series[Any], target: pd.Series[Any]) -> str:
    values, classes, pairs = _counts(column, target)
    if classes < 2 or pairs > values:
        return ""
    if values == classes:
        is_copy = (column.astype(str).to_numpy() == target.astype(str).to_numpy()).all()
        return (
            "is a copy of the target" if is_copy else "has one value for each class of the target"
        )
    if values <= _MAX_VALUES and values * _ROWS_PER_VALUE <= len(column):
        return "takes values that each occur with only one class of the target"
    return ""


def _by_gaps(column: pd.Series[Any], target: pd.Series[Any]) -> str:
    """For a column that is missing in all rows of some classes, and in no other row."""
    gaps = column.isna()
    if gaps.all() or not gaps.any():
        return ""
    classes = gaps.groupby(target.to_numpy()).mean()
    few = target.value_counts().min() < _ROWS_PER_VALUE
    is_told = not few and classes.isin([0, 1]).all() and classes.nunique() == 2
    return "is missing exactly in the rows of some classes of the target" if is_told else ""


def _of_texts(column: pd.Series[Any], target: pd.Series[Any]) -> str:
    values, numbers, pairs = _counts(column, target)
    is_told = values == numbers == pairs and _LEAST_NUMBERS <= numbers <= len(target) / 2
    return "has one text for each value of the target" if is_told else ""


def _counts(column: pd.Series[Any], target: pd.Series[Any]) -> tuple[int, int, int]:
    """How many different values both have, and how many pairs of them."""
    (one, values), (other, classes) = pd.factorize(column), pd.factorize(target)
    pairs = np.unique(one.astype(np.int64) * len(classes) + other)
    return len(values), len(classes), len(pairs)


def _of_numbers(x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    if len(np.unique(y)) < _LEAST_NUMBERS:
        return ""
    if np.array_equal(x, y):
        return "is a copy of the target"
    x_spread, y_spread = x.std(), y.std()
    if not (np.isfinite(x_spread) and np.isfinite(y_spread)) or min(x_spread, y_spread) == 0:
        return ""
    # quantities that only grow with time, such as a date and a total, grow together
    if _is_sorted(y):
        return ""
    line = np.mean((x - x.mean()) / x_spread * ((y - y.mean()) / y_spread))
    if abs(line) > _SAME_LINE:
        return "is a linear function of the target"
    return "always rises or always falls with the target" if _is_monotone(x, y) else ""


def _is_sorted(numbers: NDArray[np.float64]) -> bool:
    steps = np.diff(numbers)
    return bool((steps >= 0).all() or (steps <= 0).all())


def _is_monotone(x: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    """Whether one number always rises, or always falls, with the other and only with it."""
    order = np.argsort(y, kind="stable")
    rises, of_target = np.sign(np.diff(x[order])), np.sign(np.diff(y[order]))
    return np.array_equal(rises, of_target) or np.array_equal(rises, -of_target)
