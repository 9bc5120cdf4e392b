"""Metrics of generated rows, beside those of the data; both in the data's own units."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sweeper.config.coupled import COVERED, WASSERSTEIN
from sweeper.programs.data_spec import DataSpec
from sweeper.randomness import generator

Rows = Float[Array, "rows features"]
Measure = Callable[[Rows, Rows], Float[Array, ""]]

N_DIRECTIONS = 64
# a mode is covered when this share of the generated rows lies within the radius of its mean
COVERED_SHARE, COVERED_RADIUS = 0.01, 0.25


def directions(seed: int, n_features: int) -> Float[np.ndarray, "directions features"]:
    """Directions drawn evenly, once for all trials of a study."""
    drawn = generator(seed, "directions").standard_normal((N_DIRECTIONS, n_features))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def _sliced_wasserstein(data: DataSpec) -> Measure:
    """The sliced 1-Wasserstein distance (Bonneel, Rabin, Peyré & Pfister 2015).

    It is the mean over directions of the distance between what rows are along each of them, which
    in one dimension is the mean difference between the sorted.
    """

    def distance(generated: Rows, real: Rows) -> Float[Array, ""]:
        along = jnp.asarray(directions(data.seed, data.in_size), generated.dtype).T
        # the directions first: an axis that is sorted is better the last
        sorted_ = (jnp.sort((rows @ along).T, axis=-1) for rows in (generated, real))
        return jnp.mean(jnp.abs(next(sorted_) - next(sorted_)))

    return distance


def _modes_covered(data: DataSpec) -> Measure:
    """How many modes of the mixture are covered by generated rows."""

    def covered(generated: Rows, real: Rows) -> Float[Array, ""]:
        means = jnp.asarray(data.mode_means, generated.dtype)
        squares = jnp.sum(jnp.square(generated[:, None] - means), axis=-1)
        shares = jnp.mean(squares <= COVERED_RADIUS**2, axis=0, dtype=generated.dtype)
        count = jnp.sum(shares >= COVERED_SHARE, dtype=generated.dtype)
        # weights that are no numbers generate rows that are none, and not nothing
        return jnp.where(jnp.all(jnp.isfinite(generated)), count, jnp.nan)

    return covered


_MEASURES: Mapping[str, Callable[[DataSpec], Measure]] = {
    WASSERSTEIN: _sliced_wasserstein,
    COVERED: _modes_covered,
}


def measure_of(name: str, data: DataSpec) -> Measure:
    """The metric of this name, of generated rows and as many of the data."""
    return _MEASURES[name](data)
