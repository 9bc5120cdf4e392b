"""Conditional search: which settings a trial uses, and how many structures a search has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod

from sweeper.config.refusals import format_value
from sweeper.config.search import FloatSearch, IntSearch, SearchEntry, ends
from sweeper.config.space import unsearched_flaw
from sweeper.config.table import Flaw
from sweeper.trial import Scalar

_MAX_LISTED = 20


def is_active(entry: SearchEntry, values: Mapping[str, Scalar]) -> bool:
    """Whether `entry` is used with these `values`; a condition on a missing setting is not met."""
    when = entry.when or {}
    return all(key in values and values[key] in wanted for key, wanted in when.items())


def active(search: Mapping[str, SearchEntry], params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Those of `params`, by column, whose conditions are met; in the order of `search`."""
    kept: dict[str, Scalar] = {}
    for key in in_order(search):
        column = search[key].column(key)
        if column in params and is_active(search[key], kept):
            kept[key] = params[column]
    return {entry.column(key): kept[key] for key, entry in search.items() if key in kept}


def in_order(search: Mapping[str, SearchEntry]) -> tuple[str, ...]:
    """The settings, each after those that it depends on."""
    parents = {key: entry.when or () for key, entry in search.items()}
    return tuple(TopologicalSorter(parents).static_order())


def with_dependencies(keys: Iterable[str], search: Mapping[str, SearchEntry]) -> tuple[str, ...]:
    """The settings `keys` and all that they depend on."""
    found: dict[str, None] = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = None
            waiting += search[key].when or ()
    return tuple(key for key in search if key in found)


def check_conditions(search: Mapping[str, SearchEntry]) -> Iterator[Flaw]:
    """Check that a condition names values that another searched setting may have."""
    whole = True
    for setting, entry in search.items():
        for key, wanted in (entry.when or {}).items():
            place = f"search.{setting}.when"
            if key not in search:
                whole = False
                yield unsearched_flaw(place, key, search)
            else:
                yield from _unmet(place, key, search[key], wanted)
    if whole:
        yield from _circles(search)


def _unmet(place: str, key: str, entry: SearchEntry, wanted: tuple[Scalar, ...]) -> Iterator[Flaw]:
    if isinstance(entry, FloatSearch) and entry.values() is None:
        found = f"'{key}' is drawn from a continuous range"
        yield Flaw(place, found, "write a setting with choices, or with integers")
        return
    for value in wanted:
        if entry.has(value) is None:
            yield Flaw(place, f"'{key}' is never {format_value(value)}", f"write {_choice(entry)}")


def _choice(entry: SearchEntry) -> str:
    """What to write for a value of a setting that is not drawn from a continuous range."""
    every = entry.values()
    if every is None:
        low, high = ends(entry)[:2]
        return f"an integer that it draws, from {low} to {high}"
    values = ", ".join(map(format_value, every[:_MAX_LISTED]))
    return f"one of {values}{', ...' if len(every) > _MAX_LISTED else ''}"


def _circles(search: Mapping[str, SearchEntry]) -> Iterator[Flaw]:
    try:
        in_order(search)
    except CycleError as error:
        first, *others = error.args[1]
        found = f"depends on itself, through {', '.join(others)}"
        yield Flaw(f"search.{first}.when", found, "remove one of the conditions")


Wanted = tuple[str, tuple[Scalar, ...]]


@dataclass(frozen=True, slots=True)
class _Group:
    """Values of a setting that no condition distinguishes: one of them, and how many there are."""

    value: Scalar
    count: int


_Draw = Mapping[str, _Group]


@dataclass(frozen=True, slots=True)
class StructureSearch:
    """The part of a search that determines how many structures there are.

    `splitting` are the settings whose values need different programs. `kept` is the value of a
    setting in trials that do not draw it. `uses` maps a conditional setting to the one it depends
    on and the values with which it is used. Only trials with the values of `only` count.
    """

    search: Mapping[str, SearchEntry]
    splitting: Sequence[str]
    kept: Callable[[str], Scalar | None]
    uses: Mapping[str, Wanted]
    only: Mapping[str, Scalar]

    def count(self) -> int | None:
        """The number of structures; None if there are infinitely many."""
        counts = [self.search[key].count() for key in self.splitting]
        if None in counts:
            return None
        order = self._order()
        alone = [key for key in self.splitting if key not in order]
        numbers = (self.search[key].count() or 0 for key in alone)
        # the same structure may occur several times, if only settings that split nothing differ
        places = dict(self._place(drawn) for drawn in self._draws(order, {}) if self._counts(drawn))
        return prod(numbers) * sum(places.values())

    def has_use(self, key: str) -> bool:
        """Whether some trial draws and uses a setting of `splitting`."""
        order = self._order()
        if key not in order:
            return True
        draws = self._draws(order, {})
        return any(key in drawn and self._is_of_use(key, drawn) for drawn in draws)

    def is_kept(self, key: str) -> bool:
        """Whether some trial uses a setting of `splitting` without drawing it."""
        draws = self._draws(self._order(), {})
        return any(key not in drawn and self._is_of_use(key, drawn) for drawn in draws)

    def _order(self) -> tuple[str, ...]:
        """The settings connected by conditions and uses, each after those of its condition."""
        owners = {self.uses[key][0] for key in self.splitting if key in self.uses} | {*self.only}
        used = [key for key in self.splitting if key in self.uses]
        keys = with_dependencies([*self.splitting, *owners & self.search.keys()], self.search)
        conditions = [self.search[key].when or {} for key in keys]
        conditional = [key for key in keys if self.search[key].when]
        connected = {*conditional, *used, *owners}.union(*conditions)
        return tuple(key for key in in_order(self.search) if key in connected)

    def _draws(self, order: Sequence[str], drawn: _Draw) -> Iterator[_Draw]:
        """Every combination of values that conditions distinguish; unused settings are left out."""
        if not order:
            yield drawn
            return
        key, *rest = order
        if not is_active(self.search[key], {one: group.value for one, group in drawn.items()}):
            yield from self._draws(rest, drawn)
            return
        for group in self._groups(key):
            yield from self._draws(rest, {**drawn, key: group})

    def _place(self, drawn: _Draw) -> tuple[tuple[object, ...], int]:
        """The structure of a combination, and how many combinations it represents."""
        of_use = [key for key in self.splitting if self._is_of_use(key, drawn)]
        values = (self._has(drawn, key) for key in of_use)
        place = (*zip(of_use, values, strict=True),)
        return place, prod(drawn[key].count for key in of_use if key in drawn)

    def _counts(self, drawn: _Draw) -> bool:
        return all(self._has(drawn, key) == value for key, value in self.only.items())

    def _has(self, drawn: _Draw, key: str) -> Scalar | None:
        return drawn[key].value if key in drawn else self.kept(key)

    def _is_of_use(self, key: str, drawn: _Draw) -> bool:
        if key not in self.uses:
            return True
        owner, wanted = self.uses[key]
        return self._has(drawn, owner) in wanted

    def _groups(self, key: str) -> Iterator[_Group]:
        """The groups of values of a setting; its value if not drawn is a group of its own."""
        conditions = [entry.when or {} for entry in self.search.values()]
        wanted_values = [when[key] for when in conditions if key in when]
        wanted_values += [wanted for owner, wanted in self.uses.values() if owner == key]
        wanted_values += [(value,) for name, value in self.only.items() if name == key]
        entry, kept = self.search[key], self.kept(key)
        values = entry.values()
        if values is None and isinstance(entry, IntSearch):
            # of very many integers, those that conditions name, and one for all others
            named = [*wanted_values, () if kept is None else (kept,)]
            values = {value for some in named for value in some if entry.has(value) is not None}
            other = next(value for value in entry.in_range() if value not in values)
            yield _Group(other, entry.count() - len(values))
        groups: dict[object, list[Scalar]] = {}
        for value in ends(entry)[:1] if values is None else values:
            says = (value == kept, *(value in wanted for wanted in wanted_values))
            groups.setdefault(says, []).append(value)
        for alike in groups.values():
            yield _Group(alike[0], len(alike))
