"""Samplers and pruners by name, as Optuna has them."""

from __future__ import annotations

from collections.abc import Callable

import optuna
from optuna.samplers import BaseSampler

from sweeper.config import StudyConfig
from sweeper.study.options import asha_options

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


def sampler(config: StudyConfig) -> BaseSampler:
    """The sampler of a study."""
    chosen = config.study.sampler
    return _SAMPLERS[chosen.name](**chosen.options)


def pruner(config: StudyConfig) -> optuna.pruners.BasePruner:
    """The pruner of a study."""
    chosen = config.study.pruner
    options = asha_options(config) if chosen.name == "asha" else chosen.options
    return _PRUNERS[chosen.name](**options)
