"""A model as programs use it: one vector of parameters, and a function of it.

Optimizers therefore work on a single array. That compiles faster than one update per leaf, and also
runs faster on small networks (`scripts/bench` measures both together with everything else).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.models.decay import Decay, amounts
from sweeper.models.decay_masks import Amounts, Places, spread
from sweeper.models.layer_loop import Activations, Workspace
from sweeper.models.mlp import AnyArray, Padding
from sweeper.models.vectors import split_vector

Vector = Float[AnyArray, " parameters"]
Traced = Mapping[str, AnyArray]
# of a vector: from one place up to another; either may be traced
Stretch = tuple[Any, Any]


@dataclass(frozen=True)
class VectorLayout:
    """How a vector contains the arrays of a model, and what an optimizer does to them.

    `arrays` are the shapes of the arrays in the order of the vector, and `order` their places in
    the PyTree of the model. `shapes` returns the model with the shapes of its parameters and
    nothing else; `decay` says which of them decay.
    """

    arrays: Sequence[tuple[int, ...]]
    order: Sequence[int]
    dtype: str
    decay: Decay
    shapes: Callable[[], PyTree[jax.ShapeDtypeStruct]]

    @staticmethod
    def by_decay(shapes: PyTree, dtype: str, decay: Decay) -> VectorLayout:
        """Arrays that decay more come first, so that few stretches of the vector do."""
        shares, leaves = amounts(shapes, decay), jax.tree.leaves(shapes)
        order = sorted(range(len(shares)), key=lambda place: -shares[place])
        arrays = [leaves[place].shape for place in order]
        return VectorLayout(arrays, order, dtype, decay, lambda: shapes)

    @cached_property
    def sizes(self) -> list[int]:
        """How many numbers each array has."""
        return [math.prod(shape) for shape in self.arrays]

    @property
    def n_parameters(self) -> int:
        """The length of the vector."""
        return sum(self.sizes)

    @cached_property
    def amounts(self) -> NDArray[np.float64]:
        """How much each array decays, as a share of the weight decay."""
        return np.array(amounts(self.shapes(), self.decay))[list(self.order)]

    def decayed(self, traced: Traced, places: Places | None = None) -> Amounts:
        """How much each parameter decays, or those in `places`, as a share of the decay."""
        ends = np.cumsum(self.sizes).tolist()
        return spread(self.amounts, ends, self.n_parameters, self.dtype, places)

    def stretches(self, traced: Traced) -> Sequence[Stretch] | None:
        """Slices of the vector with a lane's own parameters; None if using them is not faster."""
        return None

    def leaves(self, vector: Vector) -> list[AnyArray]:
        """The arrays in the vector, in the order of the PyTree."""
        parts = zip(self.order, split_vector(vector, self.sizes), self.arrays, strict=True)
        arrays = {place: part.reshape(shape) for place, part, shape in parts}
        return [arrays[place] for place in range(len(arrays))]

    def tree(self, vector: Vector) -> PyTree[AnyArray]:
        """The model with the arrays in the vector, and nothing else."""
        return jax.tree.unflatten(jax.tree.structure(self.shapes()), self.leaves(vector))

    def vector(self, leaves: Sequence[Any]) -> NDArray[Any]:
        """The vector of these arrays, which are in the order of the PyTree."""
        raveled = [np.ravel(leaves[place]) for place in self.order]
        return np.concatenate(raveled) if raveled else np.zeros(0, self.dtype)


class Network(Protocol):
    """A kind of model with the parameters of one trial, or of every trial of a padded class.

    `needs_keys` says that outputs take keys in training: for dropout, and for what a user-defined
    model draws. `is_ensemble` says that members of an ensemble are trained, each with its own loss.
    """

    is_ensemble: ClassVar[bool] = False

    @property
    def vector(self) -> VectorLayout: ...
    @property
    def needs_keys(self) -> bool: ...
    @property
    def state(self) -> PyTree[jax.ShapeDtypeStruct] | None:
        """Shapes of the arrays that steps compute but the optimizer does not move; None if none."""
        return None

    def initial(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        """The vector of a trial with `settings` before training."""
        ...

    def initial_state(self, settings: Settings, rng: np.random.Generator) -> PyTree:
        """The `state` of a trial before training; `rng` as at the call of `initial`."""
        return None

    def traced(self, settings: Settings) -> dict[str, int]:
        """The parts of the trial's structure that the compiled program gets at run time."""
        return {}

    def padding(self, settings: Settings) -> Padding | None:
        """How the vector holds the trial's own parameters; None if they are all of it."""
        return None

    def workspace(self, rows: int) -> Workspace | None:
        """The workspace of `outputs` for batches of this many rows; None if it has none."""
        return None

    def outputs(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        workspace: Workspace | None = None,
    ) -> tuple[Float[Array, "batch out"], Activations | None]:
        """The outputs for each example; `keys`, one per example, are only passed in training.

        In the `workspace` that a step left, also the activations of the layers; with the gradient
        they are the workspace of the next step.
        """
        ...

    def fitted(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        workspace: Workspace | None = None,
    ) -> tuple[Float[Array, "*members batch out"], Activations | None]:
        """The outputs that training fits to the targets: those of each member of an ensemble."""
        return self.outputs(parameters, x, traced, keys, dropout, workspace)

    def evaluate_with(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        state: PyTree,
    ) -> Float[Array, "batch out"]:
        """The outputs for each example outside of training; a `state` stays as it is."""
        return self.outputs(parameters, x, traced)[0]

    def train_with(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        state: PyTree,
        keys: PRNGKeyArray | None = None,
    ) -> tuple[Float[Array, "batch out"], PyTree]:
        """The outputs for each example in training, and the next `state` if there is one."""
        return self.fitted(parameters, x, traced, keys)[0], state

    def model(self, parameters: Vector | None = None, traced: Traced | None = None) -> eqx.Module:
        """The model in Equinox, with these parameters or only their shapes.

        If a lane's `traced` values are given, it can be called although it is padded.
        """
        ...
