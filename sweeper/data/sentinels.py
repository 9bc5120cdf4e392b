"""Numbers such as -999 that mean a missing value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from sweeper.config.toml import toml_value
from sweeper.data.identity import written
from sweeper.errors import counted, listed

_NINES = [float(10**digits - 1) for digits in range(2, 10)]
_CODES = [
    *_NINES,
    *(nines - less for nines in _NINES for less in (1, 2, 3)),
    *(77.0, 777.0, 7777.0, 88.0, 888.0, 8888.0),
    *(32767.0, 65535.0, 2147483647.0, 1e20, 1e30, 9.969209968386869e36),
]
_SENTINELS = frozenset([*_CODES, *(-code for code in _CODES), -32768.0, -2147483648.0])
IMPUTE = 'impute = "median"'
MISSING_TARGET = 'missing_target = "drop"'
"""The settings that a study with missing features or targets needs."""

# columns with fewer other values may hold codes
_LEAST_VALUES = 5
# a single value may be an outlier, unless it is this many times as far away as the others
_FAR_ONCE = 3


@dataclass(frozen=True, slots=True)
class Sentinels:
    """Numbers far from all others in a column: `values`, their `rows`, and the range of others."""

    name: str
    values: tuple[float, ...]
    rows: int
    low: float
    high: float

    def __str__(self) -> str:
        shown = " and ".join(written(value) for value in self.values)
        return (
            f"holds {shown} in {counted(self.rows, 'row')}, and otherwise numbers from "
            f"{written(self.low)} to {written(self.high)}"
        )

    def warning(self, missing: Iterable[str] | None, also: str = "") -> str:
        """A warning with how to fix it if they mean missing values.

        `missing` are all strings that mean or may mean a missing value, None if the table is not a
        CSV file; `also` is another setting that is then needed.
        """
        if missing is None:
            read, values = f"df[{self.name!r}]", ", ".join(map(written, self.values))
            code = f'{read} = {read}.replace([{values}], float("nan"))'
            fix = f"use pandas: {code}{f', and write {also} in [data]' if also else ''}"
        else:
            words = [*dict.fromkeys(["", *missing])]
            both = listed([f"missing_values = {toml_value(words)}", *([also] if also else [])])
            fix = f"write {both} in [data]"
        it = "it means a missing value" if len(self.values) == 1 else "they mean missing values"
        return f"{self}; if {it}, {fix}"


def all_texts(found: Iterable[Sentinels]) -> list[str]:
    """The sentinels of several columns as text, without repetition."""
    return sorted({written(value) for one in found for value in one.values})


def sentinels(column: pd.Series[Any]) -> Sentinels | None:
    """The numbers of a column that probably mean missing values, or None."""
    if not is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        return None
    numbers = column.to_numpy(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers) or not {float(numbers.min()), float(numbers.max())} & {*_SENTINELS, -1.0}:
        return None
    is_code = np.isin(numbers, [*_SENTINELS])
    if _is_minus_one_a_code(numbers):
        is_code |= numbers == -1
    codes, others = numbers[is_code], numbers[~is_code]
    if len(others) == 0 or len(np.unique(others)) < _LEAST_VALUES:
        return None
    low, high = float(others.min()), float(others.max())
    values, counts = np.unique(codes, return_counts=True)
    found = {
        value: count
        for value, count in zip(values.tolist(), counts.tolist(), strict=True)
        if _is_far(value, count, low, high)
    }
    return Sentinels(str(column.name), (*found,), sum(found.values()), low, high) if found else None


def _is_far(value: float, count: int, low: float, high: float) -> bool:
    """Whether a value is farther from the others than these are from each other."""
    if low <= value <= high:
        return False
    if value < 0 <= low:
        return True
    distance = max(low - value, value - high)
    return distance > (high - low) * (1 if count > 1 else _FAR_ONCE)


def _is_minus_one_a_code(numbers: NDArray[np.float64]) -> bool:
    """Whether -1 is the only negative number and is more frequent than any other."""
    negative = numbers[numbers < 0]
    if not len(negative) or (negative != -1).any() or len(negative) < 2:
        return False
    _, counts = np.unique(numbers[numbers >= 0], return_counts=True)
    return len(counts) >= 2 * _LEAST_VALUES and len(negative) > counts.max()
