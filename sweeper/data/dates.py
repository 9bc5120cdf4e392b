"""Columns of dates: whether pandas reads them, and how to count their days."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from sweeper.config.toml import toml_value
from sweeper.data.columns import check_kind
from sweeper.data.date_pattern import DATE

# a first number that can only be a day, or dots as in 31.1.2026
_DAY_FIRST = r"(1[3-9]|2\d|3[01])[-/.]|\d{1,2}\.\d{1,2}\.\d"
# months as Excel writes them, which pandas takes for days of the year 1
_MONTHS = ("%b-%y", "%b/%y", "%b %y", "%B-%y", "%B %y")
_TIME_OF_DAY = re.compile(r"\d{1,2}:")


def are_date_texts(column: pd.Series[Any]) -> bool:
    """Whether all values of a column, as text, have the form of a date or a time."""
    return bool(column.dropna().astype(str).str.fullmatch(DATE).all())


def in_days(column: pd.Series[Any]) -> str:
    """How to make numbers of the dates in a column; empty if pandas cannot read all of them."""
    name = f"df[{str(column.name)!r}]"
    days = pd.Series(column.dropna().unique())
    day_first = {"dayfirst": True} if _is_day_first(days) else {}
    ways = [day_first, *({"format": one} for one in _MONTHS), {"format": "mixed", **day_first}]
    options = next((way for way in ways if _can_read(days, way)), None)
    if options is None:
        return ""
    arguments = "".join(
        f", {key}={toml_value(value) if isinstance(value, str) else value}"
        for key, value in options.items()
    )
    dates = f"pd.to_datetime({name}, utc=True{arguments})"
    days = f'({dates} - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)'
    return f"count days with pandas: {name} = {days}"


def _can_read(dates: pd.Series[Any], options: Mapping[str, Any]) -> bool:
    """Whether pandas reads all of these dates with such options, and can count their days."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a format cannot be guessed
        try:
            pd.to_datetime(dates, utc=True, **options).sub(pd.Timestamp(0, tz="UTC"))
        except (ValueError, TypeError):
            return False
    return True


def _is_day_first(column: pd.Series[Any]) -> bool:
    return bool(column.astype(str).str.match(_DAY_FIRST).any())


def holds_dates(column: pd.Series[Any]) -> bool:
    """Whether a column holds dates that pandas can read, as text or by its type."""
    first = column.dropna().iloc[:1]
    if is_numeric_dtype(column.dtype) or first.empty or _TIME_OF_DAY.match(str(first.iloc[0])):
        return False
    kind = check_kind(column)
    is_date = kind == "times" or (not kind and are_date_texts(column))
    options = {"dayfirst": _is_day_first(first), "errors": "coerce", "utc": True}
    return is_date and bool(pd.to_datetime(first, **options).notna().all())
