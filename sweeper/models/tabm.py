"""TabM: members of an ensemble that share their weights (Gorishniy et al. 2024, arXiv 2410.24210).

Every member is an MLP. Its layers share their weights with the other members, but scale inputs and
outputs by its own vectors and add its own biases, as in BatchEnsemble (Wen et al. 2020). The last
layers share nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, DTypeLike, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.models.encoding import Periodic, PeriodicShape, PiecewiseLinear, encoded
from sweeper.models.mlp import ACTIVATIONS, Activation, AnyArray, LayersShape, kept_units

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

    The first layer gets the `encoding` or `embedding` of features, as in `MLP`.
    `last` has the last layers of all members, stacked. Outputs for `classes` are logits.
    """

    layers: tuple[SharedLinear, ...]
    last: eqx.nn.Linear
    activation: Activation = eqx.field(static=True)
    has_dropout: bool = eqx.field(static=True)
    target: Target = eqx.field(static=True)
    encoding: PiecewiseLinear | None = eqx.field(static=True)
    embedding: Periodic | None

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
        encoding: PiecewiseLinear | None = None,
        embedding: PeriodicShape | None = None,
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
        self.encoding = encoding
        after = jax.random.fold_in(key, depth + 1)
        self.embedding = None if embedding is None else Periodic(embedding, dtype, after)

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
        activation: Activation | None = None,
    ) -> Float[Array, "members batch out_size"]:
        """The outputs of each member; `keys`, one per example, are only passed in training.

        `activation` is only passed if lanes of one program have different ones.
        """
        hidden = self.begun(x)
        for index, layer in enumerate(self.layers):
            hidden = (activation or self.activation)(layer(hidden))
            if self.has_dropout and keys is not None:
                hidden = _dropped(hidden, keys, index, dropout)
        return self.ended(hidden)

    def begun(self, x: Float[AnyArray, "batch features"]) -> Float[Array, "members batch in_size"]:
        """The input of the first layer for each member."""
        x = jnp.asarray(encoded(self.encoding, self.embedding, x))
        return jnp.broadcast_to(x, (len(self.layers[0].r), *x.shape))

    def ended(
        self, hidden: Float[Array, "members batch width"]
    ) -> Float[Array, "members batch out_size"]:
        """The outputs of the last layer of each member."""
        assert self.last.bias is not None
        products = jnp.einsum("kbi,koi->kbo", hidden, self.last.weight)
        return products + self.last.bias[:, None]


class PaddedTabM(eqx.Module):
    """`tabm` as a lane that uses `width` units and `depth` hidden layers, both traced.

    `masked` says that some activation does not map 0 to 0.
    """

    tabm: TabM
    width: Int[AnyArray, ""]
    depth: Int[AnyArray, ""]
    masked: bool = eqx.field(static=True)

    def of_members(
        self,
        x: Float[AnyArray, "batch in_size"],
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        activation: Activation | None = None,
    ) -> Float[Array, "members batch out_size"]:
        """The outputs of each member, as in `TabM`."""
        tabm = self.tabm

        def apply(x: Array, index: int) -> Array:
            x = (activation or tabm.activation)(tabm.layers[index](x))
            if self.masked:
                x = jnp.where(jnp.arange(x.shape[-1]) < self.width, x, 0)
            if tabm.has_dropout and keys is not None:
                x = _dropped(x, keys, index, dropout, self.width)
            return x

        hidden = apply(tabm.begun(x), 0)
        for index in range(1, len(tabm.layers)):
            # a branch if lanes run one by one
            hidden = lax.cond(index < self.depth, partial(apply, index=index), lambda x: x, hidden)
        return tabm.ended(hidden)


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
    own_width: Int[AnyArray, ""] | None = None,
) -> Float[Array, "members batch width"]:
    """`x` with units of each member dropped with probability `dropout`, the others scaled up.

    `own_width` is the lane's own if it is padded.
    """
    n_members, n_rows, width = x.shape
    kept = kept_units(keys, layer, dropout, n_members * width, x.dtype)
    if own_width is None:
        of_members = kept.reshape(n_rows, n_members, width).swapaxes(0, 1)
    else:
        own = draws_of(n_members, width, own_width)
        of_members = kept.at[:, own].get(mode="promise_in_bounds").swapaxes(0, 1)
    return jnp.where(of_members, x / (1 - dropout), 0)


def draws_of(
    members: int, width: int, own_width: Int[AnyArray, ""] | int
) -> Int[Array, "members width"]:
    """The index of each unit's draw: the first `own_width` draws belong to the first member.

    A lane with fewer units than its class therefore has the draws that it would have alone.
    """
    return jnp.arange(members)[:, None] * own_width + jnp.arange(width)


@dataclass(frozen=True, slots=True)
class TabMShape(LayersShape):
    """The sizes of a `TabM` of depth 1 or more; its parameters are drawn without JAX."""

    members: int

    @property
    def leaves(self) -> tuple[tuple[int, ...], ...]:
        """Embedding, weights and last weights, then every r, s and bias, and last biases."""
        before = [self.in_size, *[self.width] * (self.depth - 1)]
        own = (self.members, self.width)
        return (
            *self.embedding_leaves,
            *((self.width, size) for size in before),
            (self.members, self.out_size, self.width),
            *((self.members, size) for size in before),
            *[own] * (2 * self.depth),
            (self.members, self.out_size),
        )

    @property
    def places(self) -> tuple[int, ...]:
        """The place of each of the `leaves` in the PyTree, which goes layer by layer."""
        of_layers = range(0, 4 * self.depth, 4)
        weights, *others = ([layer + name for layer in of_layers] for name in range(4))
        last = 4 * self.depth
        embedding = () if self.embedding is None else self.embedding.places
        of_embedding = (last + 2 + place for place in embedding)
        return (*of_embedding, *weights, last, *chain(*others), last + 1)

    def leaves_in(self, larger: TabMShape) -> list[int]:
        layers, n_layers = range(self.depth), larger.depth
        kinds = range(n_layers + 1, 4 * n_layers + 1, n_layers)
        vectors = [first + layer for first in kinds for layer in layers]
        before = len(self.embedding_leaves)
        own = [*layers, n_layers, *vectors, 4 * n_layers + 1]
        return [*range(before), *(before + leaf for leaf in own)]

    def initial(
        self, rng: np.random.Generator, frequency_scale: float = 1.0
    ) -> Iterator[NDArray[Any]]:
        """Fresh parameters, in the order of the PyTree, as in the authors' code.

        Weights and biases are uniform within 1 / sqrt(fan-in); a layer has the same bias for all
        members. Members differ in random signs at the inputs, and in their last layers.
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
        if self.embedding is not None:
            yield from self.embedding.initial(rng, frequency_scale)
