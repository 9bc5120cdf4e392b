"""Which scale shows numbers best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweeper.dashboard.trials import Trials

_SPREAD = 50.0  # from the 10 % to the 90 % quantile; on an even axis most would lie in one line


def wants_log(values: np.ndarray) -> bool:
    """Whether numbers are all above 0 and of sizes that an even axis cannot show together."""
    told = values[np.isfinite(values)]
    if len(told) < 3 or told.min() <= 0:
        return False
    low, high = np.quantile(told, (0.1, 0.9))
    return bool(high / low > _SPREAD)


def ends_if_equal(values: np.ndarray) -> dict[str, float]:
    """The ends of an axis of numbers that are all the same, 1 % to both sides; else empty.

    By itself the chart would show 1 on an axis from 0.4 to 1.6.
    """
    known = values[np.isfinite(values)]
    if not len(known) or known.min() != known.max():
        return {}
    value = float(known[0])
    margin = 0.01 * abs(value) or 0.01
    return {"min": value - margin, "max": value + margin}


def is_log(entry: Mapping[str, Any], values: np.ndarray) -> bool:
    """Whether a parameter is drawn evenly in the logarithm, and all its values can be shown so."""
    told = values[np.isfinite(values)]
    is_drawn = bool(entry.get("log")) or entry.get("base") is not None
    return is_drawn and bool((told > 0).all())


def steps(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the labels of an axis of the parameter keep to: whole numbers, powers of two."""
    if entry.get("base"):
        return {"logBase": entry["base"]}
    return {"minInterval": 1} if entry.get("type") == "int" and not entry.get("log") else {}


def choices_of(trials: Trials, name: str) -> list[str] | None:
    """The texts of a parameter that has no order; None of one of numbers."""
    entry = trials.parameters[name]
    if trials.is_text(name):
        known, _ = trials.texts(name)
        choices = entry.get("choices", ())
        given = [] if all(isinstance(it, bool) for it in choices) else [str(it) for it in choices]
        return [*given, *(text for text in known if text not in given)]
    return None
