"""How many structures a search holds, where some settings have use only beside others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from sweeper.config.conditions import in_order, is_active, needed
from sweeper.config.search import SearchEntry, ends
from sweeper.trial import Scalar

Wanted = tuple[str, tuple[Scalar, ...]]


@dataclass(frozen=True, slots=True)
class _Group:
    """Values of a setting that say the same to every condition: one of them, and how many."""

    value: Scalar
    count: int


_Draw = Mapping[str, _Group]


@dataclass(frozen=True, slots=True)
class Spread:
    """A search, as far as its structures go.

    `splitting` are the settings whose values are trained by different programs; `kept` gives what
    a setting is in a trial that does not draw it. `uses` names, for a setting that has use beside
    some values of another alone, this other and those values. Only trials count that have `only`.
    """

    search: Mapping[str, SearchEntry]
    splitting: Sequence[str]
    kept: Callable[[str], Scalar | None]
    uses: Mapping[str, Wanted]
    only: Mapping[str, Scalar]

    def count(self) -> int | None:
        """How many structures there are; None where they are a continuum."""
        counts = [self.search[key].count() for key in self.splitting]
        if None in counts:
            return None
        order = self._order()
        alone = [key for key in self.splitting if key not in order]
        numbers = (self.search[key].count() or 0 for key in alone)
        # one place may come several times, where only what splits nothing differs
        places = dict(self._place(drawn) for drawn in self._draws(order, {}) if self._counts(drawn))
        return prod(numbers) * sum(places.values())

    def has_use(self, key: str) -> bool:
        """Whether a setting of `splitting` is drawn and of use in some trial."""
        order = self._order()
        if key not in order:
            return True
        draws = self._draws(order, {})
        return any(key in drawn and self._is_of_use(key, drawn) for drawn in draws)

    def _order(self) -> tuple[str, ...]:
        """The settings that conditions and uses connect, each after those of its condition."""
        owners = {self.uses[key][0] for key in self.splitting if key in self.uses} | {*self.only}
        used = [key for key in self.splitting if key in self.uses]
        keys = needed([*self.splitting, *owners & self.search.keys()], self.search)
        conditions = [self.search[key].when or {} for key in keys]
        conditional = [key for key in keys if self.search[key].when]
        connected = {*conditional, *used, *owners}.union(*conditions)
        return tuple(key for key in in_order(self.search) if key in connected)

    def _draws(self, order: Sequence[str], drawn: _Draw) -> Iterator[_Draw]:
        """Every combination of values that conditions tell apart; what is not drawn is left out."""
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
        """What a combination comes to in the program, and for how many it stands."""
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
        """The values of a setting; what it is where it is not drawn stands by itself."""
        conditions = [entry.when or {} for entry in self.search.values()]
        told = [when[key] for when in conditions if key in when]
        told += [wanted for owner, wanted in self.uses.values() if owner == key]
        told += [(value,) for name, value in self.only.items() if name == key]
        groups: dict[object, list[Scalar]] = {}
        for value in self.search[key].values() or ends(self.search[key])[:1]:
            says = (value == self.kept(key), *(value in wanted for wanted in told))
            groups.setdefault(says, []).append(value)
        for alike in groups.values():
            yield _Group(alike[0], len(alike))
