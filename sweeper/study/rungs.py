"""The epochs after which pruners judge trials; pure, without Optuna."""

from __future__ import annotations

from sweeper.config import StudyConfig
from sweeper.study.options import given_options, pruner_chain


def rungs_of(config: StudyConfig) -> tuple[int, ...]:
    """The epochs before the last at which the pruner decides; empty if it may at any."""
    # the innermost pruner decides
    *_, (name, options) = pruner_chain(config.study.pruner.name, config.study.pruner.options)
    if name not in ("halving", "asha", "hyperband"):
        return ()
    given = given_options(config, name, options)
    factor = given["reduction_factor"]
    rung = given["min_resource"] * factor ** given.get("min_early_stopping_rate", 0)
    found: list[int] = []
    while rung < config.max_epochs:
        found.append(rung)
        rung *= factor
    return tuple(found)
