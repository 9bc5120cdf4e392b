"""Linear or logarithmic axes, and points of trials by final state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweeper.dashboard.blocks import Option, points, size_of_points
from sweeper.dashboard.trials import PublishedTrials
from sweeper.results import formatting

_SPREAD = 50.0  # 90 % over 10 % quantile: above it, a linear axis hides most points


def wants_log(values: np.ndarray) -> bool:
    """Whether numbers are all positive, with sizes that a linear axis cannot show together."""
    finite = values[np.isfinite(values)]
    if len(finite) < 3 or finite.min() <= 0:
        return False
    low, high = np.quantile(finite, (0.1, 0.9))
    return bool(high / _SPREAD > low)  # the quotient of both may be too large for a float


def ends_if_equal(values: np.ndarray) -> dict[str, float]:
    """The bounds of an axis if all numbers are equal, 1 % on both sides; else empty.

    By default the chart would show 1 on an axis from 0.4 to 1.6.
    """
    known = values[np.isfinite(values)]
    if not len(known) or known.min() != known.max():
        return {}
    value = float(known[0])
    margin = 0.01 * abs(value) or 0.01
    return {"min": value - margin, "max": value + margin}


def is_log(entry: Mapping[str, Any], values: np.ndarray) -> bool:
    """Whether a parameter is drawn logarithmically, and all its values can be shown so."""
    finite = values[np.isfinite(values)]
    is_drawn = bool(entry.get("log")) or entry.get("base") is not None
    return is_drawn and bool((finite > 0).all())


def steps(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Options that limit the axis labels of a parameter to integers or powers of its base."""
    if entry.get("base"):
        return {"logBase": entry["base"]}
    return {"minInterval": 1} if entry.get("type") == "int" and not entry.get("log") else {}


def none_yet(trials: PublishedTrials) -> str:
    """Why no trial is among the best."""
    if trials.are("COMPLETE").any():
        return "No complete trial meets the constraints yet."
    return "No trial is complete yet."


def choices_of(trials: PublishedTrials, name: str) -> list[str] | None:
    """The labels of a categorical parameter; None for numbers."""
    entry = trials.parameters[name]
    if trials.is_text(name):
        known, _ = trials.texts(name)
        choices = entry.get("choices", ())
        given = [] if all(isinstance(it, bool) for it in choices) else [str(it) for it in choices]
        return [*given, *(text for text in known if text not in given)]
    return None


_MARGIN = 0.06  # as a share of the range of all values
_CROSS = "path://M2,0L5,3L8,0L10,2L7,5L10,8L8,10L5,7L2,10L0,8L3,5L0,2Z"
AT_THE_EDGE = "Diverged trials have no value: they are drawn at the worst edge."


def by_state(
    trials: PublishedTrials,
    columns: Sequence[str],
    index: int = 0,
    *,
    log: bool = False,
    ends: Mapping[str, float] | None = None,
) -> list[Option]:
    """Two columns of the trials, the second being an objective, with complete trials on top.

    Diverged trials have no value, and are drawn at the worst edge of the axis, which is logarithmic
    if `log` is set, and has the bounds `ends` if given.
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
    trials: PublishedTrials,
    index: int,
    *,
    log: bool = False,
    ends: Mapping[str, float] | None = None,
) -> float:
    """A value of an objective slightly worse than all trials have, or the given bound."""
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
