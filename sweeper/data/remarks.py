"""Warnings about columns that can be used, but may not mean what a study would learn from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from sweeper.config import StudyConfig
from sweeper.config.toml import toml_value
from sweeper.data.columns import (
    MAX_TEXT_VALUES,
    columns_of_sums,
    dates_as_numbers,
    header_of_data,
    in_single_quotes,
    is_number,
)
from sweeper.data.csv_dialect import hides_utf_8
from sweeper.data.identifiers import row_id_doubt, row_id_reason
from sweeper.data.identity import written
from sweeper.data.raw import RawData
from sweeper.data.text_numbers import TextNumbers
from sweeper.errors import counted, listed

_COLUMNS_SHOWN = 6

LEAVE_OUT = "add it to data.drop, unless it is known before the target is"
"""How to fix such a column."""

# with fewer rows, columns may agree by chance
_LEAST_ROWS = 20
# columns that do not agree in the first rows are not checked further
_FIRST_ROWS = 2_000
# most values per row that a category may have for its classes to mean anything
_ROWS_PER_VALUE = 5
_MAX_VALUES = 20
_ZERO_CODE = re.compile(r"\s*0\d{2,}\s*")
# numbers with at least this many different values are not just codes
_LEAST_NUMBERS = 10
_SAME_LINE = 1 - 1e-6

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
_LEAST_OTHERS = 5
# a single value may be an outlier, unless it is this many times as far away as the others
_FAR_ONCE = 3


def notes(config: StudyConfig, raw: RawData) -> tuple[str, ...]:
    """Warnings about columns that are features, but were probably not meant to be."""
    is_classes = config.train.target == "classes"
    row_ids = (
        f"'{name}' {why}: add it to data.drop, unless the model should learn from it"
        for name in raw.features
        if (why := row_id_reason(name, raw.frame[name]))
    )
    texts = [name for name in raw.features if name not in config.data.categorical_columns]
    texts += raw.targets if is_classes else ()
    return (
        *_of_csv(raw),
        *(f"{raw.name}: {remark}" for remark in totals(raw)),
        *_first(_boolean_weights(raw), "have booleans as weights"),
        *_first(row_ids, "look like identifiers"),
        *_first(row_id_doubts(raw), "may be identifiers"),
        *_first(leaks(raw, is_classes=is_classes), "reveal the target"),
        *_first(days(raw), "hold dates as numbers"),
        *_first(zero_codes(raw), "have leading zeros"),
        *_first(wide_categories(raw), "have many different texts"),
        *_first(_as_text(raw, texts), "hold numbers as text"),
        *_first(_sentinels(config, raw), "hold numbers that may mean missing values"),
        *_first(_merged(config, raw), "have different numbers that are equal in training"),
    )


def _boolean_weights(raw: RawData) -> Iterator[str]:
    """A warning if the weights of rows are booleans."""
    for name in raw.weights:
        if is_bool_dtype(raw.frame[name].dtype):
            yield f"'{name}' holds booleans: as weights, rows with false do not count"


def _merged(config: StudyConfig, raw: RawData) -> Iterator[str]:
    """Unscaled numbers of which most differ by less than the precision of training."""
    precision = config.execution.precision
    settings = dict.fromkeys(raw.numbers if config.data.scale == "none" else (), "scale")
    if config.train.target == "numbers" and not config.data.standardizes_targets:
        settings |= dict.fromkeys(raw.targets, "target_scale")
    for name, setting in settings.items():
        numbers = raw.floats(name)[:, 0]
        values = np.unique(numbers[~np.isnan(numbers)])
        with np.errstate(over="ignore"):
            kept = len(np.unique(values.astype(precision)))
        if kept < len(values) / 2:
            yield (
                f"'{name}' has {len(values)} different numbers, but {kept} in {precision}: write "
                f'data.{setting} = "standard", which keeps them apart, or subtract a constant'
            )


def totals(raw: RawData) -> Iterator[str]:
    """A warning if the last row is the sum of all others."""
    if names := columns_of_sums(raw.frame[[*raw.features, *raw.targets]]):
        columns = listed([f"'{name}'" for name in names])
        place = raw.places([len(raw.frame) - 1])
        yield f"{place} is the sum of all other rows in {columns}; if it is a total, remove it"


def row_id_doubts(raw: RawData) -> Iterator[str]:
    """Warnings about features that may number the rows in a way of their own."""
    for name in raw.features:
        if why := row_id_doubt(name, raw.frame[name]):
            yield f"'{name}' {why}: add it to data.drop if it is"


def leaks(raw: RawData, *, is_classes: bool) -> Iterator[str]:
    """Warnings about features that reveal the target."""
    for target in raw.targets:
        for name in raw.features:
            if why := leak_reason(raw.frame[name], raw.frame[target], is_classes=is_classes):
                yield f"'{name}' {why}: {LEAVE_OUT}"


def days(raw: RawData) -> Iterator[str]:
    """Warnings about features that hold dates as numbers."""
    for name in raw.numbers:
        if remark := dates_as_numbers(raw.frame[name]):
            yield f"'{name}' {remark}"


def zero_codes(raw: RawData) -> Iterator[str]:
    """Warnings about features of a CSV file that are read as numbers, but written like codes."""
    names = [name for name in raw.numbers if raw.frame[name].dtype.kind in "iuf"]
    if raw.csv is None or not names:
        return
    texts = raw.csv.as_text(usecols=names, nrows=_FIRST_ROWS, keep_default_na=False)
    for name in names:
        code = next((text for text in texts[name].tolist() if _ZERO_CODE.fullmatch(str(text))), "")
        if code:
            yield (
                f"'{name}' is written like a code, such as {code}, and read as a number: "
                "add it to data.categorical_columns, or to data.drop"
            )


def wide_categories(raw: RawData) -> Iterator[str]:
    """Warnings about text with many different values, of which most have few rows."""
    for name in raw.features:
        column = raw.frame[name]
        n_values = 0 if is_number(column) else column.nunique()
        if n_values > MAX_TEXT_VALUES and column.count() < _ROWS_PER_VALUE * n_values:
            yield (
                f"'{name}' has {n_values} different texts in {column.count()} rows, each an input "
                "of the network: add it to data.drop, unless they repeat in new rows"
            )


def number_codes(raw: RawData, names: Iterable[str], also: str, of_targets: str) -> Iterator[str]:
    """Warnings about numbers in the columns `names` that may mean a missing value.

    `also` is another setting that features then need, `of_targets` one that targets need.
    """
    found = [one for name in names if (one := sentinels(raw.frame[name]))]
    words = sorted({word for of in raw.words.values() for word in of})
    missing = (
        None
        if raw.csv is None
        else [*words, *sorted({written(value) for one in found for value in one.values})]
    )
    for one in found:
        setting = of_targets if one.name in raw.targets else also
        yield f"'{one.name}' {one.warning(missing, setting)}"


def text_fix(raw: RawData, name: str, numbers: TextNumbers) -> str:
    """How to read the numbers that are written as text in a column."""
    missing = [*raw.words.get(name, ()), *(raw.gap_words if numbers.words else ())]
    return numbers.fix(raw.csv, missing)


WITH_POINTS = "written with a point, though decimals are ','"
"""What `RawData.with_points` finds."""


def points_fix(raw: RawData, name: str) -> str:
    """How to write the numbers of a column without points that separate thousands."""
    numbers, hint = raw.text_numbers(name), "write numbers without a separator of thousands"
    if numbers is None or raw.decimal == ".":
        return hint
    return f"{hint}; or {text_fix(raw, name, numbers)}"


def _of_csv(raw: RawData) -> Iterator[str]:
    """Warnings about a CSV file as a whole."""
    if raw.csv is None:
        return
    if header := header_of_data(raw.frame, raw.decimal):
        yield f"{raw.name}: {header}; if so, add a line of column names above it"
    if quoted := in_single_quotes(raw.frame):
        yield f"{raw.name}: {quoted}: {raw.csv.unquote_hint()}"
    if hides_utf_8(raw.csv):
        encoding = raw.csv.dialect.encoding
        fix = 'write encoding = "utf-8" in [data] if names or categories have wrong letters'
        yield f"{raw.name} is valid UTF-8, but read as {encoding.upper()}: {fix}"


def _as_text(raw: RawData, names: Iterable[str]) -> Iterator[str]:
    """Warnings about columns that hold numbers written as text, and how to read them."""
    for name in names:
        numbers = raw.text_numbers(name)
        if numbers is None or numbers.is_boolean:  # two categories serve as well as 1 and 0
            continue
        if numbers.is_plain and name in raw.categories:
            continue
        values = "classes" if name in raw.targets else "categories"
        count = f"{raw.frame[name].nunique()} {values}"
        yield f"'{name}' holds {numbers}, and is read as {count}: {text_fix(raw, name, numbers)}"


def _sentinels(config: StudyConfig, raw: RawData) -> Iterator[str]:
    """Warnings about numbers that may mean a missing value, unless the study lists these."""
    if getattr(config.data, "missing_values", None) is not None:
        return
    targets = raw.targets if config.train.target == "numbers" else ()
    names = [name for name in (*raw.features, *targets) if name not in raw.categories]
    also = IMPUTE if config.data.impute == "none" else ""
    of_targets = "" if config.data.missing_target == "drop" else MISSING_TARGET
    yield from number_codes(raw, names, also, of_targets)


def _first(remarks: Iterable[str], others: str) -> Iterator[str]:
    sentences = [f"column {remark}" for remark in remarks]
    yield from sentences[:_COLUMNS_SHOWN]
    if more := len(sentences[_COLUMNS_SHOWN:]):
        yield f"{counted(more, 'more column')} {others}"


def leak_reason(column: pd.Series[Any], target: pd.Series[Any], *, is_classes: bool) -> str:
    """How a feature reveals the target, as in "is a copy of the target 'y'"; else empty."""
    if len(column) > _FIRST_ROWS:
        head, of_target = column.iloc[:_FIRST_ROWS], target.iloc[:_FIRST_ROWS]
        is_known = (head.notna() & of_target.notna()).sum() >= _LEAST_ROWS
        if is_known and not _leak(head, of_target, is_classes):
            return ""
    reason = _leak(column, target, is_classes)
    return reason and f"{reason} '{target.name}'"


def _leak(column: pd.Series[Any], target: pd.Series[Any], is_classes: bool) -> str:
    known = (column.notna() & target.notna()).to_numpy()
    if known.sum() < _LEAST_ROWS:
        return ""
    one, other = column[known], target[known]
    if is_classes:
        return _of_classes(one, other) or _by_gaps(column, target) or _by_ranges(one, other)
    if not is_numeric_dtype(other.dtype):
        return ""
    if is_numeric_dtype(one.dtype):
        return _of_numbers(one.to_numpy(np.float64), other.to_numpy(np.float64))
    return _of_texts(one, other)


def _of_classes(column: pd.Series[Any], target: pd.Series[Any]) -> str:
    values, classes, pairs = _pairs(column, target)
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
    rows_of = target.value_counts()
    few = rows_of[rows_of > 0].min() < _ROWS_PER_VALUE
    is_leak = not few and classes.isin([0, 1]).all() and classes.nunique() == 2
    return "is missing exactly in the rows of some classes of the target" if is_leak else ""


def _by_ranges(column: pd.Series[Any], target: pd.Series[Any]) -> str:
    """For numbers that are in a different range for each class, such as 0 and above 0."""
    if not is_numeric_dtype(column.dtype):
        return ""
    codes, classes = pd.factorize(target)
    rows_of = np.bincount(codes)
    if len(classes) < 2 or rows_of.min() < _ROWS_PER_VALUE:
        return ""
    numbers = column.to_numpy()[np.argsort(codes, kind="stable")]
    first = np.cumsum(rows_of) - rows_of  # of each class
    low, high = np.minimum.reduceat(numbers, first), np.maximum.reduceat(numbers, first)
    order = np.argsort(low)
    apart = (low[order][1:] > high[order][:-1]).all()
    return "is in a different range for each class of the target" if apart else ""


def _of_texts(column: pd.Series[Any], target: pd.Series[Any]) -> str:
    values, numbers, pairs = _pairs(column, target)
    is_leak = values == numbers == pairs and _LEAST_NUMBERS <= numbers <= len(target) / 2
    return "has one text for each value of the target" if is_leak else ""


def _pairs(column: pd.Series[Any], target: pd.Series[Any]) -> tuple[int, int, int]:
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


def sentinels(column: pd.Series[Any]) -> Sentinels | None:
    """The numbers of a column that probably mean missing values, or None."""
    if not is_number(column):
        return None
    numbers = column.to_numpy(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers) or not {float(numbers.min()), float(numbers.max())} & {*_SENTINELS, -1.0}:
        return None
    is_code = np.isin(numbers, [*_SENTINELS])
    if _is_minus_one_a_code(numbers):
        is_code |= numbers == -1
    codes, others = numbers[is_code], numbers[~is_code]
    if len(others) == 0 or len(np.unique(others)) < _LEAST_OTHERS:
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
    return len(counts) >= 2 * _LEAST_OTHERS and len(negative) > counts.max()
