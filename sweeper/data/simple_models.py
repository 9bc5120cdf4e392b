"""Constant and linear models and boosted trees of the prepared rows, to compare trials with.

All except the constant ones are scikit-learn's. It takes most of a second to import, so it is
imported where they are fitted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sweeper.data.dataset import Dataset
from sweeper.data.target import transformed

Predict = Callable[[NDArray[Any]], NDArray[Any]]
"""The outputs for some rows, of the shape and scale of a trial's: logits, or scaled numbers."""

Weights = NDArray[Any] | None
"""Those of rows; None if all count equally."""

_MAX_ITERATIONS = 1000
# the share that counts for a class without training rows
_LEAST_SHARE = 1e-12
# how scikit-learn begins a warning, where rows of a class are few
_MANY_CLASSES = "The number of unique classes"
_SCIKIT_LEARN = r"sklearn\."  # its modules


def constant_model(
    data: Dataset, y: NDArray[Any], weights: Weights = None, *, in_units: bool = True
) -> Predict:
    """Predicts the shares of the classes in `y`, or its mean, with these weights of its rows.

    Metrics are measured in the unit of the data, so they are compared with the mean there; a loss
    is compared with the mean of the transformed targets, if not `in_units`.
    """
    if data.class_names:
        counts = np.bincount(y, weights, minlength=len(data.class_names))
        total = len(y) if weights is None else counts.sum()
        value = as_outputs(data, np.log(np.maximum(counts / total, _LEAST_SHARE))[None])
    elif data.y_transform == "none" or not in_units:
        value = _mean(y, weights)
    else:
        mean = _mean(data.targets_in_unit(np.asarray(y, np.float64)), weights)
        value = (transformed(mean, data.y_transform) - data.y_mean) / data.y_scale
    return lambda x: np.repeat(value, len(x), axis=0)


def _mean(y: NDArray[Any], weights: Weights) -> NDArray[np.float64]:
    """The mean of each target, shaped (1, targets)."""
    if weights is None:
        return y.mean(axis=0, dtype=np.float64)[None]
    return np.average(np.asarray(y, np.float64), axis=0, weights=weights)[None]


def linear_model(
    data: Dataset, x: NDArray[Any], y: NDArray[Any], weights: Weights = None
) -> Predict:
    """A linear model, fitted to these rows: of logits, with the study's class weights, or ridge."""
    x = np.asarray(x, np.float64)
    if weights is not None:  # a class of which no row counts does not occur
        x, y, weights = x[weights > 0], y[weights > 0], weights[weights > 0]
    return _logistic(data, x, y, weights) if data.class_names else _ridge(x, y, weights)


def boosted_trees(data: Dataset, seed: int) -> Predict | None:
    """HistGradientBoosting with its defaults, fitted to the training rows; for one target.

    None if the rows are of a single class, or if scikit-learn cannot fit it: it sets aside some of
    more than 10,000 rows to stop early, for which a class may have too few.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if data.class_names else HistGradientBoostingRegressor
    trees: Any = kind(random_state=seed)

    def outputs(rows: NDArray[Any]) -> NDArray[Any]:
        with _one_thread():
            if not data.class_names:
                return trees.predict(rows)[:, None]
            shares = np.zeros((len(rows), len(data.class_names)))
            shares[:, trees.classes_] = trees.predict_proba(rows)
        return as_outputs(data, np.log(np.maximum(shares, _LEAST_SHARE)))

    with _one_thread(), _without_warnings():
        try:
            trees.fit(data.x_train, np.ravel(data.y_train), data.weights("train"))
        except ValueError:
            return None
    is_one_class = bool(data.class_names) and len(trees.classes_) == 1
    return None if is_one_class else outputs


def _one_thread() -> AbstractContextManager[Any]:
    """Keeps scikit-learn's loops to one thread.

    Threads of OpenMP wait for each other busily, which takes minutes where others use the cores.
    The limit is that of the calling thread, so two threads may set it at a time.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="openmp")


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Hides what scikit-learn says about few rows of a class, or a fit that has not converged.

    `catch_warnings` would undo what other threads do to the filters meanwhile.
    """
    from sklearn.exceptions import ConvergenceWarning

    warnings.filterwarnings("ignore", _MANY_CLASSES, UserWarning)
    warnings.filterwarnings("ignore", category=ConvergenceWarning, module=_SCIKIT_LEARN)
    try:
        yield
    finally:
        filters = cast("list[Any]", warnings.filters)
        for own in (
            ("ignore", re.compile(_MANY_CLASSES, re.IGNORECASE), UserWarning, None, 0),
            ("ignore", None, ConvergenceWarning, re.compile(_SCIKIT_LEARN), 0),
        ):
            with suppress(ValueError):  # another thread has restored its filters
                filters.remove(own)


def as_outputs(data: Dataset, logits: NDArray[Any]) -> NDArray[Any]:
    """Logits as the outputs of a trial's model, which may be the log-odds of the second class."""
    return logits[..., 1:] - logits[..., :1] if data.one_logit else logits


def _ridge(x: NDArray[Any], y: NDArray[Any], weights: Weights) -> Predict:
    from sklearn.linear_model import Ridge

    fitted = Ridge().fit(x, np.asarray(y, np.float64), weights)
    # for one target, it returns no axis of targets
    return lambda rows: fitted.predict(rows).reshape(len(rows), *y.shape[1:])


def _logistic(data: Dataset, x: NDArray[Any], y: NDArray[Any], weights: Weights) -> Predict:
    from scipy.special import log_softmax
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(y)) == 1:
        return constant_model(data, y, weights)
    of_rows = np.asarray(data.class_weights or np.ones(len(data.class_names)))[y]
    of_rows = of_rows if weights is None else of_rows * weights
    with _without_warnings():
        fitted = LogisticRegression(max_iter=_MAX_ITERATIONS).fit(x, y, sample_weight=of_rows)

    def outputs(rows: NDArray[Any]) -> NDArray[Any]:
        found = fitted.decision_function(rows)
        scores = np.stack([np.zeros_like(found), found], axis=1) if found.ndim == 1 else found
        # a class without training rows is as unlikely as in a constant model
        logits = np.full((len(rows), len(data.class_names)), np.log(_LEAST_SHARE))
        logits[:, fitted.classes_] = log_softmax(scores, axis=1)
        return as_outputs(data, logits)

    return outputs
