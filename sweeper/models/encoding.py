"""Two encodings of numbers for networks (Gorishniy, Rubachev and Babenko 2022, arXiv 2203.05556).

Piecewise-linear encoding is fitted to the data; periodic embeddings are trained with the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.data.dataset import Edges

AnyArray = Array | np.ndarray


@dataclass(frozen=True)
class PiecewiseLinear:
    """Each number as one component per bin between its `edges`; other features stay as they are.

    A component is 0 below its bin, rises linearly within it, and is 1 above, so that a number
    beyond the training rows counts as the least or the greatest of them. If the encoding is
    `open_ended`, as in the paper, the first component falls below 0 and the last one rises above 1
    there. Numbers are the first features. A number with fewer than two edges is constant, and has
    no component.
    """

    edges: Edges
    open_ended: bool = False

    def size(self, n_features: int) -> int:
        """How many numbers the encoding of `n_features` features has."""
        return n_features - len(self.edges) + sum(max(0, len(own) - 1) for own in self.edges)

    def __call__(self, x: Float[AnyArray, "*batch features"]) -> Float[Array, "*batch encoded"]:
        """The encoding of one example, or of each of a batch."""
        x = jnp.asarray(x)
        place, *of_bins = zip(*self._components, strict=True)
        start, slope, least, most = (np.array(each, x.dtype) for each in of_bins)
        encoded = jnp.clip((x[..., np.array(place)] - start) * slope, least, most)
        return jnp.concatenate([encoded, x[..., len(self.edges) :]], axis=-1)

    @property
    def _components(self) -> list[tuple[int, float, float, float, float]]:
        """For each component its number, the start and slope of its bin, and its bounds."""
        found: list[tuple[int, float, float, float, float]] = []
        for place, own in enumerate(self.edges):
            bins = [*pairwise(own)]
            for index, (start, end) in enumerate(bins):
                least = -np.inf if self.open_ended and index == 0 else 0.0
                most = np.inf if self.open_ended and index == len(bins) - 1 else 1.0
                found.append((place, start, 1 / (end - start), least, most))
        return found


@dataclass(frozen=True, slots=True)
class PeriodicShape:
    """The sizes of a `Periodic` embedding; its parameters are drawn without JAX."""

    n_numbers: int
    n_frequencies: int
    embedding_size: int

    def size(self, n_features: int) -> int:
        """How many numbers the embedding of `n_features` features has."""
        return n_features + self.n_numbers * (self.embedding_size - 1)

    @property
    def leaves(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the arrays: weights, which decay by default, frequencies and biases."""
        weights = self.n_numbers, self.embedding_size, 2 * self.n_frequencies
        return weights, (self.n_numbers, self.n_frequencies), weights[:2]

    @property
    def places(self) -> tuple[int, ...]:
        """The place of each of the `leaves` in the PyTree."""
        return (1, 0, 2)

    @property
    def n_parameters(self) -> int:
        """The total number of parameters."""
        return sum(math.prod(leaf) for leaf in self.leaves)

    def initial(self, rng: np.random.Generator, scale: float) -> Iterator[NDArray[Any]]:
        """Fresh parameters in the order of the PyTree, as in section 3.4 of the paper.

        Frequencies are normal with standard deviation `scale`; weights and biases are uniform
        within 1 / sqrt(fan-in).
        """
        weight, frequencies, bias = self.leaves
        bound = 1 / math.sqrt(weight[-1])
        yield rng.normal(0.0, scale, frequencies)
        yield rng.uniform(-bound, bound, weight)
        yield rng.uniform(-bound, bound, bias)

    def embedded(
        self, vector: Float[Array, " parameters"], x: Float[AnyArray, "batch features"]
    ) -> Float[Array, "batch embedded"]:
        """The embedding of a batch, with the `leaves` in `vector`."""
        ends = [*accumulate(math.prod(leaf) for leaf in self.leaves)]
        starts = [0, *ends[:-1]]
        weight, frequencies, bias = (
            vector[start:end].reshape(leaf)
            for start, end, leaf in zip(starts, ends, self.leaves, strict=True)
        )
        return periodic(frequencies, weight, bias, x)


class Periodic(eqx.Module):
    """An embedding of each number, with parameters of its own: sines and cosines, linear, ReLU.

    Numbers are the first features; other features stay as they are.
    """

    frequencies: Float[Array, "numbers frequencies"]
    linear: eqx.nn.Linear

    def __init__(self, shape: PeriodicShape, dtype: DTypeLike, key: PRNGKeyArray) -> None:
        of_frequencies, *keys = jax.random.split(key, 1 + shape.n_numbers)
        size = shape.n_numbers, shape.n_frequencies
        self.frequencies = jax.random.normal(of_frequencies, size, dtype)

        def make(key: PRNGKeyArray) -> eqx.nn.Linear:
            return eqx.nn.Linear(2 * size[1], shape.embedding_size, dtype=dtype, key=key)

        self.linear = eqx.filter_vmap(make)(jnp.stack(keys))

    def __call__(self, x: Float[AnyArray, "*batch features"]) -> Float[Array, "*batch embedded"]:
        """The embedding of one example, or of each of a batch."""
        assert self.linear.bias is not None
        return periodic(self.frequencies, self.linear.weight, self.linear.bias, x)


def periodic(
    frequencies: Float[Array, "numbers frequencies"],
    weight: Float[Array, "numbers embedding twice_frequencies"],
    bias: Float[Array, "numbers embedding"],
    x: Float[AnyArray, "*batch features"],
) -> Float[Array, "*batch embedded"]:
    """What a `Periodic` with these parameters returns; section 3.4 of the paper (PLR)."""
    x, n_numbers = jnp.asarray(x), len(frequencies)
    angles = 2 * math.pi * frequencies * x[..., :n_numbers, None]
    waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    embedded = jax.nn.relu(jnp.einsum("...nf,nef->...ne", waves, weight) + bias)
    flat = embedded.reshape(*x.shape[:-1], -1)
    return jnp.concatenate([flat, x[..., n_numbers:]], axis=-1)


def encoded(
    encoding: PiecewiseLinear | None,
    embedding: Periodic | None,
    x: Float[AnyArray, "*batch features"],
) -> Float[AnyArray, "*batch encoded"]:
    """The input of the first layer for `x`."""
    if embedding is not None:
        return embedding(x)
    return x if encoding is None else encoding(x)
