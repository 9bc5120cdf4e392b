"""Code shared by all programs: updates, and evaluation in blocks.

Evaluating all rows at once would take memory in proportion to their number, more than a processor's
caches hold, so rows are evaluated in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from sweeper.programs.program import (
    AnyArray,
    LaneParameters,
    Parameters,
    State,
)
from sweeper.scheduler.cost import MEASURED_ROWS


def stepped(
    state: State, model: Parameters, optimizer: PyTree[Array], lane: LaneParameters
) -> State:
    """`state` after an update that returned `model` and `optimizer`."""
    average = state.average
    if average is not None:
        decay = lane.hparams["train.ema"]
        average = jax.tree.map(lambda old, new: decay * old + (1 - decay) * new, average, model)
    return replace(state, model=model, optimizer=optimizer, step=state.step + 1, average=average)


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
