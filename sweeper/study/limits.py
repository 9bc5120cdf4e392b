"""How many trials a study proposes, how many may fail, and what else may end it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sweeper.config import StudyConfig
from sweeper.study.grid import n_points

STOPPED = "sweeper:stopped"
"""Stored with Optuna's study once a user-defined sampler or pruner has called `study.stop`."""


def n_proposals(config: StudyConfig) -> int:
    """How many trials the study can have: `n_trials`, or the points of a smaller grid."""
    if config.study.sampler.name != "grid":
        return config.study.n_trials
    return min(config.study.n_trials, n_points(config))


def trial_numbers(config: StudyConfig) -> range:
    """The numbers of all trials that the study can have; a trial run again keeps its own."""
    first = 0 if config.trial is None else config.trial.number
    return range(first, first + n_proposals(config))


def outside(numbers: range) -> str:
    """What is wrong with a number that no trial can have."""
    if len(numbers) == 1:
        return f"the only trial is {numbers[0]}"
    return f"numbers go from {numbers[0]} to {numbers[-1]}"


def stopped_by(config: StudyConfig, stored: Mapping[str, Any]) -> str | None:
    """The user-defined sampler, or else pruner, that has called `study.stop`; None if none has.

    `stored` is what they have stored with the study.
    """
    if STOPPED not in stored:
        return None
    own = config.own_class("sampler") or config.own_class("pruner")
    return own and own[0]


def max_failures(config: StudyConfig) -> float:
    """How many trials may fail before the study ends; infinity if all may."""
    limit = config.execution.max_failures
    if limit is None:
        return math.inf
    if isinstance(limit, int):
        return limit
    # the product of the share as it is written: 0.29 of 100 is 29, and not 28.999999999999996
    return float(Decimal(repr(limit)) * n_proposals(config))
