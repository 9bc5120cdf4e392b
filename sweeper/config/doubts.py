"""What a study file may say, and hardly anybody means."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.config.study import N_PARAMETERS
from sweeper.config.study_config import StudyConfig
from sweeper.config.train import better


def doubts(config: StudyConfig) -> tuple[str, ...]:
    """What to say before a study begins; nothing of most."""
    return (*_directions(config), *_constraints(config))


def _directions(config: StudyConfig) -> Iterator[str]:
    """The study seeks the worst value of its metric."""
    own = {f"val_{name.rpartition(':')[2]}" for name in config.train.functions}
    for metric, direction in zip(config.study.objectives, config.study.directions, strict=True):
        best = "minimize" if metric == N_PARAMETERS else better(metric)
        if metric not in own and direction != best:
            yield f"the study is to {direction} {metric}, of which usually the other end is better"


def _constraints(config: StudyConfig) -> Iterator[str]:
    """The sampler learns from trials, and not from what bounds them."""
    if config.study.constraints and config.study.sampler.name == "cmaes":
        yield (
            "the sampler cmaes does not look at study.constraints, as tpe, gp and nsgaii do; "
            "the best trial is the best of those that keep them all the same"
        )
