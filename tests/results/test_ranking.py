"""Which trials are better, by one objective or by several, with and without constraints."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from sweeper.results.ranking import (
    BestTrials,
    ParetoFront,
    best_first,
    pareto_front,
    repeats,
    tied_at_best,
)

WAYS = ("minimize", "maximize")


def row(number: int, *values: float, feasible: bool | None = None) -> dict[str, Any]:
    """The row of a complete trial."""
    names = ("value", "value_1", "value_2")
    named = dict(zip(names, values, strict=False))
    return {"trial_number": number, "state": "COMPLETE", "feasible": feasible, **named}


@st.composite
def ended(draw: st.DrawFn) -> tuple[list[str], list[dict[str, Any]]]:
    """Directions, and rows in the order in which their trials ended."""
    ways = draw(st.lists(st.sampled_from(WAYS), min_size=1, max_size=3))
    point = st.tuples(*(st.integers(0, 4).map(float) for _ in ways))
    feasible = draw(st.sampled_from([st.none(), st.booleans()]))
    states = st.sampled_from(["COMPLETE", "COMPLETE", "COMPLETE", "PRUNED", "FAIL"])
    drawn = draw(st.lists(st.tuples(point, feasible, states), max_size=24))
    rows = [
        {**row(number, *values, feasible=kept), "state": state}
        for number, (values, kept, state) in enumerate(drawn)
    ]
    return ways, draw(st.permutations(rows))


def numbers(rows: list[Any]) -> list[int]:
    return [one["trial_number"] for one in rows]


def test_of_equal_values_the_earliest_is_first() -> None:
    rows = [row(2, 0.5), row(0, 0.1), row(1, 0.5)]
    assert numbers(best_first(rows, ["maximize"], 3)) == [1, 2, 0]
    assert numbers(best_first(rows, ["minimize"], 2)) == [0, 1]


def test_only_trials_with_the_best_value_are_tied() -> None:
    rows = [row(2, 0.5), row(0, 0.1), row(1, 0.5), {**row(3, 0.5), "state": "PRUNED"}]
    assert numbers(tied_at_best(rows, ["maximize"])) == [1, 2]
    assert tied_at_best(rows, ["minimize"]) == []
    broken = [row(4, 0.9, feasible=False), *(row(n, 0.5, feasible=True) for n in (5, 6))]
    assert numbers(tied_at_best(broken, ["maximize"])) == [5, 6]


def test_trials_that_did_not_complete_are_not_ranked() -> None:
    rows = [row(0, 0.1), {**row(1, 0.9), "state": "PRUNED"}]
    assert numbers(best_first(rows, ["maximize"], 5)) == [0]


def test_infeasible_trials_rank_behind_feasible_ones() -> None:
    rows = [row(0, 0.9, feasible=False), row(1, 0.1, feasible=True), row(2, 0.5, feasible=True)]
    assert numbers(best_first(rows, ["maximize"], 3)) == [2, 1, 0]
    assert numbers(pareto_front(rows[:1], ["maximize"])) == []


def test_the_front_is_undominated_and_comes_first() -> None:
    rows = [row(0, 1.0, 1.0), row(1, 2.0, 2.0), row(2, 2.0, 1.5), row(3, 1.0, 1.0), row(4, 3.0, 0)]
    assert numbers(pareto_front(rows, WAYS)) == [0, 3, 1]
    assert numbers(best_first(rows, WAYS, 5)) == [0, 3, 1, 2, 4]


values = st.integers(0, 5).map(float)


@given(st.lists(st.tuples(values, values), max_size=12))
def test_the_front_matches_its_definition(points: list[tuple[float, float]]) -> None:
    rows = [row(number, *point) for number, point in enumerate(points)]
    beaten = {
        number
        for number, (a, b) in enumerate(points)
        if any(c <= a and d >= b and (c, d) != (a, b) for c, d in points)
    }
    assert set(numbers(pareto_front(rows, WAYS))) == set(range(len(points))) - beaten
    assert len(best_first(rows, WAYS, len(points))) == len(points)


@given(ended(), st.integers(0, 6), st.data())
def test_incremental_best_trials_equal_those_of_all_rows(
    told: tuple[list[str], list[dict[str, Any]]], n: int, data: st.DataObject
) -> None:
    ways, rows = told
    best = BestTrials(ways, n)
    for end in range(len(rows) + 1):
        best.add(rows[max(0, end - 1) : end])
        more = rows[end : end + data.draw(st.integers(0, 4))]
        assert best.rows(more) == best_first(rows[:end] + more, ways, n)
        assert best.rows() == best_first(rows[:end], ways, n)


@given(ended())
def test_the_incremental_front_equals_that_of_all_rows(
    told: tuple[list[str], list[dict[str, Any]]],
) -> None:
    ways, rows = told
    assume(len(ways) > 1)  # with one objective all trials are on the front
    front = ParetoFront(ways)
    for end in range(len(rows) + 1):
        front.add(rows[max(0, end - 1) : end])
        assert front.rows() == pareto_front(rows[:end], ways)


def test_few_of_many_trials_are_kept() -> None:
    rows = [row(number, number * 37 % 1009, number * 57 % 1013) for number in range(2000)]
    best = BestTrials(WAYS, 5)
    best.add(rows)
    assert best.rows() == best_first(rows, WAYS, 5)
    assert len(best._kept) < 100


def test_complete_trials_that_repeat_an_earlier_one_are_counted() -> None:
    drawn = [("COMPLETE", 1), ("PRUNED", 1), ("COMPLETE", 2), ("COMPLETE", 1)]
    rows = [{"state": state, "params_json": f'{{"depth": {depth}}}'} for state, depth in drawn]
    assert repeats(rows[:3]) is None
    assert repeats(rows) == "1 of 3 complete trials repeats the settings of an earlier one"
    more = [*rows, rows[0]]
    assert repeats(more) == "2 of 4 complete trials repeat the settings of an earlier one"
