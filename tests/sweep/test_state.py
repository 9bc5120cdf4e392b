"""Running totals of finished trials equal those computed from all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sweeper.results.ranking import best_first, is_feasible, pareto_front
from sweeper.sweep.state import EndedTrials
from tests.results.test_ranking import ended


@given(ended(), st.integers(0, 4), st.lists(st.integers(0, 8), max_size=8))
def test_running_totals_equal_those_of_all_rows(
    told: tuple[list[str], list[dict[str, Any]]], n_best: int, sizes: list[int]
) -> None:
    ways, rows = told
    trials = EndedTrials(ways, n_best)
    known: list[dict[str, Any]] = []
    for size in [*sizes, len(rows)]:
        some, rows = rows[:size], rows[size:]
        coming = {row["trial_number"]: row for row in some}
        candidates = trials.candidates_with(coming)
        trials.add(coming)
        assert trials.candidates_with({}) == candidates
        best = best_first([*known, *some], ways, n_best)
        assert trials.best == [row["trial_number"] for row in best]
        assert {*trials.best} <= candidates
        known += some
        complete = [row for row in known if row["state"] == "COMPLETE" and is_feasible(row)]
        front = pareto_front(known, ways) if len(ways) > 1 else best_first(complete, ways, 1)
        assert trials.front == front
        assert trials.counts == Counter(row["state"] for row in known)
        assert trials.n_feasible == len(complete)
        assert dict(trials) == {row["trial_number"]: row for row in known}
