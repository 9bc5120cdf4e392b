"""Constant and linear models of the prepared rows, to compare trials with.

They are scikit-learn's DummyClassifier (strategy "prior") and DummyRegressor, LogisticRegression
and Ridge with their default settings. They are fitted here, because importing scikit-learn takes a
study that trains several times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.data.dataset import Dataset

Predict = Callable[[NDArray[Any]], NDArray[Any]]
"""The outputs for some rows, of the shape and scale of a trial's: logits, or scaled numbers."""

# scikit-learn's defaults
_C, _ALPHA = 1.0, 1.0
_MAX_ITERATIONS, _TOLERANCE = 100, 1e-4
# the share that counts for a class without training rows
_LEAST_SHARE = 1e-12


def constant_model(data: Dataset, y: NDArray[Any]) -> Predict:
    """Predicts the shares of the classes in `y`, or its mean."""
    if data.class_names:
        shares = np.bincount(y, minlength=len(data.class_names)) / len(y)
        value = _as_outputs(data, np.log(np.maximum(shares, _LEAST_SHARE))[None])
    else:
        value = y.mean(axis=0, dtype=np.float64)[None]
    return lambda x: np.repeat(value, len(x), axis=0)


def linear_model(data: Dataset, x: NDArray[Any], y: NDArray[Any]) -> Predict:
    """A linear model, fitted to these rows: of logits, with the study's class weights, or ridge."""
    if data.class_names:
        return _logistic(data, np.asarray(x, np.float64), y)
    return _ridge(np.asarray(x, np.float64), np.asarray(y, np.float64))


def _as_outputs(data: Dataset, logits: NDArray[Any]) -> NDArray[Any]:
    """Logits as the outputs of a trial's model, which may be the log-odds of the second class."""
    return logits[:, 1:] - logits[:, :1] if data.one_logit else logits


def _ridge(x: NDArray[Any], y: NDArray[Any]) -> Predict:
    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
    x, y = x - x_mean, y - y_mean
    if x.shape[1] <= len(x):
        coefficients = np.linalg.solve(x.T @ x + _ALPHA * np.eye(x.shape[1]), x.T @ y)
    else:
        coefficients = x.T @ np.linalg.solve(x @ x.T + _ALPHA * np.eye(len(x)), y)
    offsets = y_mean - x_mean @ coefficients
    return lambda rows: rows @ coefficients.astype(rows.dtype) + offsets


def _logistic(data: Dataset, x: NDArray[Any], y: NDArray[Any]) -> Predict:
    there, places = np.unique(y, return_inverse=True)
    weights = np.asarray(data.class_weights or np.ones(len(data.class_names)))[y]
    slopes, offsets = _fit_logits(x, places, weights, len(there))

    def outputs(rows: NDArray[Any]) -> NDArray[Any]:
        # a class without training rows is as unlikely as in a constant model
        logits = np.full((len(rows), len(data.class_names)), np.log(_LEAST_SHARE))
        logits[:, there] = _normalized(rows @ slopes.astype(rows.dtype) + offsets)
        return _as_outputs(data, logits)

    return outputs


def _normalized(logits: NDArray[Any]) -> NDArray[Any]:
    """The logarithms of the probabilities."""
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _fit_logits(
    x: NDArray[Any], y: NDArray[Any], weights: NDArray[Any], n_classes: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The slopes and offsets of a logit for each class; for two classes, that of the first is 0.

    They minimise the weighted mean of the log loss, and a penalty on the slopes.
    """
    from scipy.optimize import minimize  # slow to import

    n_features, n_free = x.shape[1], n_classes if n_classes > 2 else n_classes - 1
    fixed = n_classes - n_free
    total = weights.sum()
    penalty = 1 / (_C * total)

    def unpacked(flat: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        free = np.reshape(flat, (n_features + 1, n_free))
        both = np.pad(free, ((0, 0), (fixed, 0)))
        return both[:-1], both[-1]

    def measure(flat: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        slopes, offsets = unpacked(flat)
        logs = _normalized(x @ slopes + offsets)
        loss = -(weights @ logs[np.arange(len(y)), y]) / total + penalty / 2 * np.sum(slopes**2)
        errors = np.exp(logs)
        errors[np.arange(len(y)), y] -= 1
        errors *= weights[:, None] / total
        gradient = np.vstack([x.T @ errors + penalty * slopes, errors.sum(axis=0)])
        return float(loss), gradient[:, fixed:].ravel()

    options = {
        "maxiter": _MAX_ITERATIONS,
        "maxls": 50,
        "gtol": _TOLERANCE,
        "ftol": 64 * np.finfo(np.float64).eps,
    }
    start = np.zeros((n_features + 1) * n_free)
    found = minimize(measure, start, jac=True, method="L-BFGS-B", options=options)
    return unpacked(found.x)
