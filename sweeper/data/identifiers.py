"""Columns that number or name the rows, which say nothing about other rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

from sweeper.data.columns import without_fractions
from sweeper.data.text_numbers import text_numbers

# names of an index that pandas and Arrow write as a column
_WRITTEN_INDEX = re.compile(r"unnamed: \d+.*|__index_level_\d+__|level_\d+|index(\.\d+)?|")
# names that R and people give to columns that number the rows
_ROW_NUMBER = re.compile(
    r"(row|record|line|obs|observation|case|sample|serial|seq|sequence|s|sr|lfd)?[ ._-]*"
    r"(#|no|nr|num|number|names?|id|idx|index)s?\.?|row|obs|x\.?\d*|\.\.\.\d+|rn|rank_?id"
)
_IDENTIFIER = re.compile(
    r"(.*[^A-Za-z])?(id|ids|uuid|guid|key|code|number|no|nr|num|pk|sku|isbn|ssn|ean|hash|ticket"
    r"|phone|iban|vin|imei|account)"
    r"|.*[a-z0-9](Id|ID|Uuid|UUID|Guid|GUID|Key|Code|Number|No|Nr|Num|Phone|Account)"
)
# names of identifiers that several rows share, such as a customer or a patient
_ID = re.compile(
    r"(.*[^A-Za-z])?(id|ids|ID|IDs|Id|uuid|guid|UUID|GUID)|.*[a-z0-9](Id|ID|Uuid|UUID|Guid|GUID)"
    r"|(?i:user|customer|client|patient|subject|student|employee|order|product|item|account|session"
    r"|device|member|person|participant)id"
)
_ENDS_IN_ID = re.compile(
    r"(?i).*(?<!\bpa)(?<!\bb)(?<!\bgr)(?<!\bm)(?<!ac)(?<!flu)(?<!sol)(?<!val)(?<!lip)(?<!hum)"
    r"(?<!ro)(?<!vo)(?<!cov)(?<!br)(?<!liqu)(?<!rap)id"
)
# columns in which integers are expected to differ from row to row
_TIME = re.compile(
    r"(?i).*(year|time|date|month|week|day|hour|minute|second|epoch|rank|jahr|tag).*"
)
# with fewer rows, all values may differ by chance, or the table was typed by hand
_LEAST_TEXTS = 20
_LEAST_IDS = 10
_LEAST_NUMBERS = 100
_NEARLY_ALL = 0.98
# numbers of consecutive rows are on average no further apart than this
_LARGEST_STEP = 20
# a column named like an identifier with at most this many values may be a category
_MAX_CATEGORIES = 20
# how many pairs of equal values to expect by chance before their absence is significant
_EXPECTED_PAIRS = 20.0
# from here on chance is unlikely, with a probability of exp(-3)
_DOUBTFUL_PAIRS = 3.0


def is_written_index(name: str) -> bool:
    """Whether pandas or Arrow gives this name to an index that is written as a column."""
    return _WRITTEN_INDEX.fullmatch(name.lower()) is not None


def row_id_reason(name: str, column: pd.Series[Any]) -> str:
    """Why a column looks like an index or an identifier, as in "it counts the rows"; else empty."""
    known = without_fractions(column.dropna())
    if not len(known) or is_bool_dtype(known.dtype):
        return ""
    if is_integer_dtype(known.dtype):
        if len(known) == len(column) and _counts(known):
            return "counts the rows"
        return (
            _reason_by_name(name.strip(), known)
            or _reason_by_values(name, known if len(known) == len(column) else column)
            or _reason_by_order(name, known if len(known) == len(column) else column)
            or _reason_of_repeated(name.strip(), known)
        )
    if is_numeric_dtype(known.dtype) or not isinstance(known.dtype, pd.StringDtype):
        return ""
    if numbers := text_numbers(known):
        read = pd.to_numeric(known, errors="coerce")  # blanks may be among them
        return row_id_reason(name, read) if numbers.is_plain else ""
    if len(known) >= _LEAST_TEXTS and known.is_unique:
        return "has a different text in every row, like an identifier"
    return _reason_of_repeated(name.strip(), known)


def row_id_doubt(name: str, column: pd.Series[Any]) -> str:
    """Why a column may be an identifier, if there is no `row_id_reason`; else empty."""
    known = without_fractions(column)
    is_doubtful = _pairs_by_chance(name, known) >= _DOUBTFUL_PAIRS
    if not is_doubtful or row_id_reason(name, column):
        return ""
    return "has a different number in every row, so it may be an identifier"


def _reason_by_name(name: str, known: pd.Series[Any]) -> str:
    lower, share = name.lower(), known.nunique() / len(known)
    if is_written_index(name) and share > 0.5 and known.min() >= 0:
        return "looks like an old index"
    if _ROW_NUMBER.fullmatch(lower) and share == 1 and _is_dense(known):
        return "looks like an old index"
    is_identifier = _IDENTIFIER.fullmatch(name) or _ENDS_IN_ID.fullmatch(name)
    least = _LEAST_IDS if _ID.fullmatch(name) and share == 1 else _LEAST_TEXTS
    if is_identifier and share >= _NEARLY_ALL and len(known) >= least:
        return "has a different number in every row, like an identifier"
    return ""


def _reason_of_repeated(name: str, known: pd.Series[Any]) -> str:
    """For identifiers that several rows share, such as a customer."""
    is_id = _ID.fullmatch(name) and known.nunique() > _MAX_CATEGORIES
    return "is named like an identifier" if is_id else ""


def _reason_by_values(name: str, column: pd.Series[Any]) -> str:
    """For integers that all differ, whatever the column's name, if that cannot be chance."""
    is_chance = _pairs_by_chance(name, column) < _EXPECTED_PAIRS
    return "" if is_chance else "has a different number in every row, like an identifier"


def _pairs_by_chance(name: str, column: pd.Series[Any]) -> float:
    """How many pairs of equal values to expect between its ends; 0 if there are any, or few rows.

    Also 0 for numbers that are expected to differ.
    """
    if not (is_integer_dtype(column.dtype) and column.is_unique) or _TIME.fullmatch(name):
        return 0.0
    spread = float(column.max()) - float(column.min()) + 1
    return len(column) * (len(column) - 1) / 2 / spread if len(column) >= _LEAST_NUMBERS else 0.0


def _reason_by_order(name: str, column: pd.Series[Any]) -> str:
    """For integers that number the rows in their order, from any number on, some left out.

    Equal steps such as 0, 5, 10 are probably a scale of measurement.
    """
    is_other = not is_integer_dtype(column.dtype) or _TIME.fullmatch(name)
    if is_other or len(column) < _LEAST_TEXTS:
        return ""
    steps = np.diff(column.to_numpy())
    if steps.min() < 1 or steps.mean() > _LARGEST_STEP or steps.min() == steps.max() > 1:
        return ""
    return "rises from row to row, like an identifier"


def _counts(known: pd.Series[Any]) -> bool:
    """Whether it counts from 0 or 1 in the order of the rows."""
    first = known.iloc[0]
    return first in (0, 1) and np.array_equal(known.to_numpy(), np.arange(len(known)) + first)


def _is_dense(known: pd.Series[Any]) -> bool:
    """Whether different integers are as dense as row numbers after some rows were removed."""
    return bool(known.min() >= 0 and known.max() <= 20 * len(known) + 1)
