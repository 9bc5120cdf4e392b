"""A multilayer perceptron: linear layers, each hidden one with LayerNorm and dropout if asked."""

from __future__ import annotations

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

Activation = Callable[[Array], Array]

ACTIVATIONS: dict[str, Activation] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
    "sigmoid": jax.nn.sigmoid,
    "leaky_relu": jax.nn.leaky_relu,
}


class MLP(eqx.Module):
    """`depth` hidden layers of `width` units: linear, LayerNorm, activation, dropout."""

    layers: tuple[eqx.nn.Linear, ...]
    norms: tuple[eqx.nn.LayerNorm, ...]
    activation: Activation = eqx.field(static=True)
    has_dropout: bool = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        *,
        depth: int,
        width: int,
        activation: str = "relu",
        layer_norm: bool = False,
        has_dropout: bool = False,
        dtype: DTypeLike = jnp.float32,
        key: PRNGKeyArray,
    ) -> None:
        sizes = [in_size, *[width] * depth, out_size]
        keys = jax.random.split(key, depth + 1)
        self.layers = tuple(
            eqx.nn.Linear(before, after, dtype=dtype, key=key)
            for before, after, key in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.norms = tuple(
            eqx.nn.LayerNorm(width, dtype=dtype) for _ in range(depth if layer_norm else 0)
        )
        self.activation = ACTIVATIONS[activation]
        self.has_dropout = has_dropout

    def __call__(
        self,
        x: Float[Array, " in_size"],
        *,
        key: PRNGKeyArray | None = None,
        dropout: Float[Array, ""] | float = 0.0,
    ) -> Float[Array, " out_size"]:
        """The outputs for one example; `key` is given in training alone.

        Each hidden layer draws one number a unit, so the draws of a layer do not depend on how
        wide a program it is trained in.
        """
        for index, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            if self.norms:
                x = self.norms[index](x)
            x = self.activation(x)
            if self.has_dropout and key is not None:
                draw = jax.random.uniform(jax.random.fold_in(key, index), x.shape, x.dtype)
                x = jnp.where(draw < dropout, 0, x / (1 - dropout))
        return self.layers[-1](x)


def initial(model: MLP, rng: np.random.Generator) -> MLP:
    """`model` with fresh weights in NumPy arrays; `model` itself may be abstract.

    Linear layers as in Equinox: weights and biases uniform within 1 / sqrt(fan-in). Drawn outside
    of any compiled program, for compiling the draws would cost as much as the training.
    """

    def fresh(layer: eqx.nn.Linear) -> eqx.nn.Linear:
        bound = 1 / math.sqrt(layer.weight.shape[1])
        leaves = [
            rng.uniform(-bound, bound, leaf.shape).astype(leaf.dtype)
            for leaf in (layer.weight, layer.bias)
            if leaf is not None
        ]
        return eqx.tree_at(lambda linear: (linear.weight, linear.bias), layer, leaves)

    def neutral(norm: eqx.nn.LayerNorm) -> eqx.nn.LayerNorm:
        dtype = jax.tree.leaves(norm)[0].dtype
        leaves = np.ones(norm.shape, dtype), np.zeros(norm.shape, dtype)
        return eqx.tree_at(lambda norm: (norm.weight, norm.bias), norm, leaves)

    return eqx.tree_at(
        lambda mlp: (mlp.layers, mlp.norms),
        model,
        (tuple(map(fresh, model.layers)), tuple(map(neutral, model.norms))),
    )
