"""Metrics that have no value on the rows that they are computed on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.config.train import column_of
from sweeper.data.dataset import Dataset
from sweeper.data.sizes import can_stratify
from sweeper.errors import DataError, Problem, counted, listed

_CLASSES_SHOWN = 5
# how many roundings of the mean target a standardized one may be from 0 and still count as 0
_ROUNDINGS = 8


def check_metrics(config: StudyConfig, data: Dataset) -> None:
    """Refuse metrics that cannot be computed on the validation rows of some fold.

    Studies of edition 1, and those that also train on validation rows, continue if the metrics that
    judge trials can be computed.

    Raises:
        DataError: with each metric, and the class that is missing or the target that is constant.
    """
    bounded = (constraint.metric for constraint in config.study.constraints)
    judges = {*config.study.objectives, *bounded}
    needs_all = config.edition > 1 and config.data.split.train_on == "train"
    found = {}
    for part, y in _validation_targets(data):
        for metric, reason in undefined_on(config, data, y, part):
            if needs_all or f"val_{column_of(metric)}" in judges:
                found.setdefault(metric, reason)
    tested = data.y_test[data.counting("test")]
    # a metric of test rows without a value is only missing, but this one would be huge
    if "mape" in config.train.built_in_metrics and (reason := _zero(data, tested, "the test part")):
        found.setdefault("mape", reason)
    if found:
        raise DataError(_problem(config, data, *one) for one in found.items())


def undefined_on(
    config: StudyConfig, data: Dataset, y: NDArray[Any], part: str
) -> Iterator[tuple[str, str]]:
    """Metrics of the study that have no value on the rows with these targets, and why."""
    reasons = {
        "auroc": _one_class,
        "average_precision": _one_class,
        "r2": _constant,
        "mape": _zero,
    }
    for metric in config.train.built_in_metrics:
        if metric in reasons and (reason := reasons[metric](data, y, part)):
            yield metric, reason


def _validation_targets(data: Dataset) -> Iterator[tuple[str, NDArray[Any]]]:
    if not data.n_folds:
        yield "the validation part", data.y_val[data.counting("val")]
    for fold in range(data.n_folds):
        name = f"the validation part of fold {fold + 1} of {data.n_folds}"
        yield name, data.y_train[(data.fold_of == fold) & data.counting("train")]


def _one_class(data: Dataset, y: NDArray[Any], part: str) -> str | None:
    there = np.unique(y)
    if len(there) > 1:
        return None
    missing = [repr(name) for place, name in enumerate(data.class_names) if place not in there]
    more = f" and {len(missing) - _CLASSES_SHOWN} more" if len(missing) > _CLASSES_SHOWN else ""
    return f"{part} has no row of class {listed(missing[:_CLASSES_SHOWN], 'or')}{more}"


def _constant(data: Dataset, y: NDArray[Any], part: str) -> str | None:
    names = [column.name for column in data.columns if column.role == "target"]
    for place in np.flatnonzero((y == y[:1]).all(axis=0)).tolist():
        value = data.targets_in_unit(y[:1].astype(np.float64))[0, place]
        what = f"target '{names[place]}'" if place < len(names) else "the target"
        return f"{what} is {value:g} in every row of {part}"
    return None


def _zero(data: Dataset, y: NDArray[Any], part: str) -> str | None:
    units = np.abs(data.targets_in_unit(y.astype(np.float64)))
    rounding = np.finfo(y.dtype)
    # a target less its mean is rounded as the mean is; a rounded logarithm only changes by a share
    means = 0.0 if data.y_transform == "log" else np.abs(data.y_mean)
    limits = np.maximum(_ROUNDINGS * rounding.eps * means, rounding.tiny)
    n_rows = int((units <= limits).any(axis=1).sum())
    found = f"0, or too close to 0 for {y.dtype}," if np.any(means) else "0"
    return f"a target is {found} in {counted(n_rows, 'row')} of {part}" if n_rows else None


def _problem(config: StudyConfig, data: Dataset, metric: str, reason: str) -> Problem:
    found = f"{metric} cannot be computed: {reason}"
    if metric == "mape":
        hint = "write mae instead, or remove mape"
        if config.execution.precision != "float64" and config.data.standardizes_targets:
            hint = f'{hint}; if no target is 0, write execution.precision = "float64" instead'
        return config.problem("train.metrics", found, hint)
    fix = _other_split(config, data)
    return config.problem("train.metrics", found, f"{fix}, or remove {metric}")


def _other_split(config: StudyConfig, data: Dataset) -> str:
    """How to get other validation rows."""
    split = config.data.split
    if split.column is not None and config.study.folds is None:
        given = f"mark other rows as val in column '{split.column}'"
        return f"{given} or, if it marks none, write another data.split.seed"
    ways = ["fewer study.folds" if config.study.folds else "a larger data.split.val"]
    if split.time is None:
        ways.insert(0, "another data.split.seed")
    if can_stratify(config, data.rows_of_classes(split.train_on).values()):
        ways.insert(0, "data.split.stratify = true")
    return f"write {listed(ways, 'or')}"
