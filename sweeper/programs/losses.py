"""Losses: the mean over a batch that training minimises, and its value in the data's own units.

Optional hyperparameters of a loss are in `hparams` if they are compiled in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float

from sweeper.config import Settings
from sweeper.config.settings import HUBER_DELTA as DEFAULT_DELTA
from sweeper.config.user_code import load_function
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import AnyArray, Hparams

Outputs = Float[Array, "batch out"]
Loss = Callable[[Outputs, AnyArray, Hparams], Array]

LABEL_SMOOTHING = "train.label_smoothing"
HUBER_DELTA = "train.huber_delta"


def loss_of(name: str, base_dir: Path, class_weights: Sequence[float] = ()) -> Loss:
    """The loss with this name; a user-defined one only gets outputs and targets.

    With class weights, each example is weighted by its class, and the sum is divided by the sum of
    weights, as in PyTorch's `CrossEntropyLoss(weight=...)` and scikit-learn's `log_loss`.
    """
    if name in _OF_EXAMPLES and class_weights:
        return _weighted(_OF_EXAMPLES[name], class_weights)
    if name in LOSSES:
        return LOSSES[name]
    function = load_function(name, base_dir)
    return lambda outputs, y, hparams: function(outputs, y)


def degree_of(loss: str) -> int:
    """The power of k by which a loss of targets divided by k is multiplied to be in their units."""
    return _DEGREES.get(loss, 0)


def _weighted(of_examples: Loss, class_weights: Sequence[float]) -> Loss:
    def weighted(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, ""]:
        weights = jnp.asarray(class_weights, outputs.dtype)
        of_example = jax.nn.one_hot(y, len(class_weights), dtype=outputs.dtype) @ weights
        return jnp.sum(of_example * of_examples(outputs, y, hparams)) / jnp.sum(of_example)

    return weighted


def cross_entropy(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, ""]:
    """Mean negative log-likelihood of the class indices `y` (batch,) under logits `outputs`."""
    return _cross_entropies(outputs, y, hparams).mean()


def binary_cross_entropy(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, ""]:
    """The same for two classes; `outputs` (batch, 1) are the log-odds of the second."""
    return _binary_cross_entropies(outputs, y, hparams).mean()


def _cross_entropies(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, " batch"]:
    # with one-hot labels, since picking each label's logit would compile to a gather and a scatter
    labels = jax.nn.one_hot(y, outputs.shape[-1], dtype=outputs.dtype)
    if LABEL_SMOOTHING in hparams:  # Szegedy et al. 2016, section 7
        labels = optax.smooth_labels(labels, jnp.asarray(hparams[LABEL_SMOOTHING]))
    # as in Optax for integer labels; its version for one-hot ones compiles to more programs
    logits = outputs - lax.stop_gradient(jnp.max(outputs, axis=-1, keepdims=True))
    normalizers = jnp.log(jnp.sum(jnp.exp(logits), axis=-1))
    return normalizers - jnp.sum(labels * logits, axis=-1)


def _binary_cross_entropies(
    outputs: Outputs, y: AnyArray, hparams: Hparams
) -> Float[Array, " batch"]:
    labels = jnp.asarray(y, outputs.dtype)
    if LABEL_SMOOTHING in hparams:
        smoothing = hparams[LABEL_SMOOTHING]
        labels = (1 - smoothing) * labels + smoothing / 2
    return optax.sigmoid_binary_cross_entropy(outputs[:, 0], labels)


def mse(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, ""]:
    """Mean squared error over examples and targets; `y` is (batch, out)."""
    return jnp.mean(jnp.square(outputs - y))


def mae(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, ""]:
    """Mean absolute error over examples and targets."""
    return jnp.mean(jnp.abs(outputs - y))


def huber(outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, ""]:
    """Half the squared error, linear beyond delta (Huber 1964); mean over examples and targets."""
    delta = hparams.get(HUBER_DELTA, DEFAULT_DELTA)
    error = jnp.abs(outputs - y)
    near = jnp.minimum(error, delta)
    return jnp.mean(near * (error - near / 2))


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
    "mse": mse,
    "mae": mae,
    "huber": huber,
}
_OF_EXAMPLES: Mapping[str, Loss] = {
    "cross_entropy": _cross_entropies,
    "binary_cross_entropy": _binary_cross_entropies,
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

    def minimised(self, outputs: Outputs, y: AnyArray, hparams: Hparams) -> Float[Array, ""]:
        """What training minimises: every target counts equally, whatever its unit."""
        return self.loss(outputs, y, hparams)

    def reported(
        self, minimised: Float[Array, ""], outputs: Outputs, y: AnyArray, hparams: Hparams
    ) -> Float[Array, ""]:
        """The reported value, if training saw the loss `minimised`."""
        if self.degree == 0:
            return minimised
        if len(self.y_scale) == 1:
            return minimised * self.y_scale[0] ** self.degree

        def of_target(outputs: Array, y: Array) -> Array:
            return self.loss(outputs[:, None], y[:, None], hparams)

        units = jnp.asarray(self.y_scale, outputs.dtype) ** self.degree
        return jnp.mean(jax.vmap(of_target, in_axes=1)(outputs, jnp.asarray(y)) * units)


def criterion_of(name: str, settings: Settings, data: DataSpec) -> Criterion:
    """The loss with this name, for the data of a study."""
    loss = loss_of(name, settings.base_dir, data.class_weights)
    return Criterion(loss, degree_of(name), data.y_scale)
