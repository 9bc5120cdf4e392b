"""Guesses how a user's table could be used: which column to predict, and as what."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from sweeper.data.any_table import read_any_table
from sweeper.data.columns import (
    check_kind,
    is_number,
    plain,
    without_fractions,
)
from sweeper.data.csv_file import USUAL
from sweeper.data.csv_reader import codes_of
from sweeper.data.dates import holds_dates, in_days
from sweeper.data.given_split import splits_rows
from sweeper.data.lint import describe_missing_words, missing_classes
from sweeper.data.raw import RawData
from sweeper.data.remarks import (
    MISSING_TARGET,
    days,
    leaks,
    number_codes,
    row_id_doubts,
    totals,
    wide_categories,
    zero_codes,
)
from sweeper.data.sizes import SplitSizes
from sweeper.data.split import times
from sweeper.data.text_numbers import gap_words
from sweeper.data.useless_columns import read_as_missing, stray_text, text_faults, useless_columns
from sweeper.errors import DataError, Problem, did_you_mean, listed

# usual names of columns to predict
_TARGETS = (
    *("target", "label", "labels", "class", "y", "outcome", "output", "response", "price", "value"),
    *("survived", "churn", "churned", "diagnosis", "species"),
)
# usual names of columns with the weights of rows
_WEIGHTS = (
    *("weight", "weights", "sample_weight", "sample_weights", "row_weight", "case_weight"),
    *("wgt", "fnlwgt"),
)
# integers with up to this many values are classes, with more they are numbers
_MAX_CLASSES = 20


@dataclass(frozen=True, slots=True)
class Guess:
    """How a study could use a table."""

    source: str
    """The kind of file."""
    target: str
    because: str
    """How the target was found."""
    is_classes: bool
    """Whether the target is a class; else it is a number."""
    rows: int
    """The number of rows with a target."""
    features: int
    """How many columns are left to learn from."""
    drop: Mapping[str, str] = field(default_factory=dict[str, str])
    """Columns that a study cannot learn from, each with the reason."""
    values: int = 0
    """How many different values the target has."""
    rarest: int = 0
    """The number of rows with the rarest value of the target."""
    commonest: int = 0
    """The number of rows with the commonest value of the target."""
    numbers: int = 0
    """How many of the `features` are numbers."""
    gaps: int = 0
    """How many rows have no target."""
    as_text: Mapping[str, str] = field(default_factory=dict[str, str])
    """Columns of numbers written as text, and how to read them."""
    stray: str = ""
    """What keeps the target from being numbers, and where; empty if nothing does."""
    is_text: bool = False
    """Whether the target is text in any case."""
    as_numbers: str = ""
    """How to read the numbers that a target of text means; empty if it is just text."""
    codes: str = ""
    """The values of a target that could be classes or numbers, such as a rating; else empty."""
    settings: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    """The settings that read a CSV file that is not in UTF-8 with commas."""
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """By column, which words in text were read as missing values; they would stay text if only
    `missing_values` meant missing."""
    missing_values: Sequence[str] = ()
    hints: Sequence[str] = ()
    """Further remarks about columns."""
    time: str = ""
    """A column by which the rows can be split in the order of time; else empty."""
    split_column: str = ""
    """A column that says train, val or test in each row; else empty."""
    weight: str = ""
    """A column with the name and the values of weights of rows; else empty."""
    has_gaps: bool = False
    """Whether a number that is left, or a category of numbers, is missing in some row."""
    rarest_value: str = ""
    """The rarest value of the target."""
    unused: int = 0
    """How many categories of the target's type no row has."""

    def has_each_class_in(self, sizes: SplitSizes) -> bool:
        """Whether every split can have the same proportions of classes."""
        return sizes.has_each(self.rarest) and self.values <= sizes.smallest

    @property
    def is_left_out(self) -> bool:
        """Whether rows without a target are left out; not if its gaps may be words for a class."""
        return self.gaps > 0 and self.target not in self.words


def guess(path: Path, target: str | None = None) -> Guess:
    """What could be predicted from the table at `path`.

    This is the column `target`; if None, the only column with a usual name, or else the last one.

    Raises:
        DataError: the file does not exist, is not a table, or has no such column.
    """
    source, whole = read_any_table(path, target)
    return guess_rows(whole, source, str(path), target)


@np.errstate(invalid="ignore")  # infinite numbers, which are refused later
def guess_rows(
    whole: RawData,
    source: str,
    place: str,
    wanted: str | None,
    option: str = "--target",
    *,
    may_be_constant: bool = False,
    named: Collection[str] = (),
    as_classes: bool = False,
) -> Guess:
    """What could be predicted from rows, as by `guess`, with the target `wanted` if not None.

    `place` is what messages call the rows. Settings that are not guessed give `named` columns a
    purpose, which may be to learn from them. With `as_classes`, the target is known to be classes,
    which dates as text may be.

    Raises:
        DataError: there is nothing to predict or, unless columns `may_be_constant`, nothing to
            learn from; the user chooses by `option`.
    """
    read, declared = plain(whole.frame)
    as_read = replace(whole, frame=read, categories=declared)
    target, because = _target(place, as_read, wanted, option, as_classes=as_classes)
    targeted = replace(as_read, frame=whole.frame, targets=(target,)).with_targets()
    raw = replace(targeted, frame=plain(targeted.frame)[0])
    words = sorted({word for of in whole.words.values() for word in of})
    words += gap_words(targeted.frame, whole.decimal)
    drop = useless_columns(raw, words)
    usable = replace(raw, drop=(*drop,))
    kept, dates = usable.features, _dates(usable)
    if not kept and not may_be_constant and drop.keys().isdisjoint(named):
        raise DataError(_without_features(place, usable, drop, dates))
    used = replace(as_read, frame=whole.frame[[target, *kept]])
    as_missing = _words(used)
    plain_target = raw.frame[target]
    of_target = targeted.frame[target] if target in declared else without_fractions(plain_target)
    stray = stray_text(usable, of_target)
    ways = read_as_missing(usable, of_target, words, f" and {MISSING_TARGET}") if stray else ()
    is_classes = not stray and _is_classes(of_target)
    labels = _as_codes(usable, of_target, whole) if is_classes else of_target
    of_each = labels.value_counts()
    counts = of_each[of_each > 0]  # pandas counts all categories of a type
    if len(counts) == 1 and not may_be_constant:
        raise DataError(_constant_target(place, target, counts, option))
    number_texts = _as_text(usable, words)
    return Guess(
        source,
        target,
        because,
        is_classes=is_classes,
        rows=len(raw.frame),
        features=len(kept),
        numbers=len(usable.numbers),
        drop=drop,
        values=len(counts),
        rarest_value=str(counts.idxmin()) if len(counts) else "",
        unused=len(of_each) - len(counts),
        rarest=int(counts.min()) if len(counts) else 0,
        commonest=int(counts.max()) if len(counts) else 0,
        gaps=len(whole.frame) - len(raw.frame),
        as_text={**_gap_classes(usable, labels, words), **number_texts},
        stray="; ".join([stray, *ways]),
        codes=_codes(labels),
        is_text=not stray and not is_numeric_dtype(plain_target.dtype),
        as_numbers=number_texts.get(target, ""),
        settings=whole.csv.dialect.instead_of(USUAL) if whole.csv else {},
        words=as_missing,
        missing_values=used.words_of_numbers if as_missing else (),
        hints=(*_hints(usable, as_read, dates, is_classes=is_classes),),
        time=next((name for name in dates if times(usable.frame[name]).notna().all()), ""),
        # a category of numbers would be refused, too
        has_gaps=replace(usable, categories=frozenset[str]()).has_gaps_in_numbers,
        split_column=next((name for name in kept if splits_rows(usable.frame[name])), ""),
        weight=next((name for name in kept if _may_be_weights(usable.frame[name])), ""),
    )


def _constant_target(place: str, target: str, counts: pd.Series[Any], option: str) -> Problem:
    found = f"the target '{target}' has the same value in all rows, '{counts.index[0]}'"
    return Problem(place, "", found, f"choose another column with {option}")


def _as_codes(raw: RawData, target: pd.Series[Any], whole: RawData) -> pd.Series[Any]:
    """Classes as a study reads them from a CSV file: as text if they are codes such as 01 and 1."""
    if raw.csv is None or raw.kept is None:
        return target
    codes = codes_of(raw.csv, whole.frame[raw.targets[0]])
    is_text = isinstance(codes.dtype, pd.StringDtype)
    return codes.iloc[raw.kept].reset_index(drop=True) if is_text else target


def _without_features(
    place: str, raw: RawData, drop: Mapping[str, str], dates: Sequence[str]
) -> Problem:
    """The problem of a table in which all columns but the target are in `drop`, with reasons."""
    why = listed([f"'{name}' ({reason})" for name, reason in drop.items()])
    found = f"no column besides the target '{raw.targets[0]}' to learn from"
    found += f": {why}" if why else ""
    ways = [in_days(raw.frame[name]) for name in dates[:1]]
    hint = ", or ".join([*filter(None, ways), "use a table with numbers or categories"])
    return Problem(place, "", found, hint)


def _hints(
    raw: RawData, as_read: RawData, dates: Sequence[str], *, is_classes: bool
) -> Iterator[str]:
    """Hints about what to look at before training, as far as the rows show it."""
    yield from leaks(raw, is_classes=is_classes)
    yield from totals(as_read)
    yield from row_id_doubts(raw)
    yield from days(raw)
    yield from zero_codes(raw)
    yield from wide_categories(raw)
    readable = ((name, way) for name in dates if (way := in_days(raw.frame[name])))
    for name, way in islice(readable, 1):
        yield f"to learn from the dates in '{name}', {way}, and remove '{name}' from data.drop"
    numbers = raw.features if is_classes else [*raw.features, *raw.targets]
    yield from number_codes(raw, numbers, "", MISSING_TARGET)


def _may_be_weights(column: pd.Series[Any]) -> bool:
    """Whether a column has a usual name of weights of rows, and values that they can have."""
    if str(column.name).lower() not in _WEIGHTS or not is_number(column):
        return False
    return bool(np.isfinite(column.to_numpy(np.float64)).all() and column.min() >= 0)


def _words(raw: RawData) -> dict[str, str]:
    """Remarks about words for missing values that may be meant as text, by column."""
    names = [name for name in raw.words if name in raw.frame and raw.is_category(name)]
    remarks = {n: describe_missing_words(n, raw.words[n], raw.words_of_numbers[1:]) for n in names}
    return {name: one for name, one in remarks.items() if one}


def _is_split(column: pd.Series[Any]) -> bool:
    return check_kind(column) is None and splits_rows(column)


def _target(
    place: str, whole: RawData, wanted: str | None, option: str, *, as_classes: bool
) -> tuple[str, str]:
    """The column to predict, and how it was found."""
    columns = list(map(str, whole.frame.columns))
    if wanted is not None and wanted not in columns:
        hint = did_you_mean(wanted, columns) or f"its columns are {listed(columns)}"
        raise DataError(Problem(place, option, f"no column '{wanted}'", hint))
    if wanted is None:  # benchmarks often say last how they are split
        columns = [name for name in columns if not _is_split(whole.frame[name])] or columns
    named = [name for name in columns if name.lower() in _TARGETS]
    chosen = wanted or (named[0] if len(named) == 1 else columns[-1])
    problem = _target_problem(whole, chosen, as_classes=as_classes)
    if wanted is None and problem and whole.frame[chosen].count():
        chosen = next((one for one in reversed(columns) if not _target_problem(whole, one)), chosen)
        problem = _target_problem(whole, chosen)
    if problem:
        ways = [] if whole.frame[chosen].count() else ["fill it in"]
        ways += [in_days(whole.frame[chosen])] if holds_dates(whole.frame[chosen]) else []
        hint = ", or ".join([*filter(None, ways), f"name another with {option}"])
        raise DataError(Problem(place, "", f"the target '{chosen}' {problem}", hint))
    if wanted is not None:
        return chosen, "as asked"
    if chosen == str(whole.frame.columns[-1]):
        return chosen, "the last column"
    return chosen, "by its name" if named == [chosen] else "the last column that can be predicted"


def _target_problem(raw: RawData, name: str, *, as_classes: bool = False) -> str:
    """Why a column cannot be predicted, as in "holds times"; else empty."""
    column = raw.frame[name]
    if not column.count():
        return "has no value in any row"
    if unfit := check_kind(column):
        return f"holds {unfit}"
    is_read = is_numeric_dtype(column.dtype) or raw.text_numbers(name) or stray_text(raw, column)
    return "" if is_read else next(text_faults(column, may_be_dates=as_classes), "")


def _dates(raw: RawData) -> list[str]:
    """The columns that are left out and hold dates."""
    return [name for name in raw.drop if holds_dates(raw.frame[name])]


def _codes(target: pd.Series[Any]) -> str:
    """The values of a target that could be classes or numbers, such as a rating; else empty."""
    if is_bool_dtype(target.dtype) or not is_integer_dtype(target.dtype):
        return ""
    values = sorted(int(value) for value in target.unique())
    if not 2 <= len(values) <= _MAX_CLASSES:
        return ""
    if len(values) == 2:
        return f"the numbers {values[0]} and {values[1]}"
    return f"{len(values)} integers from {values[0]} to {values[-1]}"


def _as_text(raw: RawData, words: Sequence[str]) -> dict[str, str]:
    """The numbers that columns hold as text, and how to read them.

    Words for true and false are fine as two categories or classes.
    """
    found = {name: raw.text_numbers(name) for name in (*raw.targets, *raw.features)}
    return {
        name: f"holds {numbers}: {numbers.fix(raw.csv, words)}"
        for name, numbers in found.items()
        if numbers is not None and not numbers.is_boolean
    }


def _gap_classes(raw: RawData, target: pd.Series[Any], words: Sequence[str]) -> dict[str, str]:
    """Remarks about a target with classes that may be missing values, by its name."""
    if not isinstance(target.dtype, pd.StringDtype) or stray_text(raw, target):
        return {}
    rows_of = {str(name): int(rows) for name, rows in target.value_counts().items()}
    found = missing_classes(rows_of, words, is_text_file=raw.csv is not None)
    return {str(target.name): found} if found else {}


def _is_classes(column: pd.Series[Any]) -> bool:
    if is_bool_dtype(column.dtype) or not is_numeric_dtype(column.dtype):
        return True
    n_values = column.nunique()
    is_repeated = bool(n_values <= max(2, column.count() / 2))
    return not is_float_dtype(column.dtype) and n_values <= _MAX_CLASSES and is_repeated
