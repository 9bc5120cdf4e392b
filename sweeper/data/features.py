"""Model inputs: features that are filled, encoded and scaled, as fitted on the training rows.

A few columns at a time are written into the arrays that trials train on, so that only these and the
rows as read take much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sweeper.config import StudyConfig
from sweeper.config.data import Constant
from sweeper.data.identity import UNKNOWN, in_order, written
from sweeper.data.memory import blocks
from sweeper.data.raw import RawData
from sweeper.data.split import Rows, Split
from sweeper.data.transform import Category, Scaling, Transform, ordinal
from sweeper.errors import DataError

SCALERS: dict[str, type[Any]] = {"standard": StandardScaler, "minmax": MinMaxScaler}


@dataclass(frozen=True, eq=False)
class Features:
    """Features of the three splits, each shaped (rows, features), and how they were made."""

    train: NDArray[Any]
    val: NDArray[Any]
    test: NDArray[Any]
    names: tuple[str, ...]
    transform: Transform


def categories_of(config: StudyConfig, raw: RawData, parts: Split) -> tuple[Category, ...]:
    """The columns that are encoded value by value, with the values of their training rows."""
    names = [name for name in raw.features if raw.is_category(name)]
    is_filled = config.data.impute == "most_frequent"
    ordered = sorted if config.edition == 1 else in_order
    columns = (raw.frame[name].iloc[parts.train] for name in names)
    return tuple(_category(*one, is_filled, ordered) for one in zip(names, columns, strict=True))


def numbers_of(raw: RawData) -> list[str]:
    """The columns that are numbers; they become the first features."""
    return [name for name in raw.features if not raw.is_category(name)]


def feature_names(
    config: StudyConfig, raw: RawData, categories: Sequence[Category]
) -> tuple[str, ...]:
    """The name of each feature: numbers come first, then the rest."""
    return (*numbers_of(raw), *(name for one in categories for name in _names(config, one)))


def features(
    config: StudyConfig, raw: RawData, parts: Split, categories: Sequence[Category]
) -> Features:
    """All rows as model inputs; `categories` are those of this split."""
    names = feature_names(config, raw, categories)
    numbers = numbers_of(raw)
    written = _Written(config, parts, len(names))
    fills, scalers = _write_numbers(config, raw, numbers, written)
    place_scalers: list[Any] = []
    if config.data.categorical == "onehot":
        _write_one_hot(raw, categories, written, len(numbers))
    else:
        place_scalers = _write_places(config, raw, categories, written, len(numbers))
    transform = Transform(
        columns=tuple(raw.features),
        numbers=tuple(numbers),
        fills=fills,
        scaling=_scaled_by(scalers),
        categories=tuple(categories),
        one_hot=config.data.categorical == "onehot",
        place_scaling=_scaled_by(place_scalers),
        classes=(),
        edition=config.edition,
    )
    return Features(*written.parts, names, transform)


class _Written:
    """The arrays of the three splits, into which columns are written."""

    def __init__(self, config: StudyConfig, parts: Split, width: int) -> None:
        self.rows: tuple[Rows, ...] = (parts.train, parts.val, parts.test)
        self.parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] = (
            np.zeros((len(parts.train), width), config.execution.precision),
            np.zeros((len(parts.val), width), config.execution.precision),
            np.zeros((len(parts.test), width), config.execution.precision),
        )

    def write(self, first: int, columns: NDArray[np.float64]) -> None:
        """Write columns of every row of the data, from feature `first` on."""
        for rows, part in zip(self.rows, self.parts, strict=True):
            part[:, first : first + columns.shape[1]] = columns[rows]

    def mark(self, first: int, places: NDArray[np.int64]) -> None:
        """Write 1 at the index of each row, from feature `first` on; nothing if it is negative."""
        for rows, part in zip(self.rows, self.parts, strict=True):
            known = np.flatnonzero(places[rows] >= 0)
            part[known, first + places[rows][known]] = 1


def _category(
    name: str,
    training: pd.Series[Any],
    is_filled: bool,
    ordered: Callable[[Iterable[Any]], list[Any]],
) -> Category:
    codes, values = pd.factorize(training)
    known: list[Any] = values.tolist()
    gaps, *counts = np.bincount(codes + 1, minlength=len(known) + 1).tolist()
    if is_filled:  # the smallest of the most frequent, as in scikit-learn's SimpleImputer
        often = (value for value, count in zip(known, counts, strict=True) if count == max(counts))
        return Category(name, tuple(ordered(known)), ordered(often)[0])
    # a missing value is a category of its own
    return Category(name, (*ordered(known), *((None,) if gaps else ())))


def _names(config: StudyConfig, category: Category) -> Iterator[str]:
    if config.data.categorical != "onehot":
        yield category.name
        return
    for value in category.values:
        shown = value if config.edition == 1 else written(value)
        yield f"{category.name}_{'nan' if value is None else shown}"


def _write_numbers(
    config: StudyConfig, raw: RawData, names: list[str], written: _Written
) -> tuple[tuple[float, ...], list[Any]]:
    """The fill values of the columns, and their scalers, one per block."""
    fills: list[float] = []
    scalers: list[Any] = []
    for block in blocks(len(raw.frame), len(names)):
        columns = np.empty((len(raw.frame), block.stop - block.start), order="F")
        filled = np.zeros(1)
        for place, name in enumerate(names[block]):
            columns[:, place] = raw.frame[name]
        for imputer in _imputers(config):
            columns = _through(imputer, columns, written.rows[0], "F")
            filled = np.asarray(imputer.statistics_, np.float64)
            fills += filled.tolist()
        columns = _scaled(config, columns, written.rows[0], "F", scalers)
        check_scaled(config, raw, names[block], columns, scalers[-1:], filled)
        written.write(block.start, columns)
    return tuple(fills), scalers


def _write_one_hot(
    raw: RawData, categories: Sequence[Category], written: _Written, first: int
) -> None:
    for one in categories:
        # a value that no training row has becomes a row of zeros
        written.mark(first, _places(raw, one))
        first += len(one.values)


def _write_places(
    config: StudyConfig,
    raw: RawData,
    categories: Sequence[Category],
    written: _Written,
    first: int,
) -> list[Any]:
    """The scalers of the columns, one per block."""
    scalers: list[Any] = []
    for block in blocks(len(raw.frame), len(categories)):
        columns = np.stack([ordinal(one, _places(raw, one)) for one in categories[block]], axis=1)
        columns = _scaled(config, columns, written.rows[0], "C", scalers)
        written.write(first + block.start, columns)
    return scalers


def _places(raw: RawData, category: Category) -> NDArray[np.int64]:
    """The index of each row's value among those of the category."""
    codes, values = pd.factorize(raw.frame[category.name])
    # the code of a missing value is -1
    place = {value: place for place, value in enumerate(category.values)}
    filled = [category.fill if value is None else value for value in (*values.tolist(), None)]
    return np.array([place.get(value, UNKNOWN) for value in filled], np.int64)[codes]


def _scaled(
    config: StudyConfig,
    columns: NDArray[np.float64],
    rows: Rows,
    order: Literal["C", "F"],
    scalers: list[Any],
) -> NDArray[np.float64]:
    """The columns, scaled by a new one of the `scalers`; unchanged without scaling."""
    if config.data.scale not in SCALERS:
        return columns
    scalers.append(SCALERS[config.data.scale]())
    return _through(scalers[-1], columns, rows, order)


def _through(
    transformer: Any, columns: NDArray[np.float64], rows: Rows, order: Literal["C", "F"]
) -> NDArray[np.float64]:
    """The columns, transformed as fitted on these `rows`.

    The memory order is the one that scikit-learn sees if given all columns at once, since it
    determines the last bit of a sum.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # `check_scaled` reports it
        transformer.fit(np.asarray(columns[rows], order=order))
        return transformer.transform(columns)


def check_scaled(
    config: StudyConfig,
    raw: RawData,
    names: Sequence[str],
    columns: NDArray[np.float64],
    scalers: Sequence[Any],
    fills: NDArray[np.float64] | float = 0.0,
) -> None:
    """Refuse columns that scaling has made constant, or not finite.

    Finite numbers may be so far apart that their differences are not.

    Raises:
        DataError: with each of these columns.
    """
    with np.errstate(over="ignore"):
        is_fit = np.isfinite(columns.astype(config.execution.precision)).all(axis=0)
        is_fit &= np.isfinite(fills)
    for scaler in scalers:
        is_fit &= np.isfinite(scaler.scale_) & (scaler.scale_ != 0)
    unfit = [names[place] for place in np.flatnonzero(~is_fit).tolist()]
    if unfit:
        what = f"too large for {config.execution.precision} once they are filled and scaled"
        hint = 'write smaller numbers, or scale = "none"'
        raise DataError(
            config.problem(raw.key, f"column '{name}' of {raw.name}: values {what}", hint)
            for name in unfit
        )


def _imputers(config: StudyConfig) -> list[Any]:
    match config.data.impute:
        case "none":
            return []
        case Constant(constant=number):
            return [SimpleImputer(strategy="constant", fill_value=number)]
        case method:
            # the mean of numbers that are too far apart is infinite, and the column would be left
            # out
            return [SimpleImputer(strategy=method, keep_empty_features=True)]


def _scaled_by(scalers: Sequence[Any]) -> Scaling | None:
    if not scalers:
        return None
    to_range = isinstance(scalers[0], MinMaxScaler)
    shifts = [scaler.min_ if to_range else scaler.mean_ for scaler in scalers]
    scales = [scaler.scale_ for scaler in scalers]
    return Scaling(to_range, tuple(np.hstack(scales).tolist()), tuple(np.hstack(shifts).tolist()))
