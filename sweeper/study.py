"""Ask and tell: the Optuna study of a sweep, kept in memory and rebuilt from the ledger.

Optuna lives here and nowhere else. Samplers and pruners are Optuna's own; what is added is
`ReseededSampler`, which makes a proposal a function of the study's history alone.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial

from sweeper.config import StudyConfig
from sweeper.config.search import CategoricalSearch, FloatSearch, IntSearch, SearchEntry
from sweeper.errors import Problem, StudyError
from sweeper.randomness import generator, words
from sweeper.trial import Scalar, TrialSpec, TrialState

optuna.logging.set_verbosity(optuna.logging.WARNING)

Attributes = Mapping[str, Any]
_STATES = {state: optuna.trial.TrialState[state.name] for state in TrialState}
_SAMPLERS: dict[str, Callable[..., BaseSampler]] = {
    "tpe": optuna.samplers.TPESampler,
    "random": optuna.samplers.RandomSampler,
    "grid": optuna.samplers.RandomSampler,  # every parameter is enqueued, so it never draws
}
_PRUNERS: dict[str, Callable[..., optuna.pruners.BasePruner]] = {
    "none": optuna.pruners.NopPruner,
    "median": optuna.pruners.MedianPruner,
    "asha": optuna.pruners.SuccessiveHalvingPruner,
}


@dataclass(frozen=True, slots=True)
class PastTrial:
    """A trial as the ledger remembers it; `state` is None while it is live.

    `reports` are the objective's values by epoch, from epoch 1 on; `attributes` is what the
    sampler and the pruner keep with the trial.
    """

    spec: TrialSpec
    reports: Sequence[float]
    attributes: Attributes
    state: TrialState | None
    value: float | None


class Study:
    """An Optuna study whose proposals depend only on the study file and what it was told."""

    def __init__(self, config: StudyConfig, past: Iterable[PastTrial] = ()) -> None:
        self._space = {name: _distribution(entry) for name, entry in config.columns.items()}
        self._entries = config.columns
        self._storage = InMemoryStorage()
        self._seed = config.study.seed
        self._grid = _grid(config) if config.study.sampler.name == "grid" else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=config.study.name,
                direction=config.study.direction,
                sampler=ReseededSampler(_sampler(config), config.study.seed),
                pruner=_pruner(config),
            )
        for trial in past:
            self._study.add_trial(self._remembered(trial))

    def ask(self, count: int, told_through_round: int) -> list[TrialSpec]:
        """The next `count` proposals; fewer where a grid runs out of points."""
        return [
            spec for _ in range(count) if (spec := self._ask_one(told_through_round)) is not None
        ]

    def report(self, number: int, first_epoch: int, values: Iterable[float]) -> None:
        """Tell the pruner the objective after each epoch from `first_epoch` on."""
        for epoch, value in enumerate(values, first_epoch):
            self._storage.set_trial_intermediate_value(self._id(number), epoch, float(value))

    def should_prune(self, number: int) -> bool:
        """Whether the pruner ends trial `number` after its last reported epoch."""
        trial = self._storage.get_trial(self._id(number))
        return bool(self._study.pruner.prune(self._study, trial))

    def tell(self, number: int, state: TrialState, value: float | None) -> None:
        """End trial `number`; the `value` counts for COMPLETE, Optuna takes a PRUNED one's last."""
        told = value if state is TrialState.COMPLETE else None
        self._study.tell(number, told, state=_STATES[state])

    def attributes(self, numbers: Iterable[int]) -> dict[int, Attributes]:
        """What the sampler and the pruner keep with each of the trials `numbers`."""
        trials = ((n, self._storage.get_trial(self._id(n)).system_attrs) for n in numbers)
        return {number: dict(kept) for number, kept in trials if kept}

    def _ask_one(self, told_through_round: int) -> TrialSpec | None:
        if self._grid is not None:
            number = len(self._study.get_trials(deepcopy=False))
            if number >= len(self._grid):
                return None
            self._study.enqueue_trial(self._grid[number])
        trial = self._study.ask(self._space)
        params = {name: decode(self._entries[name], trial.params[name]) for name in self._entries}
        return TrialSpec(trial.number, params, dict(trial.params), told_through_round)

    def _remembered(self, past: PastTrial) -> FrozenTrial:
        reports = dict(enumerate(past.reports, 1))
        state = optuna.trial.TrialState.RUNNING if past.state is None else _STATES[past.state]
        value = past.value
        if past.state is TrialState.PRUNED:  # what `tell` gives a pruned trial
            value = past.reports[-1] if past.reports else None
        return optuna.trial.create_trial(
            state=state,
            value=value,
            params=dict(past.spec.drawn),
            distributions=self._space,
            intermediate_values=reports,
            system_attrs=dict(past.attributes),
        )

    def _id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study._study_id, number)


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


def decode(entry: SearchEntry, drawn: Scalar) -> Scalar:
    """The value of a search entry for what the sampler drew.

    Integers are drawn as floats over [low, high + 1) and floored, which keeps their order and is
    three times faster in TPE; with `base = 2` the exponent is, and with `step` the index.
    """
    if isinstance(entry, CategoricalSearch):
        return drawn
    if isinstance(entry, FloatSearch):
        return float(drawn)
    if entry.base is not None:
        return entry.base ** min(math.floor(float(drawn)), round(math.log2(entry.high)))
    if entry.log:
        return min(math.floor(float(drawn)), entry.high)
    count = (entry.high - entry.low) // entry.step
    return entry.low + entry.step * min(math.floor(float(drawn)), count)


def rungs(config: StudyConfig) -> tuple[int, ...]:
    """The epochs before the last at which the pruner decides; empty where it may at any."""
    if config.study.pruner.name != "asha":
        return ()
    options = _asha_options(config)
    factor = options.get("reduction_factor", 4)
    rung = options["min_resource"] * factor ** options.get("min_early_stopping_rate", 0)
    found: list[int] = []
    while rung < config.max_epochs:
        found.append(rung)
        rung *= factor
    return tuple(found)


def n_proposals(config: StudyConfig) -> int:
    """How many trials the study can hold: `n_trials`, or the points of a smaller grid."""
    if config.study.sampler.name != "grid":
        return config.study.n_trials
    return min(config.study.n_trials, len(_grid(config)))


def option_problems(config: StudyConfig) -> list[Problem]:
    """What is wrong with the free options of the sampler and the pruner."""
    return [
        *_call_problems(config, "study.sampler", _SAMPLERS, lambda: _sampler(config)),
        *_call_problems(config, "study.pruner", _PRUNERS, lambda: _pruner(config)),
    ]


def _call_problems(
    config: StudyConfig,
    table: str,
    targets: Mapping[str, Callable[..., object]],
    build: Callable[[], object],
) -> list[Problem]:
    chosen = config.study.sampler if table == "study.sampler" else config.study.pruner
    known = sorted(set(inspect.signature(targets[chosen.name]).parameters) - {"seed"})
    unknown = [
        config.problem(
            f"{table}.{key}",
            f"{chosen.name} has no such option",
            f"it takes {', '.join(known)}" if known else "it takes none",
        )
        for key in chosen.options
        if key not in known
    ]
    if unknown:
        return unknown
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            build()
    except (TypeError, ValueError) as error:
        return [config.problem(table, str(error), f"mend the options of {chosen.name}")]
    return []


def _distribution(entry: SearchEntry) -> BaseDistribution:
    if isinstance(entry, CategoricalSearch):
        return CategoricalDistribution(entry.choices)
    if isinstance(entry, FloatSearch):
        values = entry.values()
        high = values[-1] if values else entry.high  # Optuna warns of a high between two steps
        return FloatDistribution(entry.low, high, log=entry.log, step=entry.step)
    return _integer_distribution(entry)


def _integer_distribution(entry: IntSearch) -> FloatDistribution:
    """The floats that `decode` floors to the integers of `entry`, each over a unit interval."""
    if entry.base is not None:
        return FloatDistribution(math.log2(entry.low), math.log2(entry.high) + 1)
    if entry.log:
        return FloatDistribution(entry.low, entry.high + 1, log=True)
    return FloatDistribution(0.0, (entry.high - entry.low) // entry.step + 1)


def _grid(config: StudyConfig) -> list[dict[str, Scalar]]:
    """Every point of the space, as the sampler would have drawn it, in an order of the seed."""
    axes = [
        [(name, _drawn(entry, index, value)) for index, value in enumerate(entry.values() or ())]
        for name, entry in config.columns.items()
    ]
    points = [dict(point) for point in product(*axes)]
    order = generator(config.study.seed, "grid").permutation(len(points))
    return [points[index] for index in order]


def _drawn(entry: SearchEntry, index: int, value: Scalar) -> Scalar:
    """A number that `decode` turns into `value`, the `index`-th of its entry."""
    if not isinstance(entry, IntSearch):
        return value
    if entry.base is not None:
        return math.log2(float(value)) + 0.5
    return float(value) + 0.5 if entry.log else index + 0.5


def _sampler(config: StudyConfig) -> BaseSampler:
    chosen = config.study.sampler
    return _SAMPLERS[chosen.name](**chosen.options)


def _pruner(config: StudyConfig) -> optuna.pruners.BasePruner:
    chosen = config.study.pruner
    options = _asha_options(config) if chosen.name == "asha" else chosen.options
    return _PRUNERS[chosen.name](**options)


def _asha_options(config: StudyConfig) -> dict[str, Any]:
    """Optuna's options; "auto" would wait for a finished trial, so the first rung is epoch 1."""
    return {"min_resource": 1, **config.study.pruner.options}


def check(config: StudyConfig) -> None:
    """Refuse options that the sampler or the pruner does not take.

    Raises:
        StudyError: with every option that is unknown or out of range.
    """
    if problems := option_problems(config):
        raise StudyError(problems)
