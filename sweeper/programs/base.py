"""Code shared by all programs: updates, hyperparameters, evaluation in blocks.

Evaluating all rows at once would take memory in proportion to their number, more than a processor's
caches hold, so rows are evaluated in blocks.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import (
    AnyArray,
    Epochs,
    LaneParameters,
    Parameters,
    State,
)
from sweeper.programs.schedules import schedule_steps
from sweeper.scheduler.cost import MEASURED_ROWS


def stepped(
    state: State, model: Parameters, optimizer: PyTree[Array], lane: LaneParameters
) -> State:
    """`state` after an update that returned `model` and `optimizer`."""
    average = state.average
    if average is not None:
        decay = lane.hparams["train.ema"]
        average = jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, average, model)
    return State(model, optimizer, state.step + 1, average, state.kept, state.patience)


@dataclass(frozen=True)
class Tabled(ABC):
    """A built-in program; see `Program`. Every epoch is the same unless a subclass says otherwise.

    `settings` are those of any trial of the class; differences are in each trial's lane.
    """

    settings: Settings
    data: DataSpec

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.settings.train.metric_names

    @property
    def test_metrics(self) -> tuple[str, ...]:
        return self.settings.train.test_metric_names if self.data.has_test else ()

    @property
    def layout(self) -> Self:
        return self

    @property
    def saver(self) -> Self:
        return self

    @property
    def epochs(self) -> Epochs:
        return Epochs(self.settings, self.metrics)

    @property
    def phases(self) -> Mapping[str, Self]:
        return {}

    def _hparams(self, settings: Settings) -> dict[str, float]:
        return settings.traced() | schedule_steps(settings, self.data)

    def _arrays_of(self, settings: Settings) -> dict[str, NDArray[Any]]:
        """The traced hyperparameters as in a lane: with Python floats, Optax would use float32."""
        dtype = self.data.dtype
        return {key: np.asarray(value, dtype) for key, value in self._hparams(settings).items()}


Outputs = TypeVar("Outputs")


def in_blocks(
    outputs: Callable[[Float[Array, "block features"]], Outputs],
    x: Float[AnyArray, "rows features"],
) -> Outputs:
    """The `outputs` of all rows, computed block by block.

    At most a block of rows is passed at a time. Rows must not depend on others in their block.
    """
    x = jnp.asarray(x)
    if len(x) <= MEASURED_ROWS:
        return outputs(x)
    of_block = jax.eval_shape(outputs, x[:MEASURED_ROWS])
    blank: Any = jax.tree.map(lambda one: jnp.zeros((len(x), *one.shape[1:]), one.dtype), of_block)

    def block(index: Array, found: Any) -> Any:
        # the last block overlaps the previous one, to have the same length
        start = jnp.minimum(index * MEASURED_ROWS, len(x) - MEASURED_ROWS)
        own = outputs(lax.dynamic_slice_in_dim(x, start, MEASURED_ROWS))
        return jax.tree.map(
            lambda every, part: lax.dynamic_update_slice_in_dim(every, part, start, 0), found, own
        )

    return lax.fori_loop(0, -(-len(x) // MEASURED_ROWS), block, blank)
