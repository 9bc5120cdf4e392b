"""View 3: the values of trials and the best so far, by number or by time."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweeper.dashboard.blocks import (
    ZOOM,
    Block,
    axis,
    chart,
    choice,
    line,
    note,
    ring,
    upright,
)
from sweeper.dashboard.trials import PublishedTrials
from sweeper.dashboard.views.scales import AT_THE_EDGE, by_state, ends_if_equal, wants_log
from sweeper.results import formatting

FEASIBLE_ONLY = (
    "The best so far and the better half count only trials that meet the constraints; all are "
    "drawn."
)
BY = {
    "trial number": ("trial_number", None),
    "time": ("finished_at", "s since the first trial"),
}


def history_view(trials: PublishedTrials) -> list[Block]:
    """For each objective, a chart by number and one by time."""
    if not np.isfinite(trials.numbers("value")).any():
        return [note("No trial has a value yet.")]
    alternatives = [
        (choice_of(metric, by, is_near), [_chart(trials, index, by, is_near)])
        for index, metric in enumerate(trials.metrics)
        for is_near in (False, True)
        for by in BY
    ]
    notes = [note(AT_THE_EDGE)] if trials.diverged.any() else []
    if (trials.are("COMPLETE") & ~trials.feasible).any():
        notes.append(note(FEASIBLE_ONLY))
    return [*notes, choice("show", alternatives)]


def choice_of(metric: str, by: str, is_near: bool) -> str:
    """The name of the chart of an objective by one of `BY`, maybe without the worse half."""
    return f"{metric} by {by}{', the better half' if is_near else ''}"


def better_half(trials: PublishedTrials, index: int) -> dict[str, Any]:
    """The bounds of an axis without the worse half of the feasible complete trials."""
    values = trials.numbers(trials.objectives[index])
    completed = values[trials.feasible & np.isfinite(values)]
    if not len(completed):
        return {}
    middle, low, high = (
        float(end) for end in (np.median(completed), completed.min(), completed.max())
    )
    if low == high:
        return {}
    ends = (middle, high) if trials.directions[index] == "maximize" else (low, middle)
    low, high = (float(f"{end:.4g}") for end in ends)
    return {"min": low, "max": high}


def best_so_far(trials: PublishedTrials, index: int, by: str) -> list[tuple[float, float]]:
    """Where the best value of an objective improved, and the last known position.

    Only feasible complete trials count.
    """
    at, values = trials.numbers(by), trials.numbers(trials.objectives[index])
    places = np.flatnonzero(trials.feasible & np.isfinite(values) & np.isfinite(at))
    if not len(places):
        return []
    order = places[np.lexsort((trials.numbers("trial_number")[places], at[places]))]
    ascending = trials.directions[index] == "maximize"
    best = (np.maximum if ascending else np.minimum).accumulate(values[order])
    steps = np.flatnonzero(np.diff(best, prepend=np.nan) != 0)
    found = [(float(at[order[step]]), float(best[step])) for step in steps]
    last = (float(np.nanmax(at)), float(best[-1]))
    return found if found[-1] == last else [*found, last]


def _chart(trials: PublishedTrials, index: int, by: str, is_near: bool) -> Block:
    column, unit = BY[by]
    objective, metric = trials.objectives[index], trials.metrics[index]
    best = best_so_far(trials, index, column)
    values = trials.numbers(objective)
    log = not is_near and wants_log(values)
    ends = better_half(trials, index) if is_near else {}
    option = {
        "xAxis": axis(by, unit, scale=False),
        "yAxis": upright(axis(metric, None, log=log, **(ends or ends_if_equal(values)))),
        "dataZoom": list(ZOOM),
        "legend": {},
        "series": [
            *by_state(trials, (column, objective), index, log=log, ends=ends),
            line("best so far", best, "best", step="end", z=5),
            ring((column, objective)),
        ],
    }
    label = f"{metric} of each trial by {by}"
    if best:
        value = formatting.number(best[-1][1], 6)
        label += f"; the best is {value}, reached after {len(best)} steps"
    return chart(label, option)
