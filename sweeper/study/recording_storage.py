"""An in-memory storage of Optuna that records what samplers and pruners store in the study."""

from __future__ import annotations

import bisect
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any

from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import FrozenTrial, TrialState

from sweeper.trial import Memory

USER_ATTRIBUTE = "sweeper:user:"
"""Begins the recorded name of an attribute that Optuna calls one of the user."""


def split_recorded(recorded: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The user attributes and the system attributes among recorded ones, by their own names."""
    of_user = {name: value for name, value in recorded.items() if name.startswith(USER_ATTRIBUTE)}
    return (
        {name.removeprefix(USER_ATTRIBUTE): value for name, value in of_user.items()},
        {name: value for name, value in recorded.items() if name not in of_user},
    )


class RecordingStorage(InMemoryStorage):
    """Records what is stored with trials and with the study, so that a ledger can record it.

    Some samplers continue from it: CMA-ES stores its state with trials, NSGA-II the parents of a
    generation with the study. With `is_read_as_json`, what is stored is read as a ledger returns
    it, such as lists instead of tuples.
    """

    def __init__(self, *, is_read_as_json: bool = False) -> None:
        super().__init__()
        self._is_read_as_json = is_read_as_json
        self._recorded = Memory({}, {})
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

    def take_recorded(self) -> Memory:
        """What was stored since the last call."""
        recorded, self._recorded = self._recorded, Memory({}, {})
        return recorded

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        trial_id = super().create_new_trial(study_id, template_trial)
        self._n_trials += 1
        if template_trial and template_trial.state == TrialState.COMPLETE:
            bisect.insort(self._complete, trial_id)
        self.n_reports += len(template_trial.intermediate_values) if template_trial else 0
        for key, value in (template_trial.system_attrs if template_trial else {}).items():
            self._record(trial_id, key, value)
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
        value = self._as_read(value)
        super().set_trial_system_attr(trial_id, key, value)
        self._record(trial_id, key, value)

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        value = self._as_read(value)
        super().set_trial_user_attr(trial_id, key, value)
        self._record(trial_id, f"{USER_ATTRIBUTE}{key}", value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        value = self._as_read(value)
        super().set_study_system_attr(study_id, key, value)
        self._recorded.study[key] = value  # type: ignore[index]

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        value = self._as_read(value)
        super().set_study_user_attr(study_id, key, value)
        self._recorded.study[f"{USER_ATTRIBUTE}{key}"] = value  # type: ignore[index]

    def get_n_trials(
        self, study_id: int, state: tuple[TrialState, ...] | TrialState | None = None
    ) -> int:
        """The number of trials, without checking each one if all are counted."""
        return self._n_trials if state is None else super().get_n_trials(study_id, state)

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        """The best trial, by number among equals; the base class returns the first reported."""
        return BaseStorage.get_best_trial(self, study_id)

    def _as_read(self, value: Any) -> Any:
        """A value to store, as it is read from a ledger; one that is not JSON is refused later."""
        if self._is_read_as_json:
            with suppress(TypeError, ValueError, AttributeError):
                return json.loads(json.dumps(value, default=lambda one: one.item()))  # of NumPy
        return value

    def _record(self, trial_id: int, key: str, value: Any) -> None:
        number = self.get_trial_number_from_id(trial_id)
        self._recorded.trials.setdefault(number, {})[key] = value  # type: ignore[attr-defined]
