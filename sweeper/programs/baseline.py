"""Measures simple models by the losses and metrics of a study, to compare its trials with."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.config.alternating import DATA, AlternatingTable
from sweeper.config.comparable import not_comparable
from sweeper.config.kinds import is_function
from sweeper.data.dataset import Dataset
from sweeper.data.simple_models import Predict, Weights, constant_model, linear_model
from sweeper.programs.data_spec import data_spec
from sweeper.programs.jackknife import GROUPS, grouped_rows, jackknife_error, kept_rows
from sweeper.programs.losses import HUBER_DELTA, criterion_of
from sweeper.programs.metrics import metric_of
from sweeper.programs.program import Hparams
from sweeper.results.baseline import Baseline, SimpleModel
from sweeper.trial import finite

_Rows = tuple[NDArray[Any], NDArray[Any], Weights]

Metrics = Callable[..., dict[str, Any]]
"""Values by column, of outputs, targets and perhaps weights of rows."""

# limits that keep fitting the linear model to a few seconds, whatever the data
_MOST_ROWS, _MOST_NUMBERS, _LEAST_ROWS = 100_000, 10_000_000, 1_000


def measure_baseline(config: StudyConfig, data: Dataset) -> Baseline:
    """The simple models of a study, or why there are none; their errors are never raised.

    With folds, models are fitted to the training part of each, and values are means over the folds,
    like those of a trial.
    """
    if skipped := not_comparable(config):
        return Baseline(data.digest, skipped=skipped)
    try:
        return _measure_models(config, data)
    except Exception as error:  # any error of a library: the study goes on without
        return Baseline(data.digest, skipped=f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class _Fold:
    """The rows to fit to, and the rows to measure by the name of their part."""

    train: _Rows
    measured: Mapping[str, _Rows]


@dataclass(frozen=True, slots=True)
class _Scored:
    """The metrics of a simple model in one fold, and their standard errors."""

    values: Mapping[str, float]
    errors: Mapping[str, float]


def _measure_models(config: StudyConfig, data: Dataset) -> Baseline:
    folds, most = max(1, data.n_folds), _most_rows_to_fit(data)
    metrics = _in_one_size(scoring(config, data), data)
    constant: list[_Scored] = []
    linear: list[_Scored] = []
    for fold in range(folds):
        fold_data = _fold(data, fold)
        x, y, weights = fold_data.train
        scored = _scored(constant_model(data, y, weights), fold_data, metrics)
        if data.y_transform != "none":
            of_loss = constant_model(data, y, weights, in_units=False)
            losses = [
                f"{part}_{name}" for part in fold_data.measured for name, _, _ in _losses(config)
            ]
            scored = _with_those_of(_scored(of_loss, fold_data, metrics), scored, losses)
        constant.append(scored)
        if most:
            chosen = _sample(config, len(x), most)
            sample = x[chosen], y[chosen], _of(weights, chosen)
            linear.append(_scored(linear_model(data, *sample), fold_data, metrics))
    names = ("majority class", "logistic regression") if data.class_names else ("mean", "ridge")
    models = [_model(names[0], constant, is_linear=False)]
    if linear:
        models.append(_model(names[1], linear, is_linear=True))
    few = f"{data.n_features} features are too many for a linear model that takes a few seconds"
    rows = min(most, data.train_rows)
    return Baseline(data.digest, rows, tuple(models), "" if linear else few)


def _most_rows_to_fit(data: Dataset) -> int:
    """The most training rows of a fold to fit a linear model to; 0 if it is too large."""
    n_logits = len(data.class_names) if len(data.class_names) > 2 else 1
    numbers = data.n_features * n_logits * max(1, data.n_folds)
    most = min(_MOST_ROWS, _MOST_NUMBERS // max(1, numbers))
    largest = max(train for train, _ in data.rows_of_folds)
    return most if most >= min(largest, _LEAST_ROWS) else 0


def _sample(config: StudyConfig, n_rows: int, most: int) -> NDArray[np.intp] | slice:
    if n_rows <= most:
        return slice(None)
    draw = np.random.default_rng(config.study.seed)
    return np.sort(draw.choice(n_rows, most, replace=False))


def _of(weights: Weights, rows: Any) -> Weights:
    """The weights at these rows; None if rows have none."""
    return None if weights is None else weights[rows]


def _fold(data: Dataset, fold: int) -> _Fold:
    train = data.x_train, data.y_train, data.weights("train")
    test = data.x_test, data.y_test, data.weights("test")
    tests = {"test": test} if len(data.x_test) else {}
    if not data.n_folds:
        return _Fold(train, {"val": (data.x_val, data.y_val, data.weights("val")), **tests})
    scale, shift = data.fold_scale[fold], data.fold_shift[fold]
    of_fold = data.fold_of == fold

    def scaled(rows: _Rows, chosen: Any = slice(None)) -> _Rows:
        x, y, weights = rows
        return x[chosen] * scale + shift, y[chosen], _of(weights, chosen)

    return _Fold(
        scaled(train, ~of_fold),
        {"val": scaled(train, of_fold), **{part: scaled(rows) for part, rows in tests.items()}},
    )


def scoring(config: StudyConfig, data: Dataset) -> Metrics:
    """The losses and metrics of a study by the names of their columns, as one compiled function."""
    settings, spec = config.settings_of({}), data_spec(config, data)
    # the code of a user-defined metric only runs where trials are trained
    built_in = config.train.built_in_metrics
    metrics = {name: metric_of(name, settings, spec) for name in built_in}
    losses = [
        (name, criterion_of(kind, settings, spec), hparams)
        for name, kind, hparams in _losses(config)
    ]

    def scores(outputs: Any, y: Any, weights: Any = None) -> dict[str, Any]:
        found = {name: metric(outputs, y, weights) for name, metric in metrics.items()}
        for name, criterion, hparams in losses:
            minimised = criterion.minimised(outputs, y, hparams, weights)
            found[name] = criterion.reported(minimised, outputs, y, hparams, weights)
        return found

    return jax.jit(scores)


def _in_one_size(metrics: Metrics, data: Dataset) -> Metrics:
    """`metrics`, compiled once for all parts and folds: rows are added that weigh nothing."""
    most = max(len(data.x_val), len(data.x_test), *np.bincount(data.fold_of))

    def scored(outputs: Any, y: Any, weights: Any = None) -> dict[str, Any]:
        own = np.ones(len(y), outputs.dtype) if weights is None else weights
        repeated = (np.resize(rows, (most, *rows.shape[1:])) for rows in (outputs, y))
        return metrics(*repeated, np.pad(own, (0, most - len(y))))

    return scored


def _losses(config: StudyConfig) -> Iterator[tuple[str, str, Hparams]]:
    """The losses against the data by column, with the hyperparameters that they use.

    A loss whose hyperparameter is searched differs between trials, so it is left out.
    """
    train = config.train
    if isinstance(train, AlternatingTable):
        for name, loss in train.by_loss.items():
            if loss.against == DATA and not is_function(loss.kind):
                yield f"loss_{name}", loss.kind, {}
    elif config.entry(HUBER_DELTA) is None:
        delta = config.written(HUBER_DELTA)
        yield "loss", train.loss, {} if delta is None else {HUBER_DELTA: np.asarray(delta)}


def _scored(predict: Predict, fold: _Fold, metrics: Metrics) -> _Scored:
    """The value of each metric on each measured part, such as `val_accuracy`, and its error."""
    values: dict[str, float] = {}
    errors: dict[str, float] = {}
    for part, (x, y, weights) in fold.measured.items():
        outputs = predict(x).astype(x.dtype)
        own = metrics(outputs, y, weights)
        values |= {f"{part}_{name}": float(value) for name, value in own.items()}
        known = _standard_errors(outputs, y, weights, metrics)
        errors |= {f"{part}_{name}": error for name, error in known.items()}
    return _Scored(values, errors)


def _with_those_of(other: _Scored, scored: _Scored, names: Collection[str]) -> _Scored:
    """The metrics of `scored`, and those in `names` of another model."""

    def merged(own: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
        return {**own, **{name: theirs[name] for name in names if name in theirs}}

    return _Scored(merged(scored.values, other.values), merged(scored.errors, other.errors))


def _standard_errors(
    outputs: NDArray[Any],
    y: NDArray[Any],
    weights: Weights,
    metrics: Metrics,
) -> dict[str, float]:
    """The standard error of each metric, by the delete-a-group jackknife; none for many rows."""
    groups = min(GROUPS, len(y))
    if groups < 2 or grouped_rows(len(y), groups) > _MOST_ROWS:
        return {}
    kept = kept_rows(len(y), groups)
    found = [metrics(outputs[rows], y[rows], _of(weights, rows)) for rows in kept]
    return {name: jackknife_error([float(one[name]) for one in found]) for name in found[0]}


def _model(name: str, folds: Sequence[_Scored], *, is_linear: bool) -> SimpleModel:
    return SimpleModel(
        name,
        is_linear,
        _means([one.values for one in folds]),
        _means([one.errors for one in folds]),
    )


def _means(folds: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    """The mean of each number over the folds; None if it is not finite."""
    shared = [name for name in folds[0] if all(name in one for one in folds)]
    means = {name: math.fsum(one[name] for one in folds) / len(folds) for name in shared}
    return {name: finite(mean) for name, mean in means.items()}
