"""From a network's one vector of parameters to the arrays of its model, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree
from numpy.typing import NDArray

from sweeper.models.network import Network


class Leaves:
    """Where each number of the vector stands in the model, in the order of its PyTree."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def of(self, vector: NDArray[Any]) -> list[NDArray[Any]]:
        """The arrays of the model."""
        return [vector[places] for places in self.places]

    def vector(self, arrays: Sequence[Any]) -> NDArray[Any]:
        """The vector of these arrays of the model."""
        first = np.asarray(arrays[0])
        vector = np.empty(self._network.n_parameters, first.dtype)
        for places, array in zip(self.places, arrays, strict=True):
            vector[places] = np.asarray(array)
        return vector

    @cached_property
    def places(self) -> list[NDArray[np.int64]]:
        """The places in the vector of the numbers of each array."""
        return [leaf.astype(np.int64) for leaf in jax.tree.leaves(self._numbered)]

    @cached_property
    def _numbered(self) -> PyTree:
        # numbers with a point, for these are what parameters are told by
        places = np.arange(self._network.n_parameters, dtype=np.float64)
        return parameters_of(self._network.model(places))


def parameters_of(model: PyTree) -> PyTree:
    """The arrays of a model that are trained, with None for all else in it."""
    return eqx.filter(model, eqx.is_inexact_array)
