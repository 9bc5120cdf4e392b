"""Which searched settings of a trial are of use, where some have use only beside others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from sweeper.config.refusals import shown
from sweeper.config.search import FloatSearch, SearchEntry
from sweeper.config.space import unsearched
from sweeper.config.table import Fault
from sweeper.trial import Scalar

_MOST_LISTED = 20


def is_active(entry: SearchEntry, values: Mapping[str, Scalar]) -> bool:
    """Whether `entry` is of use beside `values`, by setting; one that is not there is of none."""
    when = entry.when or {}
    return all(key in values and values[key] in wanted for key, wanted in when.items())


def active(search: Mapping[str, SearchEntry], params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Those of `params`, by column, that are of use beside the others; in the order of `search`."""
    kept: dict[str, Scalar] = {}
    for key in in_order(search):
        column = search[key].column(key)
        if column in params and is_active(search[key], kept):
            kept[key] = params[column]
    return {entry.column(key): kept[key] for key, entry in search.items() if key in kept}


def in_order(search: Mapping[str, SearchEntry]) -> tuple[str, ...]:
    """The settings, each after those that it depends on."""
    return tuple(TopologicalSorter({key: _parents(e) for key, e in search.items()}).static_order())


def needed(keys: Iterable[str], search: Mapping[str, SearchEntry]) -> tuple[str, ...]:
    """The settings `keys`, and all that they depend on."""
    found: dict[str, None] = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = None
            waiting += _parents(search[key])
    return tuple(key for key in search if key in found)


def unfit_conditions(search: Mapping[str, SearchEntry]) -> Iterator[Fault]:
    """A condition names values that another setting of the search may have."""
    whole = True
    for setting, entry in search.items():
        for key, wanted in (entry.when or {}).items():
            place = f"search.{setting}.when"
            if key not in search:
                whole = False
                yield unsearched(place, key, search)
            else:
                yield from _unmet(place, key, search[key], wanted)
    if whole:
        yield from _circles(search)


def _unmet(place: str, key: str, entry: SearchEntry, wanted: tuple[Scalar, ...]) -> Iterator[Fault]:
    if isinstance(entry, FloatSearch) and entry.values() is None:
        found = f"'{key}' is drawn from a continuous range"
        yield Fault(place, found, "name one with choices, or with whole numbers")
        return
    for value in wanted:
        if entry.has(value) is None:
            every = entry.values() or ()
            values = ", ".join(map(shown, every[:_MOST_LISTED]))
            values += ", ..." if len(every) > _MOST_LISTED else ""
            yield Fault(place, f"'{key}' is never {shown(value)}", f"write one of {values}")


def _circles(search: Mapping[str, SearchEntry]) -> Iterator[Fault]:
    try:
        in_order(search)
    except CycleError as error:
        first, *others = error.args[1]
        found = f"depends on itself, through {', '.join(others)}"
        yield Fault(f"search.{first}.when", found, "remove one of the conditions")


def _parents(entry: SearchEntry) -> tuple[str, ...]:
    return tuple(entry.when or ())
