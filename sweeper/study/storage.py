"""Optuna's study in memory, and what its sampler and pruner put down there since a moment."""

from __future__ import annotations

import bisect
from collections.abc import Container, Sequence
from typing import Any

from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from sweeper.trial import Memory


class NotingStorage(InMemoryStorage):
    """Notes what is written with trials and with the study, so that a ledger can keep it.

    Some samplers go on from there: CMA-ES keeps its state with trials, NSGA-II the parents of a
    generation with the study.
    """

    def __init__(self) -> None:
        super().__init__()
        self._noted = Memory({}, {})
        self._n_trials = 0
        self._complete: list[int] = []  # their ids, which rise with their numbers

    def noted(self) -> Memory:
        """What was written since this was last asked."""
        noted, self._noted = self._noted, Memory({}, {})
        return noted

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        trial_id = super().create_new_trial(study_id, template_trial)
        self._n_trials += 1
        if template_trial and template_trial.state == TrialState.COMPLETE:
            bisect.insort(self._complete, trial_id)
        for key, value in (template_trial.system_attrs if template_trial else {}).items():
            self._note(trial_id, key, value)
        return trial_id

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
        """Without looking at each of them, where the complete ones are asked for, as pruners do."""
        if deepcopy or states != (TrialState.COMPLETE,):
            return super().get_all_trials(study_id, deepcopy, states)
        return [self.get_trial(trial_id) for trial_id in self._complete]

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        super().set_trial_system_attr(trial_id, key, value)
        self._note(trial_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        super().set_study_system_attr(study_id, key, value)
        self._noted.study[key] = value  # type: ignore[index]

    def get_n_trials(
        self, study_id: int, state: tuple[TrialState, ...] | TrialState | None = None
    ) -> int:
        """Without looking at each of them, where all are counted."""
        return self._n_trials if state is None else super().get_n_trials(study_id, state)

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        """Of equally good trials the first by number; the store in memory has the first told."""
        return BaseStorage.get_best_trial(self, study_id)

    def _note(self, trial_id: int, key: str, value: Any) -> None:
        number = self.get_trial_number_from_id(trial_id)
        self._noted.trials.setdefault(number, {})[key] = value  # type: ignore[attr-defined]
