"""TabM as programs use it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.models.decay import DEFAULT, Decay
from sweeper.models.keys import fixed_key
from sweeper.models.layer_loop import Workspace
from sweeper.models.mlp import AnyArray
from sweeper.models.network import Network, Traced, Vector, VectorLayout
from sweeper.models.tabm import TabM, TabMShape, Target, averaged


@dataclass(frozen=True)
class TabMNetwork(Network):
    """A TabM of one shape; its prediction is the mean of its members."""

    shape: TabMShape
    activation: str
    has_dropout: bool
    target: Target
    dtype: str
    decay: Decay = DEFAULT

    is_ensemble = True

    @property
    def vector(self) -> VectorLayout:
        return self._vector

    @cached_property
    def _vector(self) -> VectorLayout:
        return VectorLayout.by_decay(self._abstract, self.dtype, self.decay)

    @property
    def needs_keys(self) -> bool:
        return self.has_dropout

    def initial(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        return self.vector.vector([*self.shape.initial(rng)]).astype(self.dtype)

    def outputs(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        room: Workspace | None = None,
    ) -> tuple[Float[Array, "batch out"], None]:
        of_members, room = self.fitted(parameters, x, traced, keys, dropout, room)
        return averaged(of_members, self.target), room

    def fitted(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        room: Workspace | None = None,
    ) -> tuple[Float[Array, "members batch out"], None]:
        model: TabM = self.vector.tree(parameters)
        return model.of_members(x, keys, dropout), None

    def model(self, parameters: Vector | None = None, traced: Traced | None = None) -> TabM:
        return self._abstract if parameters is None else self.vector.tree(parameters)

    @cached_property
    def _abstract(self) -> TabM:
        return eqx.filter_eval_shape(
            TabM,
            self.shape.in_size,
            self.shape.out_size,
            depth=self.shape.depth,
            width=self.shape.width,
            members=self.shape.members,
            activation=self.activation,
            has_dropout=self.has_dropout,
            target=self.target,
            dtype=jnp.dtype(self.dtype),
            key=fixed_key(),
        )
