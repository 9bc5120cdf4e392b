"""Samplers and pruners whose answers depend only on the study's history."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial

from sweeper.trial import words

# types that `_generators` finds; Optuna creates a lazy one as a RandomState on first use
_Generator = np.random.RandomState | np.random.Generator | random.Random
# types of values without generators of their own, which are not searched
_CLOSED = (str, bytes, int, float, complex, type, ModuleType, FunctionType, np.ndarray)
# packages of objects that lead to all trials, or to all loggers
_WITHOUT = ("optuna", "sweeper", "logging")


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

    One that may keep something between its answers is created again by `make` for each of them.
    This is not an Optuna pruner itself, since samplers check the kind of the study's pruner.
    """

    def __init__(
        self, inner: BasePruner, seed: int, make: Callable[[], BasePruner] | None = None
    ) -> None:
        self._inner = inner
        self._seed = seed
        self._make = make

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether to end the trial after its last reported epoch."""
        if self._make is not None:
            study.pruner = self._inner = self._make()
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
    """Every generator reachable from `owner`, each with its path.

    Those that samplers and pruners have as attributes come first: their paths are part of the
    seeds, and stay those of earlier versions, which only found these.
    """
    known = [*_of_samplers(owner, path)]
    yield from known
    seen = {id(rng) for _, rng in known}
    waiting: deque[tuple[str, object]] = deque([(path, owner)])
    while waiting:
        place, value = waiting.popleft()
        if isinstance(value, _CLOSED) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _Generator):
            yield place, value
        else:
            waiting.extend(_inside(value, place))


def _of_samplers(owner: object, path: str) -> Iterator[tuple[str, _Generator]]:
    """The generators that `owner`, and samplers and pruners in it, have as attributes."""
    for name, value in getattr(owner, "__dict__", {}).items():
        place = f"{path}.{name}"
        if isinstance(value, _Generator):
            yield place, value
        elif type(value).__name__ == "LazyRandomState":
            yield place, value.rng
        elif isinstance(value, BaseSampler | BasePruner):
            yield from _of_samplers(value, place)


def _inside(value: object, path: str) -> Iterator[tuple[str, object]]:
    """The items of a container or the attributes of an object, each with its path."""
    if isinstance(value, Mapping | list | tuple | deque):
        items = value.values() if isinstance(value, Mapping) else value
        yield from ((f"{path}[{place}]", item) for place, item in enumerate(items))
    elif type(value).__name__ == "LazyRandomState":
        yield path, cast("Any", value).rng
    elif isinstance(value, partial):
        yield f"{path}.func", value.func
        yield f"{path}.args", value.args
        yield f"{path}.keywords", value.keywords
    elif isinstance(value, MethodType | BuiltinMethodType):
        yield f"{path}.__self__", value.__self__
    elif isinstance(value, BaseSampler | BasePruner) or _package(value) not in _WITHOUT:
        state: Any = object.__getstate__(value)  # attributes in `__dict__` and in `__slots__`
        for attributes in state if isinstance(state, tuple) else (state,):
            yield from ((f"{path}.{name}", item) for name, item in (attributes or {}).items())


def _package(value: object) -> str:
    return type(value).__module__.partition(".")[0]
