"""MLPs as programs use them: exact, padded, or with a loop of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.config.model import MlpTable
from sweeper.models import layer_loop
from sweeper.models.decay import DEFAULT, Decay
from sweeper.models.decay_masks import Amounts, Places, spread
from sweeper.models.encoding import PiecewiseLinear
from sweeper.models.keys import fixed_key
from sweeper.models.layer_loop import Activations, LaneInputs, LayerLoop, Workspace
from sweeper.models.mlp import (
    ACTIVATIONS,
    MLP,
    OTHER_THAN_ZERO,
    Activation,
    AnyArray,
    MlpShape,
    PaddedMLP,
    Padding,
)
from sweeper.models.network import Network, Stretch, Traced, Vector, VectorLayout

# numbers of a vector and its moments that approximately fit the second cache of a processor
_IN_CACHE = 1 << 17


@dataclass(frozen=True)
class MlpNetwork(Network):
    """An MLP of one shape, or of every shape up to it if it is `padded`.

    If there are several `activations`, the program gets the index of each lane's own. `looped` says
    that its hidden layers are a loop, which is faster if lanes run one by one. Then there may be
    several `widths`, up to that of `shape`, and a lane runs at the smallest that holds its own. The
    first layer gets the `encoding` of features, if there is one, of the `in_size` of `shape`.
    """

    shape: MlpShape
    activations: tuple[str, ...]
    has_dropout: bool
    padded: bool
    dtype: str
    decay: Decay = DEFAULT
    looped: bool = False
    widths: tuple[int, ...] = ()
    encoding: PiecewiseLinear | None = None

    @property
    def vector(self) -> VectorLayout:
        return self._vector

    @cached_property
    def _vector(self) -> VectorLayout:
        given = self.shape.leaves, self._order, self.dtype, self.decay
        return _MlpVector(*given, lambda: self._abstract, self)

    @property
    def needs_keys(self) -> bool:
        return self.has_dropout

    def initial(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        own, padding = self._own(settings).initial(rng, self.dtype), self.padding(settings)
        return own if padding is None else padding.pad(own)

    def traced(self, settings: Settings) -> dict[str, int]:
        model = _mlp(settings)
        told: dict[str, int] = {}
        if self.padded:
            told |= {"width": model.width, "depth": model.depth}
        if len(self.widths) > 1:
            told["loop"] = self.widths.index(self._run(settings).width)
        if len(self.activations) > 1:
            told["activation"] = self.activations.index(model.activation)
        return told

    def padding(self, settings: Settings) -> Padding | None:
        own = self._own(settings)
        return None if own == self.shape else Padding(own, self._run(settings), self.shape)

    def room(self, rows: int) -> Workspace | None:
        if not self._is_loop:
            return None
        gradient = jnp.zeros(self.shape.n_parameters, self.dtype)
        return Workspace(gradient, self.loops[-1].blank(rows, self.dtype))

    def outputs(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        room: Workspace | None = None,
    ) -> tuple[Float[Array, "batch out"], Activations | None]:
        if self._is_loop:
            sizes = {name: traced[name] for name in LaneInputs._fields if name in traced}
            told = LaneInputs(**sizes, keys=keys, dropout=dropout)
            x = jnp.asarray(x) if self.encoding is None else self.encoding(x)
            given = jnp.asarray(parameters), x, told, room
            return layer_loop.outputs_over(self.loops, *given)
        model: Any = self.model(parameters, traced)
        activation = self._activation(traced)
        return model(x, keys=keys, dropout=dropout, activation=activation), None

    def model(
        self, parameters: Vector | None = None, traced: Traced | None = None
    ) -> MLP | PaddedMLP:
        if parameters is None:
            return self._abstract
        model: MLP = self.vector.tree(parameters)
        if traced is None or not self.padded:
            return model
        masked = bool(OTHER_THAN_ZERO & set(self.activations))
        return PaddedMLP(model, traced["width"], traced["depth"], masked)

    @property
    def _is_loop(self) -> bool:
        return self.looped and self.shape.depth > 0

    @cached_property
    def _shapes(self) -> list[MlpShape]:
        """The shapes at which lanes run; the last is the largest."""
        return [replace(self.shape, width=width) for width in self.widths] or [self.shape]

    @property
    def loops(self) -> tuple[LayerLoop, ...]:
        """The hidden layers at each of the widths at which lanes run."""
        return tuple(LayerLoop(shape, self.activations, self.has_dropout) for shape in self._shapes)

    @property
    def _order(self) -> Sequence[int]:
        """The places in the PyTree, which goes layer by layer, then through the norms."""
        n_layers = self.shape.depth + 1
        weights, norms = range(0, 2 * n_layers, 2), range(2 * n_layers, len(self.shape.leaves))
        return (*weights, *(place + 1 for place in weights), *norms)

    def _activation(self, traced: Traced) -> Activation | None:
        if len(self.activations) == 1:
            return None
        branches = [ACTIVATIONS[name] for name in self.activations]
        return lambda x: lax.switch(traced["activation"], branches, x)

    def _run(self, settings: Settings) -> MlpShape:
        """The shape at which the trial runs."""
        width = self._own(settings).width
        return next(shape for shape in self._shapes if width <= shape.width)

    def _own(self, settings: Settings) -> MlpShape:
        model, shape = _mlp(settings), self.shape
        # a linear model has no width, so those of all widths share a program
        width = model.width if model.depth else shape.width
        return MlpShape(shape.in_size, shape.out_size, width, model.depth, model.layer_norm)

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
            dtype=jnp.dtype(self.dtype),
            key=fixed_key(),
        )


@dataclass(frozen=True)
class _MlpVector(VectorLayout):
    """The vector of a network whose lanes may have parts of it; see `VectorLayout`."""

    network: MlpNetwork

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
        return (0, loop.weight_at(traced["depth"])), (loop.weight_at(shape.depth), ends[-1])

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


def _mlp(settings: Settings) -> MlpTable:
    assert settings.model.kind == "mlp"
    return settings.model
