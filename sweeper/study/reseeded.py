"""Samplers and pruners whose answers depend only on the study's history.

An in-memory storage notes what they store in Optuna's study, so that it can be recorded.
"""

from __future__ import annotations

import bisect
import random
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from sweeper.trial import Memory, words

# types that `_generators` finds; Optuna creates a lazy one as a RandomState on first use
_Generator = np.random.RandomState | np.random.Generator | random.Random


class ReseededSampler(BaseSampler):
    """A sampler created by `make`, with every generator in it reseeded before each use.

    Its state then never depends on how often it was asked before, or in which process: a seed is a
    function of (study seed, hook, trial number, parameter, path of the generator). A sampler that
    keeps more than generators between trials must be created again for each (`is_recreated`).
    """

    def __init__(self, make: Callable[[], BaseSampler], seed: int, is_recreated: bool) -> None:
        self._make = make
        self._inner = make()
        self._seed = seed
        self._is_recreated = is_recreated
        self.draws = 0
        """How often the current trial was drawn before."""

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
        self._renew()
        if _has_own(self._inner, "before_trial"):
            self._reseed("before", trial.number)
        self._inner.before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: optuna.trial.TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self._renew()
        if _has_own(self._inner, "after_trial"):
            self._reseed("after", trial.number)
        self._inner.after_trial(study, trial, state, values)

    def _renew(self) -> None:
        if self._is_recreated:
            self._inner = self._make()

    def _reseed(self, hook: str, number: int, parameter: str = "") -> None:
        again = (self.draws,) if self.draws else ()
        _reseed(self._inner, "sampler", self._seed, hook, number, parameter, *again)


class ReseededPruner:
    """Asks a pruner with every generator in it reseeded, as for a sampler.

    This is not an Optuna pruner itself, since samplers check the kind of the study's pruner.
    """

    def __init__(self, inner: BasePruner, seed: int) -> None:
        self._inner = inner
        self._seed = seed

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether to end the trial after its last reported epoch."""
        _reseed(
            self._inner, "pruner", self._seed, "prune", trial.number, max(trial.last_step or 0, 0)
        )
        return bool(self._inner.prune(study, trial))


def _has_own(inner: BaseSampler, hook: str) -> bool:
    """Whether a sampler implements a hook; those inherited from Optuna do nothing."""
    return getattr(type(inner), hook) is not getattr(BaseSampler, hook)


def _reseed(owner: object, place: str, seed: int, *purpose: int | str) -> None:
    for path, rng in _generators(owner, place):
        own = words(seed, "sampler", path, *purpose)
        if isinstance(rng, np.random.Generator):
            rng.bit_generator.state = type(rng.bit_generator)(own).state
        elif isinstance(rng, random.Random):
            rng.seed(own.tobytes())
        else:
            rng.seed(own)


def _generators(owner: object, path: str) -> Iterator[tuple[str, _Generator]]:
    """Every generator reachable from `owner`, each with its attribute path."""
    for name, value in getattr(owner, "__dict__", {}).items():
        place = f"{path}.{name}"
        if isinstance(value, _Generator):
            yield place, value
        elif type(value).__name__ == "LazyRandomState":
            yield place, value.rng
        elif isinstance(value, BaseSampler | BasePruner):
            yield from _generators(value, place)


class NotingStorage(InMemoryStorage):
    """Notes what is stored with trials and with the study, so that a ledger can record it.

    Some samplers continue from it: CMA-ES stores its state with trials, NSGA-II the parents of a
    generation with the study.
    """

    def __init__(self) -> None:
        super().__init__()
        self._noted = Memory({}, {})
        self._n_trials = 0
        self.n_reports = 0
        """How many values of trials were reported."""
        self._complete: list[int] = []  # their ids, in ascending order like their numbers
        self._n_hidden = 0

    @contextmanager
    def hiding(self, count: int) -> Iterator[None]:
        """Hide the first `count` trials, which are of earlier studies, from a pruner."""
        self._n_hidden = count
        try:
            yield
        finally:
            self._n_hidden = 0

    def noted(self) -> Memory:
        """What was stored since the last call."""
        noted, self._noted = self._noted, Memory({}, {})
        return noted

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        trial_id = super().create_new_trial(study_id, template_trial)
        self._n_trials += 1
        if template_trial and template_trial.state == TrialState.COMPLETE:
            bisect.insort(self._complete, trial_id)
        self.n_reports += len(template_trial.intermediate_values) if template_trial else 0
        for key, value in (template_trial.system_attrs if template_trial else {}).items():
            self._note(trial_id, key, value)
        return trial_id

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        super().set_trial_intermediate_value(trial_id, step, intermediate_value)
        self.n_reports += 1

    def forget_draws(self, trial_id: int) -> None:
        """Remove the parameters of a trial, so that it can be drawn again."""
        self._set_trial(trial_id, copy(self._get_trial(trial_id)))
        trial = self._get_trial(trial_id)
        trial.params, trial.distributions = {}, {}

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        is_set = super().set_trial_state_values(trial_id, state, values)
        if is_set and state == TrialState.COMPLETE:
            bisect.insort(self._complete, trial_id)
        return is_set

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """All trials, without checking each if only complete ones are requested, as pruners do."""
        if deepcopy or states != (TrialState.COMPLETE,):
            every = super().get_all_trials(study_id, deepcopy, states)
        else:
            every = [self.get_trial(trial_id) for trial_id in self._complete]
        return [one for one in every if one.number >= self._n_hidden] if self._n_hidden else every

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        super().set_trial_system_attr(trial_id, key, value)
        self._note(trial_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        super().set_study_system_attr(study_id, key, value)
        self._noted.study[key] = value  # type: ignore[index]

    def get_n_trials(
        self, study_id: int, state: tuple[TrialState, ...] | TrialState | None = None
    ) -> int:
        """The number of trials, without checking each one if all are counted."""
        return self._n_trials if state is None else super().get_n_trials(study_id, state)

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        """The best trial, by number among equals; the base class returns the first reported."""
        return BaseStorage.get_best_trial(self, study_id)

    def _note(self, trial_id: int, key: str, value: Any) -> None:
        number = self.get_trial_number_from_id(trial_id)
        self._noted.trials.setdefault(number, {})[key] = value  # type: ignore[attr-defined]
