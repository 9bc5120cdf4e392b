"""Piecewise-linear encoding of numbers (Gorishniy et al. 2022, arXiv 2203.05556)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

AnyArray = Array | np.ndarray
Edges = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class PiecewiseLinear:
    """Each number as one component per bin between its `edges`; other features stay as they are.

    A component is 0 below its bin, rises linearly within it, and is 1 above. The first one also
    falls below 0, and the last one rises above 1. Numbers are the first features. A number with
    fewer than two edges is constant, and has no component.
    """

    edges: Edges

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
                least = -np.inf if index == 0 else 0.0
                most = np.inf if index == len(bins) - 1 else 1.0
                found.append((place, start, 1 / (end - start), least, most))
        return found
