"""What a study file may hold at all, wherever it stands: told before any table is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from sweeper.config.table import Fault

TOO_DEEP = "too many tables or arrays within each other"
UNNEST = "write arrays and tables that hold fewer others"
TOO_LONG = "a whole number of more than 64 bits"
SHORTEN = "write a smaller one, or one with a point"
MOST_WITHIN = 50  # far more than any setting needs, far less than Python's own limit
_WHOLE = range(-(2**63), 2**63)  # as TOML has whole numbers


def beyond_limits(raw: object) -> Iterator[Fault]:
    """Whole numbers that TOML has not, though Python has; and what is nested too deeply."""
    waiting: list[tuple[tuple[str, ...], int, object]] = [((), 0, raw)]
    while waiting:
        path, depth, value = waiting.pop()
        key = ".".join(path)
        if isinstance(value, int) and value not in _WHOLE:
            yield Fault(key, TOO_LONG, SHORTEN)
        elif not isinstance(value, dict | list):
            continue
        elif depth >= MOST_WITHIN:
            yield Fault(".".join(path[:3]), TOO_DEEP, UNNEST)
        elif isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            waiting += [((*path, name), depth + 1, inner) for name, inner in table.items()]
        else:
            array = cast("list[Any]", value)
            waiting += [(path, depth + 1, inner) for inner in array]
