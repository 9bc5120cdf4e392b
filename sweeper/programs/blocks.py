"""What a model gives for many rows, a block of them at a time.

What its layers give for all rows at once takes room in proportion to them: more than the processor
holds near, and on large data more than everything else that a lane needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from sweeper.programs.program import AnyArray
from sweeper.scheduler.cost import MEASURED_ROWS

Outputs = TypeVar("Outputs")


def in_blocks(
    outputs: Callable[[Float[Array, "block features"]], Outputs],
    x: Float[AnyArray, "rows features"],
) -> Outputs:
    """`outputs` of all rows, which gives arrays with an element for each row that it is given.

    Up to a block of rows is given as it is. None may depend on the others of its block.
    """
    x = jnp.asarray(x)
    if len(x) <= MEASURED_ROWS:
        return outputs(x)
    of_block = jax.eval_shape(outputs, x[:MEASURED_ROWS])
    blank: Any = jax.tree.map(lambda one: jnp.zeros((len(x), *one.shape[1:]), one.dtype), of_block)

    def block(index: Array, found: Any) -> Any:
        # the last one begins before the end of that before it, to be as long
        start = jnp.minimum(index * MEASURED_ROWS, len(x) - MEASURED_ROWS)
        own = outputs(lax.dynamic_slice_in_dim(x, start, MEASURED_ROWS))
        return jax.tree.map(
            lambda every, part: lax.dynamic_update_slice_in_dim(every, part, start, 0), found, own
        )

    return lax.fori_loop(0, -(-len(x) // MEASURED_ROWS), block, blank)
