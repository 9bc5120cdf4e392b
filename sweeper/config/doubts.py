"""What a study file may say, and hardly anybody means."""

from __future__ import annotations

from sweeper.config.study import N_PARAMETERS
from sweeper.config.study_config import StudyConfig
from sweeper.config.train import better


def doubtful_direction(config: StudyConfig) -> str | None:
    """What to say where the study seeks the worst value of its metric; None where it does not."""
    own = {f"val_{name.rpartition(':')[2]}" for name in config.train.functions}
    for metric, direction in zip(config.study.objectives, config.study.directions, strict=True):
        best = "minimize" if metric == N_PARAMETERS else better(metric)
        if metric not in own and direction != best:
            return f"the study is to {direction} {metric}, of which usually the other end is better"
    return None
