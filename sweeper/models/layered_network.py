"""What networks of hidden layers share: padding, activations chosen at run time, and their loop."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.config.model import LayersTable, RowModelTable
from sweeper.models import layer_loop
from sweeper.models.decay import DEFAULT, Decay
from sweeper.models.decay_masks import Amounts, Places, spread
from sweeper.models.encoding import PeriodicShape, PiecewiseLinear
from sweeper.models.layer_loop import Activations, LaneInputs, LayerLoop, Workspace
from sweeper.models.mlp import (
    ACTIVATIONS,
    OTHER_THAN_ZERO,
    Activation,
    AnyArray,
    Padding,
)
from sweeper.models.network import Network, Stretch, Traced, Vector, VectorLayout
from sweeper.models.vectors import split_vector

# numbers of a vector and its moments that approximately fit the second cache of a processor
_IN_CACHE = 1 << 17


@dataclass(frozen=True)
class LayeredNetwork(Network, ABC):
    """A network of one shape, or of every shape up to it if it is `padded`.

    If there are several `activations`, the program gets the index of each lane's own. `looped` says
    that its hidden layers are a loop, which is faster if lanes run one by one. Then there may be
    several `widths`, up to that of `shape`, and a lane runs at the smallest that holds its own.
    The first layer gets the `encoding` of features, if there is one, of the `in_size` of `shape`.
    """

    shape: Any
    activations: tuple[str, ...]
    has_dropout: bool
    padded: bool
    dtype: str
    decay: Decay = DEFAULT
    looped: bool = False
    widths: tuple[int, ...] = ()
    encoding: PiecewiseLinear | None = None

    @abstractmethod
    def own(self, settings: Settings) -> Any:
        """The shape of a trial."""

    @abstractmethod
    def fresh(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        """The vector of a trial alone before training."""

    @abstractmethod
    def loop(self, shape: Any) -> LayerLoop:
        """The hidden layers of a network of `shape`."""

    @property
    @abstractmethod
    def places(self) -> Sequence[int]:
        """The places in the PyTree of the leaves of `shape`."""

    @property
    def vector(self) -> VectorLayout:
        return self._vector

    @cached_property
    def _vector(self) -> VectorLayout:
        given = self.shape.leaves, self.places, self.dtype, self.decay
        return LayersVector(*given, self.model, self)

    @property
    def needs_keys(self) -> bool:
        return self.has_dropout

    def initial(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        own, padding = self.fresh(settings, rng), self.padding(settings)
        return own if padding is None else padding.pad(own)

    def traced(self, settings: Settings) -> dict[str, int]:
        model = layers_of(settings)
        integers: dict[str, int] = {}
        if self.padded:
            integers |= {"width": model.width, "depth": model.depth}
        if len(self.widths) > 1:
            integers["loop"] = self.widths.index(self.run(settings).width)
        if len(self.activations) > 1:
            integers["activation"] = self.activations.index(model.activation)
        return integers

    def padding(self, settings: Settings) -> Padding | None:
        own = self.own(settings)
        return None if own == self.shape else Padding(own, self.run(settings), self.shape)

    def workspace(self, rows: int) -> Workspace | None:
        if not self.is_loop:
            return None
        gradient = jnp.zeros(self.shape.n_parameters, self.dtype)
        return Workspace(gradient, self.loops[-1].blank(rows, self.dtype))

    def looped_outputs(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None,
        dropout: Float[AnyArray, ""] | float,
        workspace: Workspace | None,
    ) -> tuple[Float[Array, "*members batch out"], Activations | None]:
        """What the loop of hidden layers returns."""
        sizes = {name: traced[name] for name in LaneInputs._fields if name in traced}
        inputs = LaneInputs(**sizes, keys=keys, dropout=dropout)
        vector, x = jnp.asarray(parameters), jnp.asarray(x)
        embedding: PeriodicShape | None = self.shape.embedding
        if embedding is not None:
            # an embedding comes first in a vector
            size = embedding.n_parameters
            own, vector = split_vector(vector, (size, len(vector) - size))
            x = embedding.embedded(jnp.asarray(own), x)
            if workspace is not None:
                workspace = workspace._replace(gradient=workspace.gradient[size:])
        elif self.encoding is not None:
            x = self.encoding(x)
        return layer_loop.outputs_over(self.loops, jnp.asarray(vector), x, inputs, workspace)

    @property
    def is_loop(self) -> bool:
        """Whether there are hidden layers, in a loop."""
        return self.looped and self.shape.depth > 0

    @property
    def is_masked(self) -> bool:
        """Whether some activation does not map 0 to 0."""
        return bool(OTHER_THAN_ZERO & set(self.activations))

    @cached_property
    def shapes(self) -> list[Any]:
        """The shapes at which lanes run; the last is the largest."""
        return [replace(self.shape, width=width) for width in self.widths] or [self.shape]

    @property
    def loops(self) -> tuple[LayerLoop, ...]:
        """The hidden layers at each of the widths at which lanes run."""
        return tuple(self.loop(shape) for shape in self.shapes)

    def activation(self, traced: Traced) -> Activation | None:
        """The activation that the lane gets at run time, if there are several."""
        if len(self.activations) == 1:
            return None
        branches = [ACTIVATIONS[name] for name in self.activations]
        return lambda x: lax.switch(traced["activation"], branches, x)

    def run(self, settings: Settings) -> Any:
        """The shape at which the trial runs."""
        width = self.own(settings).width
        return next(shape for shape in self.shapes if width <= shape.width)


@dataclass(frozen=True)
class LayersVector(VectorLayout):
    """The vector of a network whose lanes may have parts of it; see `VectorLayout`."""

    network: LayeredNetwork

    def decayed(self, traced: Traced, places: Places | None = None) -> Amounts:
        if not (self.network.padded and self.decay.is_by_place):
            return spread(self.amounts, self._ends(traced), self.n_parameters, self.dtype, places)
        row = jnp.asarray(traced["depth"]) - 1
        amounts = self._amounts_by_depth, self._ends(traced), self.n_parameters
        return spread(*amounts, self.dtype, places, row)

    def stretches(self, traced: Traced) -> Sequence[Stretch] | None:
        network, shape = self.network, self.network.shape
        if not network.looped:
            return None
        if not network.padded:
            return ((0, self.n_parameters),) if self.n_parameters > _IN_CACHE else None
        # nothing of spare layers; all of its own layers, because spare units lie between the others
        ends = self._ends(traced)
        loop = network.loops[-1]
        if "loop" in traced:
            width = jnp.asarray(network.widths, jnp.int32)[traced["loop"]]
            loop = replace(loop, shape=replace(shape, width=width))
        stop, last = loop.weight_at(traced["depth"]), loop.weight_at(shape.depth)
        if shape.embedding is not None:
            stop, last = (shape.embedding.n_parameters + place for place in (stop, last))
        return (0, stop), (last, ends[-1])

    def _ends(self, traced: Traced) -> Sequence[Any]:
        """Where each array of the vector ends."""
        leaves = [loop.shape.leaves for loop in self.network.loops]
        ends = np.cumsum([[math.prod(leaf) for leaf in own] for own in leaves], 1)
        if "loop" not in traced:
            return ends[-1].tolist()
        own = jnp.asarray(ends, jnp.int32)[traced["loop"]]
        return [own[index] for index in range(ends.shape[1])]

    @cached_property
    def _amounts_by_depth(self) -> NDArray[np.float64]:
        """The amounts for lanes of depth 1, 2, ...; the last layer of each is at the last place."""
        shape = self.network.shape
        found = np.zeros((shape.depth, len(shape.leaves)))
        for row, depth in zip(found, range(1, shape.depth + 1), strict=True):
            own = replace(self.network, shape=replace(shape, depth=depth))
            row[own.shape.leaves_in(shape)] = own.vector.amounts
        return found


def frequency_scale(settings: Settings) -> float:
    """The standard deviation of the first frequencies of an embedding of numbers."""
    model = settings.model
    return model.frequency_scale if isinstance(model, RowModelTable) else 1.0


def layers_of(settings: Settings) -> LayersTable:
    """The model of a trial."""
    assert isinstance(settings.model, LayersTable)
    return settings.model
