"""The Optuna study of a sweep, kept in memory and rebuilt from the ledger."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial

from sweeper.config import StudyConfig
from sweeper.study.grid import Grid
from sweeper.study.reseeded import ReseededSampler
from sweeper.study.samplers import pruner, sampler
from sweeper.study.space import decode, distribution
from sweeper.trial import TrialSpec, TrialState

optuna.logging.set_verbosity(optuna.logging.WARNING)

Attributes = Mapping[str, Any]
_STATES = {state: optuna.trial.TrialState[state.name] for state in TrialState}


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
        self._space = {name: distribution(entry) for name, entry in config.columns.items()}
        self._entries = config.columns
        self._storage = InMemoryStorage()
        # a trial that is run again keeps its number, which is not Optuna's then
        self._first = 0 if config.trial is None else config.trial.number
        self._grid = Grid(config) if config.study.sampler.name == "grid" else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=config.study.name,
                direction=config.study.direction,
                sampler=ReseededSampler(sampler(config), config.study.seed),
                pruner=pruner(config),
            )
        for trial in past:
            self._study.add_trial(self._remembered(trial))

    def ask(self, count: int, told_through_round: int) -> list[TrialSpec]:
        """The next `count` proposals, of at most `n_proposals` in all."""
        return [self._ask_one(told_through_round) for _ in range(count)]

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
        self._study.tell(number - self._first, told, state=_STATES[state])

    def attributes(self, numbers: Iterable[int]) -> dict[int, Attributes]:
        """What the sampler and the pruner keep with each of the trials `numbers`."""
        trials = ((n, self._storage.get_trial(self._id(n)).system_attrs) for n in numbers)
        return {number: dict(kept) for number, kept in trials if kept}

    def _ask_one(self, told_through_round: int) -> TrialSpec:
        if self._grid is not None:
            number = len(self._study.get_trials(deepcopy=False))
            self._study.enqueue_trial(self._grid.point(number))
        trial = self._study.ask(self._space)
        params = {name: decode(self._entries[name], trial.params[name]) for name in self._entries}
        return TrialSpec(self._first + trial.number, params, dict(trial.params), told_through_round)

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
        return self._storage.get_trial_id_from_study_id_trial_number(
            self._study._study_id, number - self._first
        )
