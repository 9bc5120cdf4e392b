"""Optax optimizers whose numbers are traced, so that lanes share a program and differ in rates.

`weight_decay` is decoupled for every optimizer (Loshchilov & Hutter 2019): the parameters move by
-lr * (update + weight_decay * parameter). It touches the weights of linear and convolution layers.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from sweeper.config import Settings

Hparams = Mapping[str, Float[Array, ""] | float]


def optimizer_of(
    settings: Settings, hparams: Hparams, n_parameters: int, n_decayed: int
) -> optax.GradientTransformation:
    """The optimizer of a class over a vector of parameters, its numbers those of one lane.

    Weight decay touches the first `n_decayed` of the parameters.
    """
    decayed = jnp.arange(n_parameters) < n_decayed
    steps = [
        _direction(settings, hparams),
        optax.add_decayed_weights(hparams["optimizer.weight_decay"] * decayed),
        optax.scale_by_learning_rate(hparams["optimizer.lr"]),
    ]
    if settings.has("optimizer.clip_norm"):
        steps.insert(0, optax.clip_by_global_norm(hparams["optimizer.clip_norm"]))
    return optax.chain(*steps)


def _direction(settings: Settings, hparams: Hparams) -> optax.GradientTransformation:
    table = settings.optimizer
    if table.name == "adamw":
        return optax.scale_by_adam(
            b1=hparams["optimizer.b1"],
            b2=hparams["optimizer.b2"],
            eps=hparams["optimizer.eps"],
        )
    return optax.trace(decay=hparams["optimizer.momentum"], nesterov=table.nesterov)
