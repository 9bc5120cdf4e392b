"""The epochs after which pruners judge trials, computed without Optuna."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from sweeper.config import StudyConfig
from sweeper.study.options import given_options, pruner_chain


def rungs_of(config: StudyConfig) -> tuple[int, ...]:
    """The rungs of the study's pruner before the last epoch; empty if it has none."""
    # the innermost pruner decides
    *_, (name, options) = pruner_chain(config.study.pruner.name, config.study.pruner.options)
    if name not in ("halving", "asha", "hyperband"):
        return ()
    given = given_options(config, name, options)
    every = rungs(first_rung(given), given["reduction_factor"])
    return tuple(takewhile(lambda rung: rung < config.max_epochs, every))


def first_rung(options: Mapping[str, Any]) -> int:
    """The first epoch at which successive halving with these options, all given, judges trials."""
    factor, delay = options["reduction_factor"], options.get("min_early_stopping_rate", 0)
    return options["min_resource"] * factor**delay


def rungs(first: int, factor: int) -> Iterator[int]:
    """Epochs at which successive halving judges trials, each `factor` times the one before."""
    rung = first
    while True:
        yield rung
        rung *= factor


def is_rung(epoch: int, first: int, factor: int) -> bool:
    """Whether successive halving judges trials after an epoch."""
    return next(rung for rung in rungs(first, factor) if rung >= epoch) == epoch


def is_at_interval(epoch: int, n_warmup_steps: int, interval_steps: int) -> bool:
    """Whether `median`, `percentile` and `threshold` judge trials after an epoch.

    They judge after `n_warmup_steps`, then every `interval_steps`, and without a warm-up also after
    epoch 1.
    """
    after = epoch - n_warmup_steps
    return after >= 0 and (epoch == 1 or after % interval_steps == 0)
