"""MLPs as programs use them: exact, padded, or with a loop of hidden layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.models.keys import fixed_key
from sweeper.models.layer_loop import Activations, LayerLoop, Workspace
from sweeper.models.layered_network import LayeredNetwork, frequency_scale, layers_of
from sweeper.models.mlp import MLP, AnyArray, MlpShape, PaddedMLP
from sweeper.models.network import Traced, Vector


@dataclass(frozen=True)
class MlpNetwork(LayeredNetwork):
    """An MLP of one shape, or of every shape up to it if it is `padded`."""

    shape: MlpShape

    def own(self, settings: Settings) -> MlpShape:
        model, shape = layers_of(settings), self.shape
        # a linear model has no width, so those of all widths share a program
        width = model.width if model.depth else shape.width
        return replace(shape, width=width, depth=model.depth)

    def fresh(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        return self.own(settings).initial(rng, self.dtype, frequency_scale(settings))

    def loop(self, shape: MlpShape) -> LayerLoop:
        return LayerLoop(shape, self.activations, self.has_dropout)

    @property
    def places(self) -> Sequence[int]:
        """The places in the PyTree: layer by layer, then the norms and the embedding."""
        n_layers, embedding = self.shape.depth + 1, self.shape.embedding
        last = len(self.shape.leaves) - len(self.shape.embedding_leaves)
        weights, norms = range(0, 2 * n_layers, 2), range(2 * n_layers, last)
        of_embedding = () if embedding is None else embedding.places
        of_layers = (*weights, *(place + 1 for place in weights), *norms)
        return (*(last + place for place in of_embedding), *of_layers)

    def outputs(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        workspace: Workspace | None = None,
    ) -> tuple[Float[Array, "batch out"], Activations | None]:
        if self.is_loop:
            return self.looped_outputs(parameters, x, traced, keys, dropout, workspace)
        model: Any = self.model(parameters, traced)
        activation = self.activation(traced)
        return model(x, keys=keys, dropout=dropout, activation=activation), None

    def model(
        self, parameters: Vector | None = None, traced: Traced | None = None
    ) -> MLP | PaddedMLP:
        if parameters is None:
            return self._abstract
        model: MLP = self.vector.tree(parameters)
        if traced is None or not self.padded:
            return model
        return PaddedMLP(model, traced["width"], traced["depth"], self.is_masked)

    @cached_property
    def _abstract(self) -> MLP:
        return eqx.filter_eval_shape(
            MLP,
            self.shape.in_size,
            self.shape.out_size,
            depth=self.shape.depth,
            width=self.shape.width,
            activation=self.activations[0],
            layer_norm=self.shape.layer_norm,
            has_dropout=self.has_dropout,
            encoding=self.encoding,
            embedding=self.shape.embedding,
            dtype=jnp.dtype(self.dtype),
            key=fixed_key(),
        )
