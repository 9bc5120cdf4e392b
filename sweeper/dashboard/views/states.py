"""Points of trials, by how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sweeper.dashboard.blocks import Option, points, size_of_points
from sweeper.dashboard.trials import Trials
from sweeper.results import formatting

_MARGIN = 0.06  # of the range of all values
_CROSS = "path://M2,0L5,3L8,0L10,2L7,5L10,8L8,10L5,7L2,10L0,8L3,5L0,2Z"
AT_THE_EDGE = "Diverged trials have no value: they are drawn at the worst edge."


def by_state(
    trials: Trials,
    columns: Sequence[str],
    index: int = 0,
    *,
    log: bool = False,
    ends: Mapping[str, float] | None = None,
) -> list[Option]:
    """Two columns of the trials, the second being an objective: complete ones on top.

    Those that diverged have no value, and are drawn at the worst edge of the axis, which is
    logarithmic if `log` is set, and ends where `ends` says if they are given.
    """
    size = size_of_points(len(trials))
    pruned, complete = (
        points(word, columns, word, where=["state", state], symbol=symbol, symbolSize=size)
        for word, state, symbol in (
            ("pruned", "PRUNED", "triangle"),
            ("complete", "COMPLETE", "circle"),
        )
    )
    if not trials.diverged.any():
        return [pruned, complete]
    edge = worst_edge(trials, index, log=log, ends=ends)
    diverged = points(
        formatting.DIVERGED,
        columns,
        formatting.DIVERGED,
        where=["reason", formatting.DIVERGED],
        edges=[None, edge],
        symbol=_CROSS,
        symbolSize=size + 2,
    )
    return [diverged, pruned, complete]


def worst_edge(
    trials: Trials, index: int, *, log: bool = False, ends: Mapping[str, float] | None = None
) -> float:
    """A value of an objective a little worse than all that trials have, or the given end."""
    is_maximized = trials.directions[index] == "maximize"
    if ends:
        return ends["min" if is_maximized else "max"]
    values = trials.numbers(trials.objectives[index])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0
    low, high = (float(end) for end in (values.min(), values.max()))
    sign, worst = (-1, low) if is_maximized else (1, high)
    with np.errstate(over="ignore"):
        if log:
            edge = worst * (high / low) ** (sign * _MARGIN)
        else:
            edge = worst + sign * _MARGIN * ((high - low) or abs(worst) or 1.0)
    return float(f"{edge:.4g}") if np.isfinite(edge) else worst
