"""Which trials are better, by one or several objectives.

With several objectives, a trial dominates another if it is worse in none and better in one; trials
that none dominates are the Pareto front. A trial that violates a constraint ranks behind all that
meet theirs.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Row = Mapping[str, Any]
Costs = tuple[float, ...]
Place = tuple[bool, Costs, int]


def value_columns(n_objectives: int) -> tuple[str, ...]:
    """The columns of trials.parquet that contain the objectives."""
    return ("value", *(f"value_{index}" for index in range(1, n_objectives)))


def gain_sign(direction: str) -> float:
    """1 if higher values of an objective are better, else -1."""
    return 1.0 if direction == "maximize" else -1.0


def is_feasible(row: Row) -> bool:
    """Whether the trial meets every constraint, if there are any."""
    return row.get("feasible") in (None, True)


def repeats(rows: Iterable[Row]) -> str | None:
    """A message if complete trials repeat the settings of others, or None."""
    params = [row["params_json"] for row in rows if row["state"] == "COMPLETE"]
    again = len(params) - len({*params})
    if not again:
        return None
    return (
        f"{again} of {len(params)} complete trials {'repeats' if again == 1 else 'repeat'} the "
        "settings of an earlier one"
    )


def models_left_out(n_front: int, n_models: int, n_asked: int) -> str | None:
    """A message if some of the `n_front` trials on the Pareto front have no model, or None.

    `n_models` of them have one, and `n_asked` is `results.keep_models`; there is no
    message if that is 0.
    """
    if not n_asked or n_models >= n_front:
        return None
    if n_models >= n_asked:
        why = f"results.keep_models = {n_asked} keeps the models of {n_models} only"
    else:
        why = f"the models of only {n_models} exist: others were removed by an earlier session"
    return f"the Pareto front has {n_front} trials, but {why}; refit trains any of the others again"


def best_first(rows: Iterable[Row], directions: Sequence[str], n: int) -> list[Row]:
    """The best `n` complete trials: front by front, each by first objective, then by number.

    Feasible trials come first.
    """
    if len(directions) == 1:
        complete = (row for row in rows if row["state"] == "COMPLETE")
        return heapq.nsmallest(n, complete, key=lambda row: _place(row, directions))
    found: list[Row] = []
    for front in _fronts(rows, directions):
        found += front
        if len(found) >= n:
            break
    return found[:n]


def tied_at_best(rows: Iterable[Row], directions: Sequence[str]) -> list[Row]:
    """The best trials by one objective, in order of number, if several have the best value."""
    complete = [row for row in rows if row["state"] == "COMPLETE"]
    if len(directions) > 1 or not complete:
        return []
    best = min(_place(row, directions)[:2] for row in complete)
    tied = [row for row in complete if _place(row, directions)[:2] == best]
    return sorted(tied, key=lambda row: row["trial_number"]) if len(tied) > 1 else []


def pareto_front(rows: Iterable[Row], directions: Sequence[str]) -> list[Row]:
    """The feasible complete trials that none dominates, sorted by the first objective."""
    feasible = (row for row in rows if is_feasible(row))
    return next(_fronts(feasible, directions), [])


def _fronts(rows: Iterable[Row], directions: Sequence[str]) -> Iterator[list[Row]]:
    complete = [row for row in rows if row["state"] == "COMPLETE"]
    for keeps in (True, False):
        left = sorted(
            ((_costs(row, directions), row) for row in complete if is_feasible(row) is keeps),
            key=lambda pair: (pair[0], pair[1]["trial_number"]),
        )
        while left:
            front = _undominated(left) if len(directions) > 1 else left
            yield [row for _, row in front]
            chosen = {row["trial_number"] for _, row in front}
            left = [pair for pair in left if pair[1]["trial_number"] not in chosen]


def _place(row: Row, directions: Sequence[str]) -> Place:
    """The sort key of complete trials with one objective: lower is better."""
    return not is_feasible(row), _costs(row, directions), row["trial_number"]


def _precedes(one: Place, other: Place) -> bool:
    """Whether one trial comes before another in `best_first`, whichever other trials there are.

    This holds if it dominates the other, or if it is the earlier of two equal ones.
    """
    breaks, costs, number = one
    other_breaks, other_costs, other_number = other
    if breaks is not other_breaks:
        return other_breaks
    return _beats(costs, other_costs) or (costs == other_costs and number < other_number)


def _beats(costs: Costs, other: Costs) -> bool:
    """Whether one trial dominates another: worse in no objective and better in one."""
    return costs != other and all(a <= b for a, b in zip(costs, other, strict=True))


def _costs(row: Row, directions: Sequence[str]) -> Costs:
    """The objectives as numbers where lower is better."""
    columns = zip(value_columns(len(directions)), directions, strict=True)
    return tuple(row[name] if way == "minimize" else -row[name] for name, way in columns)


_Ranked = tuple[Costs, Row]


def _undominated(ranked: Sequence[_Ranked]) -> list[_Ranked]:
    """The trials that no other dominates; a dominating trial always comes earlier in order.

    With two objectives, the second improves along the front, so if any trial dominates, the last
    does.
    """
    front: list[_Ranked] = []
    for costs, row in ranked:
        others = front[-1:] if len(costs) == 2 else front
        if not any(_beats(other, costs) for other, _ in others):
            front.append((costs, row))
    return front


@dataclass(slots=True)
class _Candidate:
    """A trial that may be among the best, and how many others precede it."""

    place: Place
    row: Row
    behind: int = 0


class BestTrials:
    """The best `n` of the trials added so far: the same as `best_first` of all their rows.

    Trials with at least `n` better ones are forgotten, so memory grows little.
    """

    def __init__(self, directions: Sequence[str], n: int) -> None:
        self._directions = tuple(directions)
        self._n = n
        self._kept: list[_Candidate] = []

    def add(self, rows: Iterable[Row]) -> None:
        """Add finished trials."""
        for row in rows:
            if row["state"] == "COMPLETE":
                self._take_in(_Candidate(_place(row, self._directions), row))

    def rows(self, more: Iterable[Row] = ()) -> list[Row]:
        """The best of the added trials and of `more`, which are not added."""
        kept = (one.row for one in self._kept)
        return best_first((*kept, *more), self._directions, self._n)

    def candidates(self, more: Iterable[Row] = (), n: int | None = None) -> list[Row]:
        """The trials that are among the best `n`, or may be once others are added, in any order.

        They are those of the added trials and of `more`, which are not added. With several
        objectives, a trial may move up: another that does not precede it may push back all that
        were before it. `n` is at most that of these best trials, which is the default.
        """
        n = self._n if n is None else n
        if len(self._directions) == 1:
            return self.rows(more)[:n]
        known = BestTrials(self._directions, self._n)
        known._kept = [replace(one) for one in self._kept]
        known.add(more)
        return [one.row for one in known._kept if one.behind < n]

    def _take_in(self, new: _Candidate) -> None:
        if len(self._directions) == 1:  # the order is total
            bisect.insort(self._kept, new, key=lambda one: one.place)
            del self._kept[self._n :]
            return
        new.behind = sum(_precedes(one.place, new.place) for one in self._kept)
        if new.behind < self._n:
            for one in self._kept:
                one.behind += _precedes(new.place, one.place)
            self._kept = [*(one for one in self._kept if one.behind < self._n), new]


class ParetoFront:
    """The front of the trials added so far: the same as `pareto_front` of all their rows.

    For several objectives; with one objective, all trials would be kept.
    """

    def __init__(self, directions: Sequence[str]) -> None:
        self._directions = tuple(directions)
        self._front: list[Row] = []

    def add(self, rows: Iterable[Row]) -> None:
        """Add finished trials."""
        self._front = pareto_front((*self._front, *rows), self._directions)

    def rows(self) -> list[Row]:
        """The trials that no other dominates, sorted by the first objective."""
        return self._front


def best_of(values: Sequence[float], maximize: bool) -> tuple[float | None, int | None]:
    """The best finite value over epochs, and the first epoch that had it; None without any."""
    sign = 1 if maximize else -1
    ranked = [(sign * v, -epoch) for epoch, v in enumerate(values, 1) if math.isfinite(v)]
    if not ranked:
        return None, None
    value, epoch = max(ranked)
    return sign * value, -epoch
