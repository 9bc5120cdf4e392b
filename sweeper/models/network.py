"""A model as programs use it: one vector of parameters, and a function of it.

So optimizers work on a single array. That compiles faster than one update per leaf, and is also
faster to run on small networks (`scripts/bench` measures both together with everything else).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.models.decay import Decay
from sweeper.models.decay_masks import Amounts, Places
from sweeper.models.layer_loop import Activations, Workspace
from sweeper.models.mlp import AnyArray, Padding

Vector = Float[AnyArray, " parameters"]
Traced = Mapping[str, Int[AnyArray, ""]]
# of a vector: from one place up to another; either may be traced
Stretch = tuple[Any, Any]


class Network(Protocol):
    """A kind of model with the parameters of one trial, or of every trial of a padded class.

    `n_parameters` is the length of its vector, `decay` what weight decay affects. `needs_keys` says
    that outputs take keys in training: for dropout, and for what a user-defined model draws.
    """

    @property
    def n_parameters(self) -> int: ...
    @property
    def decay(self) -> Decay: ...
    @property
    def needs_keys(self) -> bool: ...

    def initial(self, settings: Settings, rng: np.random.Generator) -> NDArray[Any]:
        """The vector of a trial with `settings` before training."""
        ...

    def traced(self, settings: Settings) -> dict[str, int]:
        """The parts of the trial's structure that the compiled program gets at run time."""
        ...

    def padding(self, settings: Settings) -> Padding | None:
        """How the vector holds the trial's own parameters; None if they are all of it."""
        ...

    def room(self, rows: int) -> Workspace | None:
        """The workspace of `outputs` for batches of this many rows; None if it has none."""
        ...

    def outputs(
        self,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        keys: PRNGKeyArray | None = None,
        dropout: Float[AnyArray, ""] | float = 0.0,
        room: Workspace | None = None,
    ) -> tuple[Float[Array, "batch out"], Activations | None]:
        """The outputs for each example; `keys`, one per example, are only passed in training.

        In the `room` that a step left, also the activations of the layers; with the gradient they
        are the room of the next step.
        """
        ...

    def decayed(self, traced: Traced, places: Places | None = None) -> Amounts:
        """How much each parameter decays, or those in `places`, as a share of the decay."""
        ...

    def stretches(self, traced: Traced) -> Sequence[Stretch] | None:
        """Slices of the vector with a lane's own parameters; None if using them is not faster."""
        ...

    def model(self, parameters: Vector | None = None, traced: Traced | None = None) -> eqx.Module:
        """The model in Equinox, with these parameters or only their shapes.

        If a lane's `traced` values are given, it can be called although it is padded.
        """
        ...

    def shapes(self) -> PyTree[jax.ShapeDtypeStruct]:
        """The model with the shapes of its parameters, and nothing else."""
        ...
