"""TabM as programs use it: exact, padded, or with a loop of hidden layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.models.keys import fixed_key
from sweeper.models.layer_loop import Activations, Workspace
from sweeper.models.layered_network import LayeredNetwork, frequency_scale, layers_of
from sweeper.models.mlp import AnyArray, Padding
from sweeper.models.network import Traced, Vector, VectorLayout
from sweeper.models.tabm import PaddedTabM, TabM, TabMShape, Target, averaged
from sweeper.models.tabm_loop import TabMLoop


@dataclass(frozen=True)
class TabMNetwork(LayeredNetwork):
    """A TabM of one shape, or of every shape up to it if it is `padded`.

    Its prediction is the mean of its members. Alone, arrays that decay more come first in its
    vector.
    """

    shape: TabMShape
    target: Target = "numbers"

    is_ensemble = True

    def own(self, settings: Settings) -> TabMShape:
        model = layers_of(settings)
        return replace(self.shape, width=model.width, depth=model.depth)

    def fresh(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        leaves = [*self.own(settings).initial(rng, frequency_scale(settings))]
        ordered = [np.ravel(leaves[place]) for place in self._places_alone(settings)]
        return np.concatenate(ordered).astype(self.dtype)

    def loop(self, shape: TabMShape) -> TabMLoop:
        return TabMLoop(shape, self.activations, self.has_dropout)

    @property
    def places(self) -> Sequence[int]:
        return self.shape.places

    @cached_property
    def _vector(self) -> VectorLayout:
        if self.padded:
            return super()._vector
        return VectorLayout.by_decay(self._abstract, self.dtype, self.decay)

    def padding(self, settings: Settings) -> Padding | None:
        if not self.padded:
            return None
        own = self.own(settings)
        order = tuple(own.places.index(place) for place in self._places_alone(settings))
        return Padding(own, self.run(settings), self.shape, order)

    def _places_alone(self, settings: Settings) -> Sequence[int]:
        """The places in the PyTree, in the order of the vector of the trial alone."""
        # sizes do not affect which arrays decay
        shape = replace(self.shape, in_size=1, out_size=1, width=1, depth=self.own(settings).depth)
        return _places(replace(self, shape=shape, padded=False, looped=False, widths=()))

    def outputs(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        workspace: Workspace | None = None,
    ) -> tuple[Float[Array, "batch out"], Activations | None]:
        of_members, given = self.fitted(parameters, x, traced, keys, dropout, workspace)
        return averaged(of_members, self.target), given

    def fitted(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        workspace: Workspace | None = None,
    ) -> tuple[Float[Array, "members batch out"], Activations | None]:
        if self.is_loop:
            return self.looped_outputs(parameters, x, traced, keys, dropout, workspace)
        model = self.model(parameters, traced)
        return model.of_members(x, keys, dropout, self.activation(traced)), None

    def model(
        self, parameters: Vector | None = None, traced: Traced | None = None
    ) -> TabM | PaddedTabM:
        if parameters is None:
            return self._abstract
        model: TabM = self.vector.tree(parameters)
        if traced is None or not self.padded:
            return model
        return PaddedTabM(model, traced["width"], traced["depth"], self.is_masked)

    @cached_property
    def _abstract(self) -> TabM:
        return eqx.filter_eval_shape(
            TabM,
            self.shape.in_size,
            self.shape.out_size,
            depth=self.shape.depth,
            width=self.shape.width,
            members=self.shape.members,
            activation=self.activations[0],
            has_dropout=self.has_dropout,
            target=self.target,
            encoding=self.encoding,
            embedding=self.shape.embedding,
            dtype=jnp.dtype(self.dtype),
            key=fixed_key(),
        )


@lru_cache(maxsize=1024)
def _places(network: TabMNetwork) -> tuple[int, ...]:
    return tuple(network.vector.order)
