"""Losses: the mean over a batch that training minimises, and its value in the data's own units.

Optional hyperparameters of a loss are in `hparams` if they are compiled in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float

from sweeper.config import Settings
from sweeper.config.settings import HUBER_DELTA as DEFAULT_DELTA
from sweeper.config.train import WEIGHED
from sweeper.config.user_code import load_function
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import AnyArray, Hparams

Outputs = Float[Array, "batch out"]
Weights = Float[AnyArray, " batch"]


class Loss(Protocol):
    """A loss of a batch, in which examples may have weights."""

    def __call__(
        self, outputs: Outputs, y: AnyArray, hparams: Hparams, weights: Weights | None = None
    ) -> Float[Array, ""]: ...


Errors = Callable[[Outputs, AnyArray, Hparams], Float[Array, "batch ..."]]
"""What a loss is the mean of: shaped (batch,), or (batch, out) for numbers."""

LABEL_SMOOTHING = "train.label_smoothing"
HUBER_DELTA = "train.huber_delta"


def loss_of(name: str, base_dir: Path, class_weights: Sequence[float] = ()) -> Loss:
    """The loss with this name; a user-defined one only gets outputs and targets.

    With class weights, each example is weighted by its class, and the sum is divided by the sum of
    weights, as in PyTorch's `CrossEntropyLoss(weight=...)` and scikit-learn's `log_loss`. Weights
    of examples are multiplied by them.
    """
    if name in ERRORS:
        return mean_of(ERRORS[name], class_weights)
    function = load_function(name, base_dir)

    def loss(
        outputs: Outputs, y: AnyArray, hparams: Hparams, weights: Weights | None = None
    ) -> Float[Array, ""]:
        if weights is not None:
            raise TypeError(f"the user-defined loss '{name}' gets no weights")
        return function(outputs, y)

    return loss


def degree_of(loss: str) -> int:
    """The power of k by which a loss of targets divided by k is multiplied to be in their units."""
    return _DEGREES.get(loss, 0)


def weighted_mean(values: AnyArray, weights: Weights) -> Float[Array, " ..."]:
    """The mean over examples, which are the first axis; 0 if all weights are 0.

    A value with weight 0 does not count even if it is not finite.
    """
    own = jnp.reshape(weights, (-1, *(1,) * (values.ndim - 1)))
    total = jnp.sum(weights)
    summed = jnp.sum(jnp.where(own > 0, own * values, 0), axis=0)
    return summed / jnp.where(total > 0, total, 1)


def mean_of(errors: Errors, class_weights: Sequence[float] = ()) -> Loss:
    """The loss that is the mean of these errors over examples and targets."""

    def loss(
        outputs: Outputs, y: AnyArray, hparams: Hparams, weights: Weights | None = None
    ) -> Float[Array, ""]:
        if not class_weights:
            each = errors(outputs, y, hparams)
            return jnp.mean(each if weights is None else weighted_mean(each, weights))
        of_classes = jnp.asarray(class_weights, outputs.dtype)
        of_example = jax.nn.one_hot(y, len(class_weights), dtype=outputs.dtype) @ of_classes
        each = errors(outputs, y, hparams)
        if weights is not None:
            return weighted_mean(each, of_example * weights)
        return jnp.sum(of_example * each) / jnp.sum(of_example)

    return loss


def cross_entropies(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, " batch"]:
    """Negative log-likelihoods of the class indices `y` (batch,) under logits `outputs`."""
    # with one-hot labels, since picking each label's logit would compile to a gather and a scatter
    labels = jax.nn.one_hot(y, outputs.shape[-1], dtype=outputs.dtype)
    if LABEL_SMOOTHING in hparams:  # Szegedy et al. 2016, section 7
        labels = optax.smooth_labels(labels, jnp.asarray(hparams[LABEL_SMOOTHING]))
    # as in Optax for integer labels; its version for one-hot ones compiles to more programs
    logits = outputs - lax.stop_gradient(jnp.max(outputs, axis=-1, keepdims=True))
    normalizers = jnp.log(jnp.sum(jnp.exp(logits), axis=-1))
    return normalizers - jnp.sum(labels * logits, axis=-1)


def binary_cross_entropies(
    outputs: Outputs, y: AnyArray, hparams: Hparams
) -> Float[Array, " batch"]:
    """The same for two classes; `outputs` (batch, 1) are the log-odds of the second."""
    labels = jnp.asarray(y, outputs.dtype)
    if LABEL_SMOOTHING in hparams:
        smoothing = hparams[LABEL_SMOOTHING]
        labels = (1 - smoothing) * labels + smoothing / 2
    return optax.sigmoid_binary_cross_entropy(outputs[:, 0], labels)


def squared_errors(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Outputs:
    """Squared errors of each example and target; `y` is (batch, out)."""
    return jnp.square(outputs - y)


def absolute_errors(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Outputs:
    """Absolute errors of each example and target."""
    return jnp.abs(outputs - y)


def huber_errors(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Outputs:
    """Half the squared error of each example and target, linear beyond delta (Huber 1964)."""
    delta = hparams.get(HUBER_DELTA, DEFAULT_DELTA)
    error = jnp.abs(outputs - y)
    near = jnp.minimum(error, delta)
    return near * (error - near / 2)


ERRORS: Mapping[str, Errors] = {
    "cross_entropy": cross_entropies,
    "binary_cross_entropy": binary_cross_entropies,
    "mse": squared_errors,
    "mae": absolute_errors,
    "huber": huber_errors,
}
# a loss of outputs and targets that are both k times as large is k to this power times as large;
# for Huber's, if its delta is k times as large too
_DEGREES = {"mse": 2, "mae": 1, "huber": 2}


@dataclass(frozen=True, slots=True)
class Criterion:
    """A loss over a batch, of targets in units of `y_scale`.

    If outputs and targets are k times as large, it is k to the power `degree` times as large.
    """

    loss: Loss
    degree: int
    y_scale: tuple[float, ...]

    def minimised(
        self, outputs: Outputs, y: AnyArray, hparams: Hparams, weights: Weights | None = None
    ) -> Float[Array, ""]:
        """The loss that training minimizes: every target counts equally, whatever its unit."""
        return self.loss(outputs, y, hparams, weights)

    def reported(
        self,
        minimised: Float[Array, ""],
        outputs: Outputs,
        y: AnyArray,
        hparams: Hparams,
        weights: Weights | None = None,
    ) -> Float[Array, ""]:
        """The reported value, if training saw the loss `minimised`."""
        if self.degree == 0:
            return minimised
        if len(self.y_scale) == 1:
            return minimised * self.y_scale[0] ** self.degree

        def of_target(outputs: Array, y: Array) -> Array:
            return self.loss(outputs[:, None], y[:, None], hparams, weights)

        units = jnp.asarray(self.y_scale, outputs.dtype) ** self.degree
        return jnp.mean(jax.vmap(of_target, in_axes=1)(outputs, jnp.asarray(y)) * units)


def criterion_of(name: str, settings: Settings, data: DataSpec) -> Criterion:
    """The loss with this name, for the data of a study."""
    class_weights = data.class_weights if name in WEIGHED else ()
    loss = loss_of(name, settings.base_dir, class_weights)
    return Criterion(loss, degree_of(name), data.y_scale)
