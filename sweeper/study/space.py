"""How a search entry looks to the sampler, and what it means by a number that it draws."""

from __future__ import annotations

import math

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from sweeper.config.search import CategoricalSearch, FloatSearch, IntSearch, SearchEntry
from sweeper.trial import Scalar


def distribution(entry: SearchEntry) -> BaseDistribution:
    """What the sampler draws from for `entry`."""
    if isinstance(entry, CategoricalSearch):
        return CategoricalDistribution(entry.choices)
    if isinstance(entry, FloatSearch):
        if count := entry.count():  # Optuna's own steps lose the last value to rounding
            return FloatDistribution(0.0, float(count))
        return FloatDistribution(entry.low, entry.high, log=entry.log)
    return _integer_distribution(entry)


def _integer_distribution(entry: IntSearch) -> FloatDistribution:
    """The floats that `decode` floors to the integers of `entry`, each over a unit interval."""
    if entry.base is not None:
        return FloatDistribution(math.log2(entry.low), math.log2(entry.high) + 1)
    if entry.log:
        return FloatDistribution(entry.low, entry.high + 1, log=True)
    return FloatDistribution(0.0, (entry.high - entry.low) // entry.step + 1)


def decode(entry: SearchEntry, drawn: Scalar) -> Scalar:
    """The value of a search entry for what the sampler drew.

    Integers are drawn as floats over [low, high + 1) and floored, which keeps their order and is
    three times faster in TPE; with `base = 2` the exponent is, and with `step` the index.
    """
    if isinstance(entry, CategoricalSearch):
        return drawn
    if isinstance(entry, FloatSearch):
        count = entry.count()
        return entry.at(min(int(drawn), count - 1)) if count else float(drawn)
    if entry.base is not None:
        return entry.base ** min(math.floor(float(drawn)), round(math.log2(entry.high)))
    if entry.log:
        return min(math.floor(float(drawn)), entry.high)
    count = (entry.high - entry.low) // entry.step
    return entry.low + entry.step * min(math.floor(float(drawn)), count)


def drawn(entry: SearchEntry, index: int, value: Scalar) -> Scalar:
    """A number that `decode` turns into `value`, the `index`-th of its entry."""
    if isinstance(entry, CategoricalSearch) or entry.count() is None:
        return value
    if isinstance(entry, FloatSearch):
        return index + 0.5
    if entry.base is not None:
        return math.log2(float(value)) + 0.5
    return float(value) + 0.5 if entry.log else index + 0.5
