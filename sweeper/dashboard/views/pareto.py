"""View 10: trade-offs between several objectives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from sweeper.dashboard.blocks import (
    Block,
    axis,
    chart,
    choice,
    note,
    points,
    ring,
    rows,
    size_of_points,
    trials_cell,
    upright,
)
from sweeper.dashboard.packing import rounded
from sweeper.dashboard.trials import PublishedTrials
from sweeper.dashboard.views.scales import none_yet, wants_log
from sweeper.results import formatting
from sweeper.results.ranking import pareto_front

_SHOWN = 100


def pareto_view(trials: PublishedTrials) -> list[Block]:
    """The front among all complete trials, for each pair of objectives."""
    if len(trials.objectives) == 1:
        return [note(f"The study has one objective, {trials.metrics[0]}: see the history.")]
    front = front_of(trials)
    if not front:
        return [note(none_yet(trials))]
    pairs = [
        (choice_of(trials.metrics[a], trials.metrics[b]), [_chart(trials, a, b, front)])
        for a, b in combinations(range(len(trials.objectives)), 2)
    ]
    return [choice("objectives", pairs), _table(trials, front)]


def choice_of(first: str, second: str) -> str:
    """The name of the chart of two objectives."""
    return f"{first} and {second}"


def front_of(trials: PublishedTrials) -> list[int]:
    """The indices of the trials that no other dominates, sorted by the first objective."""
    values = np.stack([trials.numbers(name) for name in trials.objectives], axis=1)
    places = np.flatnonzero(trials.are("COMPLETE") & np.isfinite(values).all(axis=1))
    candidates = (
        {
            "trial_number": place,
            "state": "COMPLETE",
            "feasible": bool(trials.feasible[place]),
            **dict(zip(trials.objectives, values[place].tolist(), strict=True)),
        }
        for place in places.tolist()
    )
    return [row["trial_number"] for row in pareto_front(candidates, trials.directions)]


def _chart(trials: PublishedTrials, a: int, b: int, front: Sequence[int]) -> Block:
    columns = (trials.objectives[a], trials.objectives[b])
    numbers = trials.numbers("trial_number")[list(front)].astype(int).tolist()
    wants = [wants_log(trials.numbers(column)) for column in columns]
    words = {"minimize": "lower is better", "maximize": "higher is better"}
    names = [f"{trials.metrics[i]}, {words[trials.directions[i]]}" for i in (a, b)]
    option = {
        "xAxis": axis(names[0], log=wants[0]),
        "yAxis": upright(axis(names[1], log=wants[1])),
        "legend": {},
        "series": [
            points(
                "complete",
                columns,
                "complete",
                where=["state", "COMPLETE"],
                symbolSize=size_of_points(len(trials)),
            ),
            points(
                "Pareto front",
                columns,
                "best",
                only=numbers,
                symbol="diamond",
                symbolSize=11,
                large=False,
                z=5,
            ),
            ring(columns),
        ],
    }
    label = f"{trials.metrics[a]} and {trials.metrics[b]}; {len(front)} trials on the front"
    return chart(label, option, 400)


def _table(trials: PublishedTrials, front: Sequence[int]) -> Block:
    shown = list(front[:_SHOWN])
    columns = [rounded(trials.numbers(name)[shown]) for name in trials.objectives]
    records: list[list[Any]] = []
    for at, place in enumerate(shown):
        number = int(trials.numbers("trial_number")[place])
        values = [column[at] for column in columns]
        records.append([trials_cell([number]), *values, formatting.settings(trials.params(place))])
    left = len(front) - len(shown)
    caption = "Pareto front" + (f", the first {len(shown)} of {len(front)}" if left else "")
    return rows(caption, ["trial", *trials.metrics, "parameters"], records)
