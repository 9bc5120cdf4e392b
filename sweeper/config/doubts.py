"""What a study file may say, and hardly anybody means."""

from __future__ import annotations

from sweeper.config.study_config import StudyConfig
from sweeper.config.train import better


def doubtful_direction(config: StudyConfig) -> str | None:
    """What to say where the study seeks the worst value of its metric; None where it does not."""
    metric, direction = config.study.metric, config.study.direction
    own = {f"val_{name.rpartition(':')[2]}" for name in config.train.functions}
    if metric in own or direction == better(metric):
        return None
    return f"the study is to {direction} {metric}, of which usually the other end is better"
