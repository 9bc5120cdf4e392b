"""The values that a metric may have, to find bounds that no value or every value meets."""

from __future__ import annotations

from collections.abc import Mapping

from sweeper.config.study import N_PARAMETERS
from sweeper.config.study_config import StudyConfig
from sweeper.config.train import TASK_OF_LOSS

# the lowest and highest value of each metric
_RANGES: Mapping[str, tuple[float | None, float | None]] = {
    **dict.fromkeys(
        ("accuracy", "balanced_accuracy", "f1", "auroc", "average_precision"), (0.0, 1.0)
    ),
    **dict.fromkeys(("log_loss", "rmse", "mae", "mape"), (0.0, None)),
    "r2": (None, 1.0),
}


def range_of(config: StudyConfig, reported: str) -> tuple[float | None, float | None]:
    """The lowest and highest value that a metric may have; None if unbounded."""
    name = reported.partition("_")[2]
    if reported == N_PARAMETERS:
        return 0.0, None
    if name == "loss":
        return (0.0 if config.train.loss in TASK_OF_LOSS else None), None
    is_built_in = name in config.train.built_in_metrics
    return _RANGES.get(name, (None, None)) if is_built_in else (None, None)


def is_within(config: StudyConfig, metric: str, low: float | None, high: float | None) -> bool:
    """Whether all values that a metric may have are from `low` to `high`."""
    least, greatest = range_of(config, metric)
    is_low = low is None or (least is not None and low <= least)
    return is_low and (high is None or (greatest is not None and high >= greatest))
