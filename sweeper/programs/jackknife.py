"""The standard error of a metric by the delete-a-group jackknife.

It also holds for metrics that are not means over rows, such as R2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

GROUPS = 20
"""How many groups of rows are left out one by one, if there are enough rows."""


def grouped_rows(n_rows: int, groups: int) -> int:
    """How many of `n_rows` rows are used: those that fill `groups` groups of equal size."""
    return n_rows - n_rows % groups


def kept_rows(n_rows: int, groups: int) -> Iterator[NDArray[np.intp]]:
    """The rows that remain as each group is left out."""
    group = np.arange(grouped_rows(n_rows, groups)) % groups
    return (np.flatnonzero(group != left_out) for left_out in range(groups))


def jackknife_error(values: Sequence[float]) -> float:
    """The standard error of a metric that has these values, one for each group left out."""
    with np.errstate(invalid="ignore"):  # a metric of too few rows may be infinite
        return float(np.std(values) * math.sqrt(len(values) - 1))
