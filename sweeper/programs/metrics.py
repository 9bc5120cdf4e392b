"""Losses and metrics over a batch of outputs, in the data's own units."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from sweeper.programs.program import AnyArray

Outputs = Float[Array, "batch out"]
Measure = Callable[[Outputs, AnyArray], Float[Array, ""]]


def cross_entropy(outputs: Outputs, y: AnyArray) -> Float[Array, ""]:
    """Mean negative log-likelihood of the class indices `y` (batch,) under logits `outputs`."""
    # by one-hot labels: to pick each label's logit would compile to a gather and a scatter
    labels = jax.nn.one_hot(y, outputs.shape[-1], dtype=outputs.dtype)
    return optax.softmax_cross_entropy(outputs, labels).mean()


def weighted_cross_entropy(
    outputs: Outputs, y: AnyArray, weights: Sequence[float]
) -> Float[Array, ""]:
    """The same, each example counting for the weight of its class; their sum is divided by.

    So it is with PyTorch's `CrossEntropyLoss(weight=...)` and scikit-learn's `log_loss`.
    """
    labels = jax.nn.one_hot(y, outputs.shape[-1], dtype=outputs.dtype)
    of_example = labels @ jnp.asarray(weights, outputs.dtype)
    losses = optax.softmax_cross_entropy(outputs, labels)
    return jnp.sum(of_example * losses) / jnp.sum(of_example)


def mse(outputs: Outputs, y: AnyArray) -> Float[Array, ""]:
    """Mean squared error over examples and targets; `y` is (batch, out)."""
    return jnp.mean(jnp.square(outputs - y))


def accuracy(outputs: Outputs, y: AnyArray) -> Float[Array, ""]:
    """Share of examples whose largest logit is at the class index `y` (batch,)."""
    return jnp.mean(jnp.argmax(outputs, axis=-1) == y, dtype=outputs.dtype)


def r2(outputs: Outputs, y: AnyArray) -> Float[Array, ""]:
    """Coefficient of determination, the mean over targets; 1 is exact, 0 the mean's own."""
    left = jnp.sum(jnp.square(outputs - y), axis=0)
    spread = jnp.sum(jnp.square(y - jnp.mean(y, axis=0)), axis=0)
    return jnp.mean(1 - left / spread)


LOSSES: dict[str, Measure] = {"cross_entropy": cross_entropy, "mse": mse}
METRICS: dict[str, Measure] = {"accuracy": accuracy, "r2": r2}
