"""Which trials are better, by one objective or by several.

Among several a trial beats another where it is worse in none of them and better in one; those that
nobody beats are the Pareto front. A trial that breaks a constraint is behind all that keep theirs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def value_columns(n_objectives: int) -> tuple[str, ...]:
    """The columns of trials.parquet that hold the objectives."""
    return ("value", *(f"value_{index}" for index in range(1, n_objectives)))


def is_feasible(row: Row) -> bool:
    """Whether the trial keeps every constraint, where there are any."""
    return row.get("feasible") in (None, True)


def best_first(rows: Iterable[Row], directions: Sequence[str], n: int) -> list[Row]:
    """The best `n` complete trials: front by front, each by the first objective, then by number.

    Feasible ones come first.
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


def pareto_front(rows: Iterable[Row], directions: Sequence[str]) -> list[Row]:
    """The feasible complete trials that none other beats, by the first objective."""
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


def _place(row: Row, directions: Sequence[str]) -> tuple[bool, tuple[float, ...], int]:
    """What sorts complete trials of one objective: the least is the best."""
    return not is_feasible(row), _costs(row, directions), row["trial_number"]


def _costs(row: Row, directions: Sequence[str]) -> tuple[float, ...]:
    """The objectives as numbers of which less is better."""
    columns = zip(value_columns(len(directions)), directions, strict=True)
    return tuple(row[name] if way == "minimize" else -row[name] for name, way in columns)


_Ranked = tuple[tuple[float, ...], Row]


def _undominated(ranked: Sequence[_Ranked]) -> list[_Ranked]:
    """Those that no other beats; who beats another has the lesser costs, so stands before it."""
    front: list[_Ranked] = []
    for costs, row in ranked:
        beaten = (
            other != costs and all(a <= b for a, b in zip(other, costs, strict=True))
            for other, _ in front
        )
        if not any(beaten):
            front.append((costs, row))
    return front
