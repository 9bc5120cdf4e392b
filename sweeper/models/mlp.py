"""Multilayer perceptrons, and how one is padded to a wider and deeper one.

A padded network has spare units with zero weights and skips spare layers. If weights in and out are
zero, so are their gradients, moments and decay: padding stays zero unless the output of a spare
unit is not zero. LayerNorm would count spare units, and the sigmoid of zero is 1/2, so both are
masked.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.models.encoding import AnyArray, Periodic, PeriodicShape, PiecewiseLinear, encoded

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
# activations that do not map 0 to 0
OTHER_THAN_ZERO = frozenset({"sigmoid"})


class MLP(eqx.Module):
    """`depth` hidden layers of `width` units: linear, LayerNorm, activation, dropout.

    The first layer gets the `encoding` or `embedding` of features, if there is one, which has
    `in_size` numbers.
    """

    layers: tuple[eqx.nn.Linear, ...]
    norms: tuple[eqx.nn.LayerNorm, ...]
    activation: Activation = eqx.field(static=True)
    has_dropout: bool = eqx.field(static=True)
    encoding: PiecewiseLinear | None = eqx.field(static=True)
    embedding: Periodic | None

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
        encoding: PiecewiseLinear | None = None,
        embedding: PeriodicShape | None = None,
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
        self.encoding = encoding
        last = jax.random.fold_in(key, depth + 1)
        self.embedding = None if embedding is None else Periodic(embedding, dtype, last)

    def __call__(
        self,
        x: Float[AnyArray, "*batch features"],
        *,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        activation: Activation | None = None,
    ) -> Float[Array, "*batch out_size"]:
        """The outputs for one example, or for each of a batch.

        `keys`, one per example, are only passed in training; `activation` only if lanes of one
        program have different ones.
        """
        x = encoded(self.encoding, self.embedding, x)
        for index, layer in enumerate(self.layers[:-1]):
            x = linear(layer, x)
            if self.norms:
                x = normalised(self.norms[index], x)
            x = (activation or self.activation)(x)
            if self.has_dropout and keys is not None:
                x = dropped(x, keys, index, dropout)
        return linear(self.layers[-1], x)


def linear(
    layer: eqx.nn.Linear, x: Float[AnyArray, "*batch before"]
) -> Float[Array, "*batch after"]:
    """The output of `layer` for each example.

    Computed as one matrix product: on a CPU a layer mapped over examples is half as fast.
    """
    assert layer.bias is not None
    return jnp.asarray(x) @ layer.weight.T + layer.bias


class Norm(NamedTuple):
    """The parameters of a LayerNorm for `normalised`, in addition to Equinox's own."""

    weight: Float[Array, " width"]
    bias: Float[Array, " width"]
    eps: float = 1e-5  # Equinox's


def normalised(
    norm: eqx.nn.LayerNorm | Norm,
    x: Float[Array, "*axes"],
    real: Bool[Array, " width"] | None = None,
    axis: int = -1,
) -> Float[Array, "*axes"]:
    """LayerNorm (Ba et al. 2016) of each example, over its `real` units only; the others are 0.

    The units are along `axis`.
    """
    assert norm.weight is not None and norm.bias is not None
    of_units = [-1 if place == axis % x.ndim else 1 for place in range(x.ndim)]
    count, kept = x.shape[axis], lambda values: values
    if real is not None:
        is_real = real.reshape(of_units)
        # also in the mean, where they add nothing: its gradient would reach them
        count, kept = jnp.sum(real), lambda values: jnp.where(is_real, values, 0)
    mean = jnp.sum(kept(x), axis=axis, keepdims=True) / count
    centred = kept(x - mean)
    variance = jnp.sum(jnp.square(centred), axis=axis, keepdims=True) / count
    weight, bias = norm.weight.reshape(of_units), norm.bias.reshape(of_units)
    return centred * lax.rsqrt(variance + norm.eps) * weight + bias


def dropped(
    x: Float[Array, "*batch width"],
    keys: PRNGKeyArray,
    layer: int,
    dropout: Float[AnyArray, ""] | float,
) -> Float[Array, "*batch width"]:
    """`x` with units dropped with probability `dropout`, and the others scaled up."""
    kept = kept_units(keys, layer, dropout, x.shape[-1], x.dtype)
    return jnp.where(kept, x / (1 - dropout), 0)


def kept_units(
    keys: PRNGKeyArray,
    layer: int | Int[Array, ""],
    dropout: Float[AnyArray, ""] | float,
    width: int,
    dtype: DTypeLike,
) -> Bool[Array, "*batch width"]:
    """The units of a layer that are not dropped, by the key of each example.

    Each example draws one number per unit, and the first numbers are the same however many are
    drawn: the draws of a layer do not depend on the width of the program.
    """

    def draw(key: PRNGKeyArray) -> Float[Array, " width"]:
        return jax.random.uniform(jax.random.fold_in(key, layer), (width,), dtype)

    drawn = draw(keys) if keys.ndim == 0 else jax.vmap(draw)(keys)
    return drawn >= dropout


@dataclass(frozen=True, slots=True)
class LayersShape(ABC):
    """The sizes of a network of hidden layers, from which its parameters are counted.

    The first layer gets the `embedding` of features, if there is one, which has `in_size` numbers.
    """

    in_size: int
    out_size: int
    width: int
    depth: int
    embedding: PeriodicShape | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def leaves(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of its arrays: those of its embedding, then all matrices before all vectors.

        So the parameters that decay by default are the beginning of the vector, which takes one
        comparison instead of a mask.
        """

    @abstractmethod
    def leaves_in(self, larger: Any) -> list[int]:
        """The leaf of `larger` that contains each leaf of this network."""

    @property
    def embedding_leaves(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the arrays of its embedding."""
        return () if self.embedding is None else self.embedding.leaves

    @property
    def n_parameters(self) -> int:
        """The total number of parameters."""
        return sum(math.prod(leaf) for leaf in self.leaves)

    def within(self, larger: Self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """The parts of `vector`, the parameters of `larger`, that hold this network, as views.

        They are in the order of `leaves`. Hidden layers keep their number, the last layer stays the
        last, and units come first.
        """
        return [vector[span].reshape(leaf)[own] for span, leaf, own in _places(self, larger)]


@dataclass(frozen=True, slots=True)
class MlpShape(LayersShape):
    """The sizes of an MLP; its parameters are drawn without JAX."""

    layer_norm: bool

    @property
    def leaves(self) -> tuple[tuple[int, ...], ...]:
        """Weights, biases, then weight and bias of each LayerNorm."""
        sizes = [self.in_size, *[self.width] * self.depth, self.out_size]
        weights = [(after, before) for before, after in pairwise(sizes)]
        biases = [(after,) for after in sizes[1:]]
        norms = [(self.width,)] * (2 * self.depth * self.layer_norm)
        return (*self.embedding_leaves, *weights, *biases, *norms)

    def initial(
        self, rng: np.random.Generator, dtype: DTypeLike, frequency_scale: float = 1.0
    ) -> NDArray[Any]:
        """Fresh parameters, raveled in the order of `leaves`.

        Linear layers as in Equinox: weights and biases uniform within 1 / sqrt(fan-in). They are
        not drawn in a compiled program, because compiling the draws would take as long as training.
        """
        drawn = [*self._drawn(rng)]
        if self.embedding is not None:
            embedding = [*self.embedding.initial(rng, frequency_scale)]
            drawn = [*(embedding[place] for place in self.embedding.places), *drawn]
        return np.concatenate([leaf.ravel() for leaf in drawn]).astype(dtype)

    def _drawn(self, rng: np.random.Generator) -> Iterator[NDArray[Any]]:
        n_layers = self.depth + 1
        leaves = self.leaves[len(self.embedding_leaves) :]
        linear, norms = leaves[: 2 * n_layers], leaves[2 * n_layers :]
        bounds = [1 / math.sqrt(weight[1]) for weight in linear[:n_layers]]
        for bound, leaf in zip(bounds * 2, linear, strict=True):
            yield rng.uniform(-bound, bound, leaf)
        for index, norm in enumerate(norms):
            yield np.zeros(norm) if index % 2 else np.ones(norm)

    def leaves_in(self, larger: MlpShape) -> list[int]:
        layers = [*range(self.depth), larger.depth]
        n_layers = larger.depth + 1
        first = len(self.embedding_leaves)
        norms = range(len(self.leaves) - first - 2 * len(layers))
        own = [
            *layers,
            *(n_layers + layer for layer in layers),
            *(2 * n_layers + norm for norm in norms),
        ]
        return [*range(first), *(first + leaf for leaf in own)]


# computing these takes longer than copying the parameters
@lru_cache(maxsize=1024)
def _places(
    shape: LayersShape, larger: LayersShape
) -> list[tuple[slice, tuple[int, ...], tuple[slice, ...]]]:
    """For each leaf of `shape`: the place of that in `larger`, its own shape, and its part."""
    ends = [0, *accumulate(math.prod(leaf) for leaf in larger.leaves)]
    return [
        (slice(ends[to], ends[to + 1]), larger.leaves[to], tuple(slice(size) for size in leaf))
        for leaf, to in zip(shape.leaves, shape.leaves_in(larger), strict=True)
    ]


@dataclass(frozen=True)
class Padding:
    """How the vector of a network `padded` holds the parameters of a shape that runs at `run`.

    `order` says which leaf of `own` each array of the trial's own vector is; empty if they are in
    the same order.
    """

    own: LayersShape
    run: LayersShape
    padded: LayersShape
    order: tuple[int, ...] = ()

    def cut(self, vector: NDArray[Any]) -> NDArray[Any]:
        """The trial's own part of `vector`."""
        return np.concatenate([part.ravel() for part in self._parts(vector)])

    def pad(self, own: NDArray[Any]) -> NDArray[Any]:
        """The vector whose own part is `own` and whose padding is zero."""
        vector = np.zeros(self.padded.n_parameters, own.dtype)
        parts = self._parts(vector)
        given = np.split(own, np.cumsum([part.size for part in parts])[:-1])
        for target, part in zip(parts, given, strict=True):
            target[...] = part.reshape(target.shape)
        return vector

    def _parts(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """The trial's own arrays in `vector`, as views, in the order of its own vector."""
        parts = self.own.within(self.run, vector[: self.run.n_parameters])
        return [parts[leaf] for leaf in self.order or range(len(parts))]


class PaddedMLP(eqx.Module):
    """`mlp` as a lane that uses `width` units and `depth` hidden layers, both traced.

    `depth` is at least 1. `masked` says that some activation does not map 0 to 0.
    """

    mlp: MLP
    width: Int[AnyArray, ""]
    depth: Int[AnyArray, ""]
    masked: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[AnyArray, "batch features"],
        *,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        activation: Activation | None = None,
    ) -> Float[Array, "batch out_size"]:
        """The outputs for each example, as in `MLP`."""
        *hidden, last = self.mlp.layers
        x = encoded(self.mlp.encoding, self.mlp.embedding, x)
        for index, layer in enumerate(hidden):

            def apply(x: AnyArray, index: int = index, layer: eqx.nn.Linear = layer) -> Array:
                x = linear(layer, x)
                real = jnp.arange(x.shape[-1]) < self.width
                if self.mlp.norms:
                    x = normalised(self.mlp.norms[index], x, real)
                x = (activation or self.mlp.activation)(x)
                if self.masked:
                    x = jnp.where(real, x, 0)
                if self.mlp.has_dropout and keys is not None:
                    x = dropped(x, keys, index, dropout)
                return x

            # A skipped layer costs nothing if lanes run one by one: the condition is a branch.
            x = apply(x) if index == 0 else lax.cond(index < self.depth, apply, lambda x: x, x)
        return linear(last, x)
