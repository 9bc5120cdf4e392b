"""Optuna's quasi-random sampler, whose proposals take no longer the more trials there are."""

from __future__ import annotations

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import QMCSampler
from optuna.trial import FrozenTrial, TrialState


class SteadyQMCSampler(QMCSampler):
    """Proposes what Optuna's does for a study all of whose trials have the same parameters.

    Optuna's looks through all trials each time, for the space of the first that counts. Here any
    that counts will do, and one is remembered while it does.
    """

    _example: int | None = None

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        storage = study._storage
        if self._example is None or not _counts(storage.get_trial(self._example)):
            everyone = storage.get_all_trials(study._study_id, deepcopy=False)
            before = (one for one in everyone[: trial.number] if _counts(one))
            self._example = next((one._trial_id for one in before), None)
        if self._example is None:
            return super().infer_relative_search_space(study, trial)
        return dict(storage.get_trial(self._example).distributions)


def _counts(trial: FrozenTrial) -> bool:
    return trial.state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
