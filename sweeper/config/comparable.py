"""Which predictions and values can be compared: between trials, or with bounds of a metric."""

from __future__ import annotations

from collections.abc import Mapping

from sweeper.config.alternating import AlternatingTable
from sweeper.config.kinds import is_function
from sweeper.config.study import N_PARAMETERS
from sweeper.config.study_config import StudyConfig
from sweeper.config.train import TASK_OF_LOSS, SupervisedTable, column_of

# the lowest and highest value of each metric
_RANGES: Mapping[str, tuple[float | None, float | None]] = {
    **dict.fromkeys(
        ("accuracy", "balanced_accuracy", "f1", "auroc", "average_precision"), (0.0, 1.0)
    ),
    **dict.fromkeys(("log_loss", "rmse", "mae", "mape"), (0.0, None)),
    "r2": (None, 1.0),
}


def not_averaged(config: StudyConfig) -> str:
    """Why the predictions of trials cannot be averaged to an ensemble; empty if they can."""
    train, (metric, *others) = config.train, config.study.objectives
    if not isinstance(train, SupervisedTable):
        return f'predictions of train.program = "{train.program}" cannot be averaged'
    if others:
        return "an ensemble is selected by one metric, and the study has several objectives"
    name = metric.removeprefix("val_")
    if metric == name or name not in {"loss", *map(column_of, train.metrics)}:
        return f"{metric} is not measured on validation rows, which select an ensemble"
    if name not in {"loss", *train.metrics}:
        return f"{metric} is user-defined, so means may have another meaning"
    if name == "loss" and config.entry("train.huber_delta") is not None:
        return "val_loss depends on train.huber_delta, which differs between trials"
    return not_comparable(config)


def not_comparable(config: StudyConfig) -> str:
    """Why simple models cannot be compared with the trials of a study; empty if they can."""
    train = config.train
    if not isinstance(train, SupervisedTable | AlternatingTable):
        return f'train.program = "{train.program}" has no target that they could predict'
    if is_function(train.loss):
        return f"the loss {train.loss} is user-defined, so outputs may mean anything"
    if config.data.split.train_on != "train":
        return "trials train on rows that they are measured on"
    if config.trial is not None:
        return "the study repeats one trial"
    return ""


def range_of(config: StudyConfig, reported: str) -> tuple[float | None, float | None]:
    """The lowest and highest value that a metric may have; None if unbounded."""
    name = reported.partition("_")[2]
    if reported == N_PARAMETERS:
        return 0.0, None
    if name == "loss":
        return (0.0 if config.train.loss in TASK_OF_LOSS else None), None
    return _RANGES.get(name, (None, None)) if name in config.train.metrics else (None, None)


def is_within(config: StudyConfig, metric: str, low: float | None, high: float | None) -> bool:
    """Whether all values that a metric may have are from `low` to `high`."""
    least, greatest = range_of(config, metric)
    is_low = low is None or (least is not None and low <= least)
    return is_low and (high is None or (greatest is not None and high >= greatest))
