"""Which trials are better, by one objective or by several, with and without constraints."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sweeper.ranking import best_first, pareto_front

WAYS = ("minimize", "maximize")


def row(number: int, *values: float, feasible: bool | None = None) -> dict[str, Any]:
    """The row of a complete trial."""
    names = ("value", "value_1", "value_2")
    named = dict(zip(names, values, strict=False))
    return {"trial_number": number, "state": "COMPLETE", "feasible": feasible, **named}


def numbers(rows: list[Any]) -> list[int]:
    return [one["trial_number"] for one in rows]


def test_of_equal_values_the_earliest_is_first() -> None:
    rows = [row(2, 0.5), row(0, 0.1), row(1, 0.5)]
    assert numbers(best_first(rows, ["maximize"], 3)) == [1, 2, 0]
    assert numbers(best_first(rows, ["minimize"], 2)) == [0, 1]


def test_trials_that_did_not_complete_are_not_ranked() -> None:
    rows = [row(0, 0.1), {**row(1, 0.9), "state": "PRUNED"}]
    assert numbers(best_first(rows, ["maximize"], 5)) == [0]


def test_what_breaks_a_constraint_is_behind_all_that_keep_theirs() -> None:
    rows = [row(0, 0.9, feasible=False), row(1, 0.1, feasible=True), row(2, 0.5, feasible=True)]
    assert numbers(best_first(rows, ["maximize"], 3)) == [2, 1, 0]
    assert numbers(pareto_front(rows[:1], ["maximize"])) == []


def test_a_front_is_what_nobody_beats_and_comes_first() -> None:
    rows = [row(0, 1.0, 1.0), row(1, 2.0, 2.0), row(2, 2.0, 1.5), row(3, 1.0, 1.0), row(4, 3.0, 0)]
    assert numbers(pareto_front(rows, WAYS)) == [0, 3, 1]
    assert numbers(best_first(rows, WAYS, 5)) == [0, 3, 1, 2, 4]


values = st.integers(0, 5).map(float)


@given(st.lists(st.tuples(values, values), max_size=12))
def test_the_front_is_that_of_the_definition(points: list[tuple[float, float]]) -> None:
    rows = [row(number, *point) for number, point in enumerate(points)]
    beaten = {
        number
        for number, (a, b) in enumerate(points)
        if any(c <= a and d >= b and (c, d) != (a, b) for c, d in points)
    }
    assert set(numbers(pareto_front(rows, WAYS))) == set(range(len(points))) - beaten
    assert len(best_first(rows, WAYS, len(points))) == len(points)
