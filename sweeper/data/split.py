"""Which rows are for training, for validation and for testing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from sweeper.config import StudyConfig
from sweeper.data.given_split import GivenSplit, given_sizes, given_split
from sweeper.data.raw import RawData
from sweeper.data.sizes import SplitSizes, split_sizes
from sweeper.errors import DataError

RowIndices = NDArray[np.intp]

# with fewer different numbers, it may be chance that they look like dates
_FEWEST_DATES = 4


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of each split; every row is in one, and may also be in the training split."""

    train: RowIndices
    val: RowIndices
    test: RowIndices


def split_rows(config: StudyConfig, raw: RawData) -> Split:
    """The splits of the rows, drawn with a seed or cut in the order of time.

    Draws are scikit-learn's: first the test rows, then the validation rows from the rest. The seed
    is passed as `random_state`, so that users can repeat the draws. If a model is trained on more
    than its own split, the other rows are appended to the training rows.

    Raises:
        DataError: a class cannot be kept in proportion.
    """
    split = _disjoint_split(config, raw)
    also = {"train": (), "train+val": (split.val,), "all": (split.val, split.test)}
    train = np.concatenate([split.train, *also[config.data.split.train_on]])
    return replace(split, train=train)


def _disjoint_split(config: StudyConfig, raw: RawData) -> Split:
    """The splits, without common rows."""
    ways = config.data.split
    if ways.time is not None:
        return _by_time(config, times(raw.frame[ways.time]))
    if (given := given_split(config, raw)) is not None:
        return _by_column(config, raw, given)
    groups = groups_of(config, raw)
    if groups is not None:
        sizes = split_sizes(config, len(np.unique(groups)))
        return _drawn(len(groups), sizes, lambda *part: _draw_groups(config, groups, *part))
    sizes = split_sizes(config, len(raw.frame))
    with _too_few_of_a_class(config):
        draw = partial(_draw, config, _classes(config, raw))
        return _drawn(len(raw.frame), sizes, draw)


def _classes(config: StudyConfig, raw: RawData) -> NDArray[np.intp] | None:
    """The class of each row, if splits have the same proportions of classes.

    It is an index, since scikit-learn would add up values.
    """
    if not config.data.split.stratify:
        return None
    return np.unique(raw.frame[raw.targets[0]].to_numpy(), return_inverse=True)[1]


@contextmanager
def _too_few_of_a_class(config: StudyConfig) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        found = "the shares leave too few rows of a class to keep it in proportion"
        hint = "write other shares or stratify = false"
        raise DataError(config.problem("data.split", found, hint)) from error


def _by_column(config: StudyConfig, raw: RawData, given: GivenSplit) -> Split:
    """The splits that a column gives; rows for validation are drawn if it has none."""
    pool, sizes = given.validation_pool(config), given_sizes(config, given)
    if not len(pool):
        return Split(given.train, given.val, given.test)
    if not sizes.val:  # with folds
        return Split(pool, np.empty(0, np.intp), given.test)
    with _too_few_of_a_class(config):
        train, val = _draw(config, _classes(config, raw), pool, sizes.val)
    return Split(train, val, given.test)


def groups_of(config: StudyConfig, raw: RawData) -> NDArray[np.intp] | None:
    """The group of each row as an index into the sorted groups; None without groups."""
    name = config.data.split.group
    return None if name is None else pd.factorize(raw.frame[name], sort=True)[0]


def times(column: pd.Series[Any]) -> pd.Series[Any]:
    """The values to order the rows by; missing if a value is not a time."""
    if is_numeric_dtype(column.dtype) or is_datetime64_any_dtype(column.dtype):
        return column
    return pd.to_datetime(column, errors="coerce", format="ISO8601", utc=True)


def describe_misordered(column: pd.Series[Any]) -> str:
    """A description of dates that the column seems to write in another order; empty if none."""
    if not is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        return ""
    numbers = column.unique().astype(np.float64)
    whole = np.floor(numbers)
    if (numbers == whole).all():
        day, year = np.divmod(numbers, 10_000)
        if len(numbers) >= _FEWEST_DATES and _is_year(year).all() and _are_days(day):
            return f"dates that begin with the day or the month, such as {int(numbers[0])}"
        return ""
    if _is_year(whole).all() and _are_unpadded(
        [str(one).partition(".")[2] for one in column.unique()]
    ):
        return f"months or weeks after the year, such as {column.iloc[0]}"
    return ""


def _is_year(numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (numbers >= 1900) & (numbers <= 2100)


def _are_days(numbers: NDArray[np.float64]) -> bool:
    """Whether all numbers are a month, or a day and a month in either order: 7, 3101 or 131."""
    first, last = np.divmod(numbers, 100)

    def is_in(part: NDArray[np.float64], most: int) -> NDArray[np.bool_]:
        return (part >= 1) & (part <= most)

    return bool(
        is_in(numbers, 12).all()
        or (is_in(first, 31) & is_in(last, 12)).all()
        or (is_in(first, 12) & is_in(last, 31)).all()
    )


def _are_unpadded(fractions: Sequence[str]) -> bool:
    """Whether decimals are months or weeks with one or two digits, where 2 comes after 11."""
    if not all(1 <= int(text) <= 53 and len(text) < 3 for text in fractions):
        return False
    short = {text for text in fractions if len(text) == 1 and text != "1"}
    long = {text for text in fractions if text[0] != "0" and len(text) == 2}
    return bool(short and long) and (
        all(int(text) <= 12 for text in fractions) or len(long) >= _FEWEST_DATES
    )


def _by_time(config: StudyConfig, moments: pd.Series[Any]) -> Split:
    """The latest rows are for testing, those before them for validation.

    Rows with equal times stay in the order of the data.
    """
    sizes = split_sizes(config, len(moments))
    order = moments.reset_index(drop=True).sort_values(kind="stable").index.to_numpy(np.intp)
    return Split(*np.split(order, [sizes.train, sizes.train + sizes.val]))


def _drawn(
    n_rows: int, sizes: SplitSizes, draw: Callable[[RowIndices, int], tuple[RowIndices, RowIndices]]
) -> Split:
    rest, test = np.arange(n_rows), np.empty(0, np.intp)
    if sizes.test:
        rest, test = draw(rest, sizes.test)
    train, val = rest, np.empty(0, np.intp)
    if sizes.val:
        train, val = draw(rest, sizes.val)
    return Split(train, val, test)


def _draw(
    config: StudyConfig, classes: NDArray[np.intp] | None, rows: RowIndices, size: int
) -> tuple[RowIndices, RowIndices]:
    """The other rows, and `size` of them.

    A study of folds has no validation rows. Those of its refit may be too few to stratify.
    """
    stratify = None if classes is None else classes[rows]
    if stratify is not None and config.is_refit and not _can_stratify(stratify, size):
        stratify = None
    rest, drawn = train_test_split(
        rows, test_size=size, random_state=config.split_seed, stratify=stratify
    )
    return np.asarray(rest), np.asarray(drawn)


def _can_stratify(classes: NDArray[np.intp], size: int) -> bool:
    """Whether scikit-learn can draw `size` rows with each class in proportion."""
    counts = np.unique_counts(classes).counts
    return counts.min() > 1 and len(counts) <= min(size, len(classes) - size)


def _draw_groups(
    config: StudyConfig, groups: NDArray[Any], rows: RowIndices, size: int
) -> tuple[RowIndices, RowIndices]:
    """The rows of the other groups, and those of `size` groups."""
    shuffled = GroupShuffleSplit(1, test_size=size, random_state=config.split_seed)
    rest, drawn = next(shuffled.split(rows, groups=groups[rows]))
    return rows[rest], rows[drawn]
