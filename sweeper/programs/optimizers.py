"""Optax optimizers whose numbers are traced, so that lanes share a program and differ in rates.

`weight_decay` is decoupled for every optimizer (Loshchilov & Hutter 2019): the parameters move by
-lr * (update + weight_decay * parameter). It touches the weights of linear and convolution layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import optax
from jaxtyping import Array, Bool, Float, PyTree

from sweeper.config import Settings

Hparams = Mapping[str, Float[Array, ""] | float]


Build = Callable[[Hparams, PyTree[Bool]], optax.GradientTransformation]


def optimizer_of(settings: Settings) -> Build:
    """The optimizer of a structure, to be called with traced numbers and the decay mask."""
    table = settings.optimizer

    def direction(hparams: Hparams) -> optax.GradientTransformation:
        if table.name == "adamw":
            return optax.scale_by_adam(
                b1=hparams["optimizer.b1"],
                b2=hparams["optimizer.b2"],
                eps=hparams["optimizer.eps"],
            )
        return optax.trace(decay=hparams["optimizer.momentum"], nesterov=table.nesterov)

    def build(hparams: Hparams, mask: PyTree[Bool]) -> optax.GradientTransformation:
        return optax.chain(
            direction(hparams),
            # Optax calls a mask that is callable, and an Equinox module is
            optax.add_decayed_weights(hparams["optimizer.weight_decay"], lambda _: mask),
            optax.scale_by_learning_rate(hparams["optimizer.lr"]),
        )

    return build


def decay_mask(model: PyTree) -> PyTree[Bool]:
    """True at the weights of linear and convolution layers of `model`.

    The model is the unstacked one, whose layers are still whole, and may be abstract.
    """

    def is_layer(node: object) -> bool:
        return isinstance(node, eqx.nn.Linear | eqx.nn.Conv)

    def mask(node: PyTree) -> PyTree[Bool]:
        if not is_layer(node):
            return False
        nothing = jax.tree.map(lambda _: False, node)
        return eqx.tree_at(lambda layer: layer.weight, nothing, True)

    return jax.tree.map(mask, model, is_leaf=is_layer)
