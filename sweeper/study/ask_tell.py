"""The Optuna study of a sweep, kept in memory and rebuilt from the ledger."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import optuna
from optuna.trial import FrozenTrial, create_trial

from sweeper.config import StudyConfig
from sweeper.study.grid import GridPoints
from sweeper.study.learning import are_used
from sweeper.study.limits import STOPPED, trial_numbers
from sweeper.study.private_apis import suggest
from sweeper.study.recording_storage import RecordingStorage, split_recorded
from sweeper.study.reseeded import ReseededPruner, ReseededSampler
from sweeper.study.samplers import is_recreated, of_first_generation, pruner, sampler
from sweeper.study.space import Space
from sweeper.study.user_sampler import (
    addition_error,
    check_memory,
    check_proposal,
    ended_outside,
    guarded,
)
from sweeper.trial import LearnedTrial, Memory, Scalar, TrialSpec, TrialState

optuna.logging.set_verbosity(optuna.logging.WARNING)

_STATES = {state: optuna.trial.TrialState[state.name] for state in TrialState}
_RUNNING = optuna.trial.TrialState.RUNNING
_REDRAWS = 10


@dataclass(frozen=True, slots=True)
class PastTrial:
    """A trial as recorded in the ledger; `state` is None while it is live.

    `reports` are the objective's values by epoch, from epoch 1 on; `attributes` is what the sampler
    and the pruner store with the trial. `values` are the objectives, empty if it has none.
    """

    spec: TrialSpec
    reports: Sequence[float]
    attributes: Mapping[str, Any]
    state: TrialState | None
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Past:
    """All trials that a study was ever asked for, and what its sampler stores with the study.

    `enqueued` are parameters that were requested for trials, by their numbers; `learned` are trials
    of earlier studies.
    """

    trials: Sequence[PastTrial] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    enqueued: Mapping[int, Mapping[str, Scalar]] = field(
        default_factory=dict[int, Mapping[str, Scalar]]
    )
    learned: Sequence[LearnedTrial] = ()


class _StoppableStudy(optuna.Study):
    """An Optuna study that its sampler or pruner may stop without a loop of `optimize`."""

    def stop(self) -> None:
        """End the study after the trials that were already proposed."""
        self._storage.set_study_system_attr(self._study_id, STOPPED, True)


class Study:
    """An Optuna study whose proposals depend only on the study file and on reported results."""

    def __init__(self, config: StudyConfig, past: Past | None = None) -> None:
        self._config = config
        self._space = Space(config)
        # user-defined samplers and pruners see what they store as a resumed study does
        self._storage = RecordingStorage(is_read_as_json=config.has_own_class)
        # a trial that is run again keeps its own number, which Optuna would not give it
        self._first = trial_numbers(config).start
        past = past or Past()
        # trials of earlier studies come first in Optuna's study, and have no number in this one
        used = past.learned if are_used(config, past.learned) else ()
        learned = [self._frozen_learned_trial(trial) for trial in used]
        self._n_learned = len(learned)
        self._first -= self._n_learned
        self._grid = GridPoints(config) if config.study.sampler.name == "grid" else None
        seed = config.study.seed
        lacks_settings = any(trial.drawn.keys() < {*self._space.distributions} for trial in used)
        self._sampling = partial(guarded, config, "sampler", lacks_settings=lacks_settings)
        self._pruning = partial(guarded, config, "pruner")
        with self._sampling(), self._pruning():
            self._sampler = ReseededSampler(
                lambda: sampler(config, learned), seed, is_recreated(config)
            )
            name, directions = config.study.name, list(config.study.directions)
            optuna.create_study(storage=self._storage, study_name=name, directions=directions)
            self._study = _StoppableStudy(name, self._storage, self._sampler, pruner(config))
        make_pruner = partial(pruner, config) if config.own_class("pruner") else None
        self._pruner = ReseededPruner(self._study.pruner, seed, make_pruner)
        self._queue = dict(enumerate(config.study.enqueue)) | dict(past.enqueued)
        # samplers that draw at random; the others have reasons for what they propose
        self._redraws = config.edition >= 3 and config.study.sampler.name in ("tpe", "random")
        self._known = {_key(trial.spec.params) for trial in past.trials}
        for trial in (*learned, *map(self._frozen_past_trial, past.trials)):
            self._study.add_trial(trial)
        of_user, of_system = split_recorded(past.attributes)
        for key, value in of_user.items():
            self._storage.set_study_user_attr(self._study._study_id, key, value)
        for key, value in of_system.items():
            self._storage.set_study_system_attr(self._study._study_id, key, value)
        if isinstance(self._study.pruner, optuna.pruners.HyperbandPruner):
            # creates the brackets, which trials are assigned to before the pruner judges any
            with self._storage.hiding(self._n_learned):
                self._pruner.prune(self._study, create_trial(state=_RUNNING))
        self._storage.take_recorded()
        self._n_trials = self._storage.get_n_trials(self._study._study_id)

    def ask(self, count: int, told_through_round: int) -> list[TrialSpec]:
        """The next `count` proposals, of at most `n_proposals` in total; fewer once it is stopped.

        If the sampler stops the study while it proposes a trial, this trial is the last one.
        """
        specs: list[TrialSpec] = []
        while len(specs) < count and not self.is_stopped:
            specs.append(self._ask_one(told_through_round))
        return specs

    @property
    def is_stopped(self) -> bool:
        """Whether the user's sampler or pruner has called `study.stop`."""
        return self._config.has_own_class and STOPPED in self._storage.get_study_system_attrs(
            self._study._study_id
        )

    def enqueue(self, number: int, params: Mapping[str, Scalar]) -> None:
        """Propose trial `number`, which was not asked for yet, with `params`."""
        self._queue[number] = params

    def report(self, number: int, first_epoch: int, values: Iterable[float]) -> None:
        """Report the objective after each epoch, from `first_epoch` on, to the pruner."""
        trial = self._running_id(number)
        for epoch, value in enumerate(values, first_epoch):
            self._storage.set_trial_intermediate_value(trial, epoch, float(value))

    def should_prune(self, number: int) -> bool:
        """Whether the pruner ends trial `number` after its last reported epoch."""
        trial = self._storage.get_trial(self._running_id(number))
        with self._pruning(), self._storage.hiding(self._n_learned):
            is_ended = self._pruner.prune(self._study, trial)
        self._refuse_added("pruner")
        return is_ended

    def constrain(self, number: int, excesses: Mapping[str, float]) -> None:
        """Record by how much trial `number` violates each constraint, if above 0."""
        attributes = create_trial(state=_RUNNING, constraints=dict(excesses)).system_attrs
        for key, value in attributes.items():
            self._storage.set_trial_system_attr(self._running_id(number), key, value)

    def tell(self, number: int, state: TrialState, values: Sequence[float]) -> None:
        """End trial `number`; `values` are for COMPLETE, for PRUNED Optuna uses the last report."""
        self._running_id(number)
        final_values = list(values) if state is TrialState.COMPLETE else None
        with warnings.catch_warnings(), self._sampling():
            # `study_warnings` has already warned about constraints that the sampler ignores
            warnings.filterwarnings("ignore", message="Constraints have been set")
            self._study.tell(number - self._first, final_values, state=_STATES[state])
        self._refuse_added("sampler")

    def take_recorded(self) -> Memory:
        """What the sampler and the pruner have stored since the last call.

        Raises:
            SweeperError: the user's sampler or pruner has stored something that is not JSON.
        """
        recorded, learned = self._storage.take_recorded(), self._n_learned
        check_memory(self._config, recorded)
        trials = {n - learned: kept for n, kept in recorded.trials.items() if n >= learned}
        return Memory(trials, recorded.study)

    def _ask_one(self, told_through_round: int) -> TrialSpec:
        asked = self._storage.get_n_trials(self._study._study_id) - self._n_learned
        if given := self._given_params(asked):
            self._study.enqueue_trial(self._space.drawn(given))
        with self._sampling():
            trial = self._study.ask(self._space.distributions)
            if not given and self._redraws:
                trial = self._draw_new(trial)
        self._n_trials += 1
        self._refuse_added("sampler")
        drawn = trial.params  # this makes a copy
        check_proposal(self._config, drawn, self._space.distributions)
        params = self._space.params(drawn)
        self._known.add(_key(params))
        return TrialSpec(self._first + trial.number, params, drawn, told_through_round)

    def _refuse_added(self, table: Literal["sampler", "pruner"]) -> None:
        """Refuse trials that this package did not ask for, since they take the numbers of others.

        Raises:
            SweeperError: this one, which gets the study, has added them.
        """
        if self._storage.get_n_trials(self._study._study_id) != self._n_trials:
            raise addition_error(self._config, table)

    def _draw_new(self, trial: optuna.Trial) -> optuna.Trial:
        """The trial, drawn again while it repeats the settings of another, `_REDRAWS` times."""
        points = self._config.n_points
        if points is not None and len(self._known) >= points:
            return trial
        number = trial._trial_id
        for draws in range(1, _REDRAWS + 1):
            self._sampler.draws = draws
            if _key(self._space.params(trial.params)) not in self._known:
                break
            self._storage.forget_draws(number)
            trial = optuna.Trial(self._study, number)
            suggest(trial, self._space.distributions)
        self._sampler.draws = 0
        return trial

    def _given_params(self, number: int) -> Mapping[str, Scalar]:
        """The parameters of a trial that are given rather than drawn."""
        if self._grid is not None:
            return self._grid.point(number)
        return self._queue.get(number, {})

    def _frozen_learned_trial(self, trial: LearnedTrial) -> FrozenTrial:
        """A trial of an earlier study, with the parameters that are known of it.

        One that was pruned has its last value only.
        """
        state, is_pruned = optuna.trial.TrialState[trial.state], trial.state == "PRUNED"
        values, every = list(trial.values), self._space.distributions
        reports = {trial.epoch: values[0]} if is_pruned and values else {}
        return create_trial(
            state=state,
            values=values or None,
            params=dict(trial.drawn),
            distributions={n: one for n, one in every.items() if n in trial.drawn},
            intermediate_values=reports,
            system_attrs=of_first_generation(self._config),
            constraints=dict(trial.excesses) or None,
        )

    def _frozen_past_trial(self, past: PastTrial) -> FrozenTrial:
        reports = dict(enumerate(past.reports, 1))
        state = _RUNNING if past.state is None else _STATES[past.state]
        values = list(past.values) if past.state is TrialState.COMPLETE else None
        if past.state is TrialState.PRUNED and reports:  # as `tell` does for a pruned trial
            values = [past.reports[-1]]
        of_user, of_system = split_recorded(past.attributes)
        return create_trial(
            state=state,
            values=values,
            params=dict(past.spec.drawn),
            distributions=self._space.distributions,
            intermediate_values=reports,
            user_attrs=of_user,
            system_attrs=of_system,
        )

    def _running_id(self, number: int) -> int:
        """The storage's own number of a trial that is still running.

        Raises:
            SweeperError: the user's sampler or pruner, which get the study, have ended the trial.
        """
        found = self._storage.get_trial_id_from_study_id_trial_number(
            self._study._study_id, number - self._first
        )
        if self._storage.get_trial(found).state.is_finished():
            raise ended_outside(self._config, number)
        return found


def _key(params: Mapping[str, Scalar]) -> tuple[tuple[str, Scalar], ...]:
    """The settings of a trial, to find others with the same ones."""
    return tuple(sorted(params.items()))
