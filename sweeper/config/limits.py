"""What a study file may hold at all, whichever setting it is the value of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, time
from math import isfinite
from typing import Any, cast

from sweeper.config.refusals import shown
from sweeper.config.table import Fault

TOO_DEEP = "too many tables or arrays within each other"
UNNEST = "write arrays and tables that hold fewer others"
TOO_LONG = "a whole number of more than 64 bits"
SHORTEN = "write a smaller one, or one with a point"
MOST_WITHIN = 50  # far more than any setting needs, far less than Python's own limit
_WHOLE = range(-(2**63), 2**63)  # as TOML has whole numbers


def beyond_limits(raw: object) -> Iterator[Fault]:
    """What no file of TOML holds: integers of more than 64 bits, and text that cannot be encoded.

    What is nested too deeply is refused with them.
    """
    for path, depth, value in _values(raw):
        if depth >= MOST_WITHIN and isinstance(value, dict | list):
            yield Fault(".".join(path[:3]), TOO_DEEP, UNNEST)
        elif isinstance(value, int) and value not in _WHOLE:
            yield Fault(".".join(path), TOO_LONG, SHORTEN)
        elif unreadable := [text for text in (*path[-1:], value) if not _is_unicode(text)]:
            found = f"{shown(unreadable[0])} is not valid Unicode"
            yield Fault(".".join(path), found, "write it in UTF-8")


def unrecordable(raw: object) -> Iterator[Fault]:
    """Values that JSON cannot hold as written, and so no ledger: infinities, NaN, dates, times."""
    for path, _, value in _values(raw):
        key = ".".join(path)
        if isinstance(value, float) and not isfinite(value):
            yield Fault(key, f"{value} is not a finite number", "write a finite number")
        elif isinstance(value, date | time):
            found = f"{shown(value)} is a date or a time, which no setting takes"
            yield Fault(key, found, f'write text in quotes, "{value}"')


def _values(raw: object) -> Iterator[tuple[tuple[str, ...], int, object]]:
    """Each value with the path of its key and how deep it is; no deeper than the limit."""
    waiting: list[tuple[tuple[str, ...], int, object]] = [((), 0, raw)]
    while waiting:
        path, depth, value = waiting.pop()
        yield path, depth, value
        if depth >= MOST_WITHIN:
            continue
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            waiting += [((*path, name), depth + 1, inner) for name, inner in table.items()]
        elif isinstance(value, list):
            array = enumerate(cast("list[Any]", value))
            waiting += [(_path_in(path, n, inner), depth + 1, inner) for n, inner in array]


def _path_in(array: tuple[str, ...], index: int, item: object) -> tuple[str, ...]:
    """The path of an item of an array; only tables have a number of their own."""
    return (*array, str(index)) if isinstance(item, dict) else array


def _is_unicode(value: object) -> bool:
    """Whether a value can be encoded, if it is text: bytes of the command line may be none."""
    return not isinstance(value, str) or not any("\ud800" <= one <= "\udfff" for one in value)
