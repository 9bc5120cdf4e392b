"""TabM: members of an ensemble that share their weights (Gorishniy et al. 2024, arXiv 2410.24210).

Every member is an MLP. Its layers have the weights of all members, with their inputs and outputs
scaled by vectors of its own, and a bias of its own, as in BatchEnsemble (Wen et al. 2020). The last
layers share nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.models.mlp import ACTIVATIONS, Activation, AnyArray, kept_units

Target = Literal["classes", "numbers"]


class SharedLinear(eqx.Module):
    """A linear layer with the weights of all members; `r`, `s` and `bias` are their own."""

    shared: eqx.nn.Linear
    r: Float[Array, "members before"]
    s: Float[Array, "members after"]
    bias: Float[Array, "members after"]

    def __init__(
        self, before: int, after: int, members: int, dtype: DTypeLike, key: PRNGKeyArray
    ) -> None:
        self.shared = eqx.nn.Linear(before, after, use_bias=False, dtype=dtype, key=key)
        self.r = jnp.ones((members, before), dtype)
        self.s = jnp.ones((members, after), dtype)
        self.bias = jnp.zeros((members, after), dtype)

    def __call__(
        self, x: Float[Array, "members batch before"]
    ) -> Float[Array, "members batch after"]:
        """The outputs of each member for each example."""
        scaled = x * self.r[:, None] @ self.shared.weight.T
        return scaled * self.s[:, None] + self.bias[:, None]


class TabM(eqx.Module):
    """An ensemble of MLPs with `depth` hidden layers of `width` units: linear, activation, dropout.

    `last` has the last layers of all members, stacked. Outputs for `classes` are logits.
    """

    layers: tuple[SharedLinear, ...]
    last: eqx.nn.Linear
    activation: Activation = eqx.field(static=True)
    has_dropout: bool = eqx.field(static=True)
    target: Target = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        *,
        depth: int,
        width: int,
        members: int,
        activation: str = "relu",
        has_dropout: bool = False,
        target: Target = "numbers",
        dtype: DTypeLike = jnp.float32,
        key: PRNGKeyArray,
    ) -> None:
        before = [in_size, *[width] * (depth - 1)]
        of_last, *keys = jax.random.split(key, depth + 1)
        self.layers = tuple(
            SharedLinear(size, width, members, dtype, key)
            for size, key in zip(before, keys, strict=True)
        )
        make = partial(eqx.nn.Linear, width, out_size, dtype=dtype)
        self.last = eqx.filter_vmap(lambda key: make(key=key))(jax.random.split(of_last, members))
        self.activation = ACTIVATIONS[activation]
        self.has_dropout = has_dropout
        self.target = target

    def __call__(self, x: Float[AnyArray, "*batch in_size"]) -> Float[Array, "*batch out_size"]:
        """The prediction of the ensemble for one example, or for each of a batch.

        That is the mean of its members: of their probabilities, as logits, or of their numbers.
        """
        outputs = self.of_members(jnp.atleast_2d(x))
        return averaged(outputs, self.target).reshape(*x.shape[:-1], -1)

    def of_members(
        self,
        x: Float[AnyArray, "batch in_size"],
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
    ) -> Float[Array, "members batch out_size"]:
        """The outputs of each member; `keys`, one per example, are only passed in training."""
        n_members = len(self.layers[0].r)
        hidden = jnp.broadcast_to(jnp.asarray(x), (n_members, *x.shape))
        for index, layer in enumerate(self.layers):
            hidden = self.activation(layer(hidden))
            if self.has_dropout and keys is not None:
                hidden = _dropped(hidden, keys, index, dropout)
        assert self.last.bias is not None
        products = jnp.einsum("kbi,koi->kbo", hidden, self.last.weight)
        return products + self.last.bias[:, None]


def averaged(
    outputs: Float[Array, "members batch out"], target: Target
) -> Float[Array, "batch out"]:
    """The mean of the members' predictions; for classes of their probabilities, as logits.

    A single logit is the log-odds of the second of two classes.
    """
    if target == "numbers":
        return jnp.mean(outputs, axis=0)
    if outputs.shape[-1] == 1:
        return _log_mean(jax.nn.log_sigmoid(outputs)) - _log_mean(jax.nn.log_sigmoid(-outputs))
    return _log_mean(jax.nn.log_softmax(outputs))


def _log_mean(logarithms: Array) -> Array:
    """The logarithm of the mean over members."""
    return jax.nn.logsumexp(logarithms, axis=0) - math.log(len(logarithms))


def _dropped(
    x: Float[Array, "members batch width"],
    keys: PRNGKeyArray,
    layer: int,
    dropout: Float[AnyArray, ""] | float,
) -> Float[Array, "members batch width"]:
    """`x` with units of each member dropped with probability `dropout`, the others scaled up."""
    n_members, n_rows, width = x.shape
    kept = kept_units(keys, layer, dropout, n_members * width, x.dtype)
    of_members = kept.reshape(n_rows, n_members, width).swapaxes(0, 1)
    return jnp.where(of_members, x / (1 - dropout), 0)


@dataclass(frozen=True, slots=True)
class TabMShape:
    """The sizes of a `TabM` of depth 1 or more; its parameters are drawn without JAX."""

    in_size: int
    out_size: int
    width: int
    depth: int
    members: int

    def initial(self, rng: np.random.Generator) -> Iterator[NDArray[Any]]:
        """Fresh parameters, in the order of the PyTree, as in the authors' code.

        Weights and biases are uniform within 1 / sqrt(fan-in); a layer has the same bias for all
        members. What tells members apart are random signs at the inputs, and their last layers.
        """
        for index in range(self.depth):
            before = self.width if index else self.in_size
            bound, shape = 1 / math.sqrt(before), (self.members, self.width)
            yield rng.uniform(-bound, bound, (self.width, before))
            is_first = index == 0 and self.members > 1
            of_inputs = (self.members, before)
            yield rng.choice([-1.0, 1.0], of_inputs) if is_first else np.ones(of_inputs)
            yield np.ones(shape)
            yield np.broadcast_to(rng.uniform(-bound, bound, self.width), shape)
        bound = 1 / math.sqrt(self.width)
        yield rng.uniform(-bound, bound, (self.members, self.out_size, self.width))
        yield rng.uniform(-bound, bound, (self.members, self.out_size))
