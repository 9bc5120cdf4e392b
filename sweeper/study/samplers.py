"""Samplers and pruners by name: Optuna's, and user-defined ones.

The quasi-random sampler is Optuna's without its search through all earlier trials, so that a
proposal does not take longer with more trials.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler, QMCSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeper.config import StudyConfig
from sweeper.config.kinds import is_function
from sweeper.study.cohorts import CohortHyperbandPruner, HalvingPruner, PercentilePruner
from sweeper.study.options import given_options, without_name
from sweeper.study.private_apis import generation_attribute
from sweeper.study.user_sampler import (
    create_user_class,
    seed_argument,
    without_experimental_warnings,
)


class SteadyQMCSampler(QMCSampler):
    """Proposes the same as Optuna's if all trials of the study have the same parameters.

    Optuna's searches all trials each time for the space of the first suitable one. Here any
    suitable trial is used, and remembered while it stays suitable.
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


# Optuna draws a setting with one value before the others, and then warns about conditions
logging.getLogger("optuna.samplers._qmc").setLevel(logging.ERROR)

_SILENT = {"warn_independent_sampling": False}

_SAMPLERS: dict[str, Callable[..., BaseSampler]] = {
    "tpe": optuna.samplers.TPESampler,
    "random": optuna.samplers.RandomSampler,
    "grid": optuna.samplers.RandomSampler,  # every parameter is enqueued, so it never draws
    "qmc": SteadyQMCSampler,
    "gp": optuna.samplers.GPSampler,
    "cmaes": optuna.samplers.CmaEsSampler,
    "nsgaii": optuna.samplers.NSGAIISampler,
}
_PRUNERS: dict[str, Callable[..., BasePruner]] = {
    "none": optuna.pruners.NopPruner,
    "halving": HalvingPruner,
    "median": optuna.pruners.MedianPruner,
    "percentile": optuna.pruners.PercentilePruner,
    "asha": optuna.pruners.SuccessiveHalvingPruner,
    "hyperband": optuna.pruners.HyperbandPruner,
    "threshold": optuna.pruners.ThresholdPruner,
    "wilcoxon": optuna.pruners.WilcoxonPruner,
}
# since edition 3
_COHORT_PRUNERS: dict[str, Callable[..., BasePruner]] = {
    "median": PercentilePruner,
    "percentile": PercentilePruner,
    "hyperband": CohortHyperbandPruner,
}
_FIXED: dict[str, dict[str, Any]] = {
    "qmc": {**_SILENT, "warn_asynchronous_seeding": False},
    "gp": _SILENT,
    "cmaes": _SILENT,
}


@without_experimental_warnings()
def sampler(config: StudyConfig, learned: Sequence[FrozenTrial] = ()) -> BaseSampler:
    """The sampler of the study; CMA-ES starts from the `learned` trials of earlier ones."""
    chosen = config.study.sampler
    if is_function(chosen.name):
        return create_user_class(config, chosen.name, chosen.options)
    made = _SAMPLERS[chosen.name]
    # Optuna warns if it chooses by itself to draw groups together
    joint = {"multivariate": True} if chosen.options.get("group") else {}
    # generators are reseeded anyway; a scrambled sequence depends on the seed itself
    given = {
        **chosen.options,
        **joint,
        **_FIXED.get(chosen.name, {}),
        **seed_argument(config, made),
    }
    if chosen.name == "cmaes" and learned:
        given["source_trials"] = [_of_cmaes(trial) for trial in learned]
    return made(**given)


def _of_cmaes(trial: FrozenTrial) -> FrozenTrial:
    """The trial with only those parameters that CMA-ES draws."""
    kept: dict[str, BaseDistribution] = {
        name: distribution
        for name, distribution in trial.distributions.items()
        if isinstance(distribution, FloatDistribution | IntDistribution)
        and not distribution.single()
    }
    params = {name: trial.params[name] for name in kept}
    return create_trial(state=trial.state, values=trial.values, params=params, distributions=kept)


def of_first_generation(config: StudyConfig) -> dict[str, int]:
    """The attributes with which NSGA-II counts a trial to its first generation."""
    if config.study.sampler.name != "nsgaii":
        return {}
    return {generation_attribute(): 0}


def is_recreated(config: StudyConfig) -> bool:
    """Whether the sampler keeps state that a resume would not have, so is created for each trial.

    `gp` keeps its last fits, and user-defined samplers may keep anything. With hyperband, samplers
    once learnt from the trials of a bracket alone; studies keep their proposals.
    """
    name = config.study.sampler.name
    return name == "gp" or is_function(name) or config.study.pruner.name == "hyperband"


@without_experimental_warnings()
def pruner(config: StudyConfig) -> BasePruner:
    """The pruner of the study."""
    chosen = config.study.pruner
    return _pruner(config, chosen.name, chosen.options)


def _pruner(config: StudyConfig, name: str, options: Mapping[str, Any]) -> BasePruner:
    if is_function(name):
        return create_user_class(config, name, options)
    given = given_options(config, name, options)
    if name == "patient":
        inner = given.pop("wrapped", None)
        wrapped = inner and _pruner(config, inner["name"], without_name(inner))
        return optuna.pruners.PatientPruner(wrapped, **given)
    pruners = _PRUNERS | (_COHORT_PRUNERS if config.edition >= 3 else {})
    return pruners[name](**given)
