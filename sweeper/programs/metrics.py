"""Metrics of a split, in the data's own units; each is compiled into the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sweeper.config import Settings
from sweeper.config.user_code import load_function
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.losses import (
    Outputs,
    Weights,
    absolute_errors,
    binary_cross_entropies,
    cross_entropies,
    mean_of,
    weighted_mean,
)
from sweeper.programs.program import AnyArray


class Metric(Protocol):
    """A metric of the rows of a split, which may have weights."""

    def __call__(
        self, outputs: Outputs, y: AnyArray, weights: Weights | None = None, /
    ) -> Float[Array, ""]: ...


def metric_of(name: str, settings: Settings, data: DataSpec) -> Metric:
    """The metric with this name, of outputs and targets as a model is trained on them.

    A user-defined one gets both in the data's own units.
    """
    if name not in METRICS:
        metric = _user_defined(name, settings)
        return metric if settings.train.target == "classes" else _in_unit(metric, data)
    metric = _metrics_of(settings.edition)[name]
    if data.y_transform != "none" or name == "mape":  # a share of the target, including its mean
        return _in_unit(metric, data)
    if name not in _IN_UNITS:
        return metric
    units = np.asarray(data.y_scale, data.dtype)
    return lambda outputs, y, weights=None: metric(outputs * units, y * units, weights)


def _user_defined(name: str, settings: Settings) -> Metric:
    function: Callable[..., Any] = load_function(name, settings.base_dir)

    def metric(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
        if weights is not None:
            raise TypeError(f"the user-defined metric '{name}' gets no weights")
        return function(outputs, y)

    return metric


def _in_unit(metric: Metric, data: DataSpec) -> Metric:
    return lambda outputs, y, weights=None: metric(
        data.in_unit(outputs, jnp), data.in_unit(y, jnp), weights
    )


def _of_finite_chances(metric: Metric) -> Metric:
    """`metric`, or NaN if a model has no class probabilities for an example that counts.

    Its outputs are then NaN or infinite, which would otherwise count as predictions of a class.
    """

    @wraps(metric)
    def guarded(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
        # softmax is NaN if the highest logit is infinite, but not if only others are
        highest = jnp.max(outputs, axis=-1)
        is_bad = jnp.isnan(highest) if outputs.shape[-1] == 1 else ~jnp.isfinite(highest)
        if weights is not None:
            is_bad &= jnp.asarray(weights) > 0
        return jnp.where(jnp.any(is_bad), jnp.nan, metric(outputs, y, weights))

    return guarded


def _at_most_1(metric: Metric) -> Metric:
    """`metric` without what rounding adds above 1, such as in sums of weights in two orders."""

    @wraps(metric)
    def bounded(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
        return jnp.minimum(metric(outputs, y, weights), 1)

    return bounded


def accuracy(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
    """Share of examples whose most likely class is the class index `y` (batch,).

    It is exactly 1 if all are right: XLA divides by n by multiplying by a rounded 1 / n.
    """
    is_right = _predicted(outputs) == y
    counts = jnp.full(len(is_right), True) if weights is None else jnp.asarray(weights) > 0
    is_exact = jnp.all(is_right | ~counts) & jnp.any(counts)
    return jnp.where(is_exact, 1, _at_most_1(rounded_accuracy)(outputs, y, weights))


def rounded_accuracy(
    outputs: Outputs, y: AnyArray, weights: Weights | None = None
) -> Float[Array, ""]:
    """The same, but perhaps a rounding error away from 1 if all are right."""
    is_right = _predicted(outputs) == y
    if weights is None:
        return jnp.mean(is_right, dtype=outputs.dtype)
    return weighted_mean(is_right.astype(outputs.dtype), weights)


def balanced_accuracy(
    outputs: Outputs, y: AnyArray, weights: Weights | None = None
) -> Float[Array, ""]:
    """Share of each class's examples that are predicted as it, averaged over classes that occur."""
    n_classes = max(2, outputs.shape[-1])
    true = jax.nn.one_hot(y, n_classes, dtype=outputs.dtype)
    is_right = (_predicted(outputs) == y).astype(outputs.dtype)
    counts = jnp.ones_like(is_right) if weights is None else weights
    of_class, right = counts @ true, (counts * is_right) @ true
    occurs = of_class > 0
    recalls = jnp.where(occurs, right / jnp.where(occurs, of_class, 1), 0)
    return jnp.sum(recalls) / jnp.sum(occurs, dtype=outputs.dtype)


def f1(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
    """Harmonic mean of precision and recall, averaged over classes that occur or are predicted."""
    n_classes = max(2, outputs.shape[-1])
    said = jax.nn.one_hot(_predicted(outputs), n_classes, dtype=outputs.dtype)
    true = jax.nn.one_hot(y, n_classes, dtype=outputs.dtype)
    if weights is None:
        both, either = jnp.sum(said * true, axis=0), jnp.sum(said + true, axis=0)
        scores = jnp.where(either > 0, 2 * both / jnp.maximum(either, 1), 0)
    else:
        both, either = weights @ (said * true), weights @ (said + true)
        scores = jnp.where(either > 0, 2 * both / jnp.where(either > 0, either, 1), 0)
    return jnp.sum(scores) / jnp.sum(either > 0, dtype=outputs.dtype)


def auroc(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
    """Probability that an example of a class ranks above one of another; ties count half.

    With several classes, each is ranked against the others by its probability, and the mean is over
    the classes that occur. NaN if fewer than two occur.
    """

    def area(scores: Float[Array, " batch"], positive: Bool[Array, " batch"]) -> Array:
        if weights is None:
            return _above(scores, positive)
        return _above_by_weight(scores, positive, weights)

    return _of_each_class(area, outputs, y)


def average_precision(
    outputs: Outputs, y: AnyArray, weights: Weights | None = None
) -> Float[Array, ""]:
    """Mean precision over the thresholds at which examples of a class are found.

    That is the area under the curve of precision against recall, as scikit-learn's
    `average_precision_score` computes it. Classes are treated as by `auroc`.
    """

    def precision(scores: Float[Array, " batch"], positive: Bool[Array, " batch"]) -> Array:
        counts = jnp.ones_like(scores) if weights is None else weights
        found = jnp.where(positive, counts, 0)
        order = jnp.argsort(-scores)
        # for each example, those that rank at least as high
        up_to = jnp.searchsorted(-scores[order], -scores, side="right") - 1
        right, ranked = jnp.cumsum(found[order])[up_to], jnp.cumsum(counts[order])[up_to]
        precisions = jnp.where(found > 0, right / jnp.where(found > 0, ranked, 1), 0)
        return jnp.sum(found * precisions) / jnp.sum(found)  # 0 / 0 without positive examples

    return _of_each_class(precision, outputs, y)


def _of_each_class(
    score: Callable[[Float[Array, " batch"], Bool[Array, " batch"]], Array],
    outputs: Outputs,
    y: AnyArray,
) -> Float[Array, ""]:
    """The score of the second of two classes, or the mean over several classes.

    `score` gets numbers that rank the examples, and which of them are of the class; classes for
    which it is NaN are left out of the mean.
    """
    if outputs.shape[-1] == 1:
        return score(outputs[:, 0], y == 1)
    if outputs.shape[-1] == 2:
        return score(outputs[:, 1] - outputs[:, 0], y == 1)
    # logarithms rank like probabilities, and do not run together near 1
    ranks = jax.nn.log_softmax(outputs)
    of_class = y[:, None] == jnp.arange(outputs.shape[-1])
    return jnp.nanmean(jax.vmap(score, in_axes=1)(ranks, of_class))


def log_loss(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
    """Mean negative log-likelihood of the classes."""
    errors = binary_cross_entropies if outputs.shape[-1] == 1 else cross_entropies
    return mean_of(errors)(outputs, y, {}, weights)


def r2(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
    """Coefficient of determination, averaged over targets; 1 is exact, 0 equals the mean."""
    if weights is None:
        left = jnp.sum(jnp.square(outputs - y), axis=0)
        apart = y - jnp.asarray(y)[0]  # exactly 0 if all are equal, unlike with a rounded mean
        spread = jnp.sum(jnp.square(apart - jnp.mean(apart, axis=0)), axis=0)
        return jnp.mean(1 - left / spread)
    left = weighted_mean(jnp.square(outputs - y), weights)
    apart = y - jnp.asarray(y)[jnp.argmax(jnp.asarray(weights) > 0)]
    spread = weighted_mean(jnp.square(apart - weighted_mean(apart, weights)), weights)
    return jnp.mean(1 - left / spread)


def rmse(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
    """Root of the mean squared error over examples, averaged over targets."""
    squares = jnp.square(outputs - y)
    if weights is None:
        return jnp.mean(jnp.sqrt(jnp.mean(squares, axis=0)))
    return jnp.mean(jnp.sqrt(weighted_mean(squares, weights)))


def mae(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
    """Mean absolute error over examples and targets."""
    return mean_of(absolute_errors)(outputs, y, {}, weights)


def mape(outputs: Outputs, y: AnyArray, weights: Weights | None = None) -> Float[Array, ""]:
    """Mean absolute error as a share of the target, over examples and targets."""
    shares = jnp.mean(jnp.abs(outputs - y) / jnp.abs(y), axis=-1)
    return jnp.mean(shares) if weights is None else weighted_mean(shares, weights)


_SHARES: Mapping[str, Metric] = {
    "accuracy": accuracy,
    "balanced_accuracy": _at_most_1(balanced_accuracy),
    "f1": _at_most_1(f1),
    "auroc": _at_most_1(auroc),
    "average_precision": _at_most_1(average_precision),
}
# in studies of editions 1 to 5, rounding may lift these above 1
_EARLIER_SHARES: Mapping[str, Metric] = {"accuracy": rounded_accuracy, "f1": f1, "auroc": auroc}
METRICS: Mapping[str, Metric] = {
    **{name: _of_finite_chances(metric) for name, metric in _SHARES.items()},
    "log_loss": log_loss,
    "r2": r2,
    "rmse": rmse,
    "mae": mae,
    "mape": mape,
}
_IN_UNITS = frozenset({"rmse", "mae"})


def _metrics_of(edition: int) -> Mapping[str, Metric]:
    """The metrics of studies of this edition, by name."""
    if edition > 5:
        return METRICS
    earlier = _EARLIER_SHARES
    if edition > 3:  # before, these are finite for outputs that are not
        earlier = {name: _of_finite_chances(metric) for name, metric in earlier.items()}
    return {**METRICS, **earlier}


def _predicted(outputs: Outputs) -> Array:
    """The most likely class of each example; a single logit is the log-odds of the second."""
    if outputs.shape[-1] == 1:
        return (outputs[:, 0] > 0).astype(jnp.int32)
    return jnp.argmax(outputs, axis=-1)


def _above(scores: Float[Array, " batch"], positive: Bool[Array, " batch"]) -> Float[Array, ""]:
    """The share of pairs of a positive and another example in which the positive scores higher.

    Computed by counting for each positive the others below it (Mann & Whitney 1947): the mean of
    shares stays exact in float32, unlike a sum of ranks.
    """
    others = jnp.sort(jnp.where(positive, jnp.inf, scores))
    n_others = jnp.sum(~positive)
    below = jnp.searchsorted(others, scores, side="left")
    up_to = jnp.minimum(jnp.searchsorted(others, scores, side="right"), n_others)
    share = (below + up_to).astype(scores.dtype) / (2 * n_others)
    total = jnp.sum(jnp.where(positive, share, 0))
    # 0 / 0 if either side is empty
    return jnp.where(n_others > 0, total / jnp.sum(positive), jnp.nan)


def _above_by_weight(
    scores: Float[Array, " batch"], positive: Bool[Array, " batch"], weights: Weights
) -> Float[Array, ""]:
    """The same, where a pair counts as much as the product of its weights."""
    negative = jnp.where(positive, 0, weights)
    order = jnp.argsort(scores)
    up_to = jnp.concatenate([jnp.zeros(1, scores.dtype), jnp.cumsum(negative[order])])
    ranked = scores[order]
    below = up_to[jnp.searchsorted(ranked, scores, side="left")]
    with_ties = up_to[jnp.searchsorted(ranked, scores, side="right")]
    n_others = up_to[-1]
    share = (below + with_ties) / (2 * n_others)
    total = jnp.sum(jnp.where(positive, weights * share, 0))
    return jnp.where(n_others > 0, total / jnp.sum(jnp.where(positive, weights, 0)), jnp.nan)
