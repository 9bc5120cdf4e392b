"""Samplers whose proposals are a function of the study's history alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from sweeper.randomness import words


class ReseededSampler(BaseSampler):
    """The sampler `inner`, with every generator inside it reseeded before each use.

    Its state then never depends on how often it was asked before, or in which process: a seed is
    a function of (study seed, hook, trial number, parameter, the generator's own place).
    """

    def __init__(self, inner: BaseSampler, seed: int) -> None:
        self._inner = inner
        self._seed = seed

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        self._reseed("space", trial.number)
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        self._reseed("relative", trial.number)
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        self._reseed("independent", trial.number, param_name)
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self._reseed("before", trial.number)
        self._inner.before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: optuna.trial.TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self._reseed("after", trial.number)
        self._inner.after_trial(study, trial, state, values)

    def _reseed(self, hook: str, number: int, parameter: str = "") -> None:
        for path, rng in _generators(self._inner, "sampler"):
            rng.seed(words(self._seed, "sampler", path, hook, number, parameter))


def _generators(owner: object, path: str) -> Iterator[tuple[str, np.random.RandomState]]:
    """Every random state that can be reached from a sampler, each with its attribute path."""
    for name, value in vars(owner).items():
        place = f"{path}.{name}"
        if isinstance(value, np.random.RandomState):
            yield place, value
        elif type(value).__name__ == "LazyRandomState":
            yield place, value.rng
        elif isinstance(value, BaseSampler):
            yield from _generators(value, place)
