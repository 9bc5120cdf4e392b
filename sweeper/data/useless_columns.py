"""Columns that a study cannot learn from, each with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from sweeper.config.toml import toml_value
from sweeper.data.columns import check_kind, has_too_many_values, is_number, strays
from sweeper.data.dates import are_date_texts
from sweeper.data.identifiers import row_id_reason
from sweeper.data.identity import NotNumbersError, floats
from sweeper.data.raw import RawData
from sweeper.errors import counted

# a column with fewer values may have none among the training rows
_LEAST_VALUES = 5
# more different words among numbers hardly all mean a missing value
_MAX_STRAY_WORDS = 3


def useless_columns(raw: RawData, words: Sequence[str]) -> dict[str, str]:
    """The columns that are of no use, each with the reason."""
    names = raw.features
    useless = {name: why for name in names if (why := next(_faults(raw, name, words), ""))}
    others = (name for name in names if name not in useless)
    row_ids = {name: why for name in others if (why := row_id_reason(name, raw.frame[name]))}
    if len(useless) + len(row_ids) == len(names):
        row_ids = {}  # if there is nothing else to learn from, it may be intended
    reasons = {**useless, **row_ids}
    return {name: reasons[name] for name in names if name in reasons}


def stray_text(raw: RawData, column: pd.Series[Any]) -> str:
    """Text in a column of a CSV file that otherwise holds numbers; else empty."""
    mask = strays(column, raw.decimal).to_numpy()
    if raw.csv is None or not 0 < mask.sum() < column.count() / 2:
        return ""
    row = int(mask.argmax())
    others = int(mask.sum()) - 1
    more = f", nor {'is' if others == 1 else 'are'} {others} more" if others else ""
    return f"'{column.iloc[row]}' in {raw.places([row])} is not a number{more}"


def read_as_missing(
    raw: RawData, column: pd.Series[Any], words: Sequence[str], also: str = ""
) -> Iterator[str]:
    """How to read few words among the numbers of a column as missing values.

    `words` already mean a missing value, and the setting `also` is needed. Text with digits, or of
    many kinds, may mean something else.
    """
    others = [*map(str, column[strays(column, raw.decimal).to_numpy()].unique())]
    if len(others) <= _MAX_STRAY_WORDS and not re.search(r"\d", " ".join(others)):
        setting = f"missing_values = {toml_value([*dict.fromkeys(['', *words, *others])])}"
        yield f"write {setting}{also} in [data] if that means a missing value"


def _faults(raw: RawData, name: str, words: Sequence[str]) -> Iterator[str]:
    """Why a study cannot learn from a column."""
    column = raw.frame[name]
    if unfit := check_kind(column):
        yield f"holds {unfit}"
    elif not column.count():
        yield "has no value in any row"
    elif column.count() < min(_LEAST_VALUES, len(column)):
        yield f"has a value in only {counted(column.count(), 'row')}"
    # the first rows are enough for most columns, and faster
    elif all(rows.nunique(dropna=False) == 1 for rows in (column.iloc[:100], column)):
        yield "has the same value in every row"
    elif is_number(column) and raw.key != "data":  # who has the rows in memory can fix them
        yield from _number_faults(raw, column)
    elif not is_numeric_dtype(column.dtype):
        stray = stray_text(raw, column)
        if numbers := raw.text_numbers(name):
            if stray or has_too_many_values(column):
                keep = f", and remove '{name}' from data.drop" if numbers.words else ""
                yield f"holds {numbers}; {numbers.fix(raw.csv, words)}{keep}"
            return
        if stray:
            ways = [*read_as_missing(raw, column, words), "fix that"]
            fix = f"{', or '.join(ways)}, and remove '{name}' from data.drop"
            yield f"would be numbers, but {stray}; {fix}"
        yield from text_faults(column)


def _number_faults(raw: RawData, column: pd.Series[Any]) -> Iterator[str]:
    """Numbers that a study refuses, since they have no value in the precision of training."""
    with np.errstate(over="ignore"):
        is_beyond = np.isinf(column.to_numpy(np.float64).astype(np.float32))
    fix = f"; fix that, and remove '{column.name}' from data.drop"
    if is_beyond.any():
        places = raw.places(np.flatnonzero(is_beyond).tolist())
        yield f"is infinite or too large for float32 in {places}{fix}"
    elif column.dtype.kind in "iu":
        try:
            floats(column.to_numpy())
        except NotNumbersError as error:
            yield f"{error.found} ({raw.places(error.rows)}){fix}"


def text_faults(column: pd.Series[Any], *, may_be_dates: bool = False) -> Iterator[str]:
    """Why text is of no use, neither as a category nor as classes."""
    if not may_be_dates and are_date_texts(column):
        yield f"holds dates or times as text, such as '{column.dropna().astype(str).iloc[0]}'"
    if has_too_many_values(column):
        yield f"is text with {column.nunique()} different values"
