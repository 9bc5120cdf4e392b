"""The space that the sampler sees, and how drawn numbers become values of a search entry.

The space is the same for every trial, since samplers lose track of parameters that some trials
lack: unused parameters are drawn as well, and left out afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from sweeper.config import StudyConfig
from sweeper.config.kinds import is_function
from sweeper.config.search import CategoricalSearch, FloatSearch, IntSearch, SearchEntry
from sweeper.trial import Scalar


@dataclass(frozen=True, slots=True)
class SamplerUnits:
    """The units in which a sampler draws the values of an entry."""

    distribution: Callable[[SearchEntry], BaseDistribution]
    decode: Callable[[SearchEntry, Scalar], Scalar]
    encode: Callable[[SearchEntry, Scalar], Scalar]


class Space:
    """The search of a study; `distributions` are by name of what the sampler draws."""

    def __init__(self, config: StudyConfig) -> None:
        self._config = config
        self._entries = config.columns
        self._units = AS_WRITTEN if is_function(config.study.sampler.name) else CONTINUOUS
        self.distributions: dict[str, BaseDistribution] = {}
        for name, entry in self._entries.items():
            self.distributions[name] = self._units.distribution(entry)
            if or_values := _or_values(entry):
                self.distributions[or_name(name)] = CategoricalDistribution(
                    (*range(len(or_values) + 1),)
                )

    def params(self, drawn: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The parameters of a trial for what was drawn, without unused ones."""
        return self._config.active(
            {name: self._value(name, entry, drawn) for name, entry in self._entries.items()}
        )

    def drawn(self, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """What to draw for a trial to have `params`; the rest is left to the sampler."""
        return dict(pair for name, value in params.items() for pair in self._draws(name, value))

    def drawn_whole(self, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The same for every parameter; where an extra value leaves the range out, its start."""
        drawn = self.drawn(params)
        for name, entry in self._entries.items():
            if name not in drawn and not isinstance(entry, CategoricalSearch):
                drawn[name] = self._units.encode(entry, entry.low)
        return drawn

    def _value(self, name: str, entry: SearchEntry, drawn: Mapping[str, Scalar]) -> Scalar:
        which = drawn.get(or_name(name), 0)
        return (
            _or_values(entry)[int(which) - 1] if which else self._units.decode(entry, drawn[name])
        )

    def _draws(self, name: str, value: Scalar) -> Iterator[tuple[str, Scalar]]:
        entry, or_values = self._entries[name], _or_values(self._entries[name])
        which = or_values.index(value) + 1 if value in or_values else 0
        if or_values:
            yield or_name(name), which
        if not which:
            yield name, self._units.encode(entry, value)


def or_name(name: str) -> str:
    """The parameter that says whether `name` comes from its range; no column has this name."""
    return f"{name} or"


def _or_values(entry: SearchEntry) -> tuple[Scalar, ...]:
    return () if isinstance(entry, CategoricalSearch) else entry.or_values


def distribution(entry: SearchEntry) -> BaseDistribution:
    """The distribution that the sampler draws from for `entry`, or for its range."""
    if isinstance(entry, CategoricalSearch):
        return CategoricalDistribution(entry.choices)
    if isinstance(entry, FloatSearch):
        if values := entry.in_range():  # Optuna's own steps lose the last value to rounding
            return FloatDistribution(0.0, float(len(values)))
        return FloatDistribution(entry.low, entry.high, log=entry.log)
    return _integer_distribution(entry)


def _integer_distribution(entry: IntSearch) -> FloatDistribution:
    """The floats that `decode` floors to the integers of `entry`, a unit interval for each."""
    if entry.base is not None:
        return FloatDistribution(math.log2(entry.low), math.log2(entry.high) + 1)
    if entry.log:
        return FloatDistribution(entry.low, entry.high + 1, log=True)
    return FloatDistribution(0.0, (entry.high - entry.low) // entry.step + 1)


def decode(entry: SearchEntry, drawn: Scalar) -> Scalar:
    """The value of a search entry for a number that the sampler drew.

    Integers are drawn as floats in [low, high + 1) and floored, which keeps their order and is
    three times faster in TPE; with `base = 2` this applies to the exponent, and with `step` to the
    index.
    """
    if isinstance(entry, CategoricalSearch):
        return drawn
    if isinstance(entry, FloatSearch):
        values = entry.in_range()
        return values[min(int(drawn), len(values) - 1)] if values else float(drawn)
    if entry.base is not None:
        return entry.base ** min(math.floor(float(drawn)), round(math.log2(entry.high)))
    if entry.log:
        return min(math.floor(float(drawn)), entry.high)
    count = (entry.high - entry.low) // entry.step
    return entry.low + entry.step * min(math.floor(float(drawn)), count)


def encode(entry: SearchEntry, value: Scalar) -> Scalar:
    """A number that `decode` turns into `value`, a value of the entry's range."""
    if isinstance(entry, FloatSearch) and (values := entry.in_range()):
        return values.index(float(value)) + 0.5
    if not isinstance(entry, IntSearch):
        return value
    if entry.base is not None:
        return math.log2(float(value)) + 0.5
    if entry.log:
        return float(value) + 0.5
    return (int(value) - entry.low) // entry.step + 0.5


def _written_distribution(entry: SearchEntry) -> BaseDistribution:
    if isinstance(entry, CategoricalSearch):
        return CategoricalDistribution(entry.choices)
    if isinstance(entry, FloatSearch):
        values = entry.in_range()
        high = values[-1] if values else entry.high
        written = FloatDistribution(entry.low, high, log=entry.log)
        # otherwise Optuna warns about a `high` that is not a whole number of steps in decimals
        written.step = entry.step
        return written
    if entry.base is not None:  # Optuna does not support powers
        return CategoricalDistribution(entry.in_range())
    high = entry.high - (entry.high - entry.low) % entry.step
    return IntDistribution(entry.low, high, log=entry.log, step=entry.step)


def _written_value(entry: SearchEntry, drawn: Scalar) -> Scalar:
    if isinstance(entry, FloatSearch) and (values := entry.in_range()):
        return min(values, key=lambda value: abs(value - float(drawn)))
    return drawn


CONTINUOUS = SamplerUnits(distribution, decode, encode)
# for user-defined samplers, which follow the study file
AS_WRITTEN = SamplerUnits(_written_distribution, _written_value, lambda entry, value: value)
