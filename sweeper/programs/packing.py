"""PyTrees of several structures as vectors of the same lengths, so that lanes can be stacked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from sweeper.programs.program import AnyArray

Vectors = Mapping[str, AnyArray]
"""One vector for each dtype, by its name."""


@dataclass(frozen=True)
class Packing:
    """The arrays of a PyTree one after the other, filled up with zeros to the longest of `trees`.

    `trees` have a shape and a dtype at each leaf; a PyTree that is packed has those of one of
    them.
    """

    trees: tuple[PyTree, ...]

    @property
    def abstract(self) -> Vectors:
        """Shapes and dtypes of what is packed."""
        found: dict[str, Any] = {
            dtype: jax.ShapeDtypeStruct((length,), dtype) for dtype, length in self._lengths.items()
        }
        return found

    def packed(self, tree: PyTree) -> Vectors:
        """`tree` as vectors; in NumPy arrays where it is."""
        leaves = jax.tree.leaves(tree)
        xp: Any = jnp if any(isinstance(leaf, jax.Array) for leaf in leaves) else np
        parts: dict[str, list[AnyArray]] = {dtype: [] for dtype in self._lengths}
        for leaf in leaves:
            parts[_dtype(leaf)].append(xp.ravel(leaf))
        return {
            dtype: xp.concatenate([*some, xp.zeros(length - sum(map(len, some)), dtype)])
            for (dtype, length), some in zip(self._lengths.items(), parts.values(), strict=True)
        }

    def unpacked(self, vectors: Vectors, which: int) -> PyTree:
        """The PyTree with the structure of `trees[which]` that `vectors` hold."""
        like, structure = jax.tree.flatten(self.trees[which])
        starts = dict.fromkeys(self._lengths, 0)
        leaves: list[AnyArray] = []
        for leaf in like:
            start = starts[_dtype(leaf)]
            stop = starts[_dtype(leaf)] = start + math.prod(leaf.shape)
            leaves.append(vectors[_dtype(leaf)][start:stop].reshape(leaf.shape))
        return jax.tree.unflatten(structure, leaves)

    @cached_property
    def _lengths(self) -> Mapping[str, int]:
        longest: dict[str, int] = {}
        for tree in self.trees:
            own: dict[str, int] = {}
            for leaf in jax.tree.leaves(tree):
                own[_dtype(leaf)] = own.get(_dtype(leaf), 0) + math.prod(leaf.shape)
            longest |= {name: max(size, longest.get(name, 0)) for name, size in own.items()}
        return longest


def _dtype(leaf: Any) -> str:
    return np.dtype(leaf.dtype).name
