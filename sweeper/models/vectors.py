"""What layers read of a vector of parameters and write into one, as XLA does it fast on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from sweeper.models.mlp import AnyArray

Vector = Float[Array, " parameters"]


def part(vector: Vector, start: Any, size: int) -> Float[Array, " size"]:
    """So many numbers of the vector, from `start` on, which may be traced."""
    return lax.dynamic_slice(vector, (start,), (size,), allow_negative_indices=False)


def put(vector: Vector, numbers: Array, start: Any) -> Vector:
    """The vector with these numbers, in the order in which they lie, from `start` on."""
    return lax.dynamic_update_slice(vector, numbers.ravel(), (start,), allow_negative_indices=False)


def blank_gradient(vector: Vector, change: Array) -> Vector:
    """A vector to write a gradient into, once `change` is known."""
    # zeros that XLA sees become a pad, which takes longer than all that is written into them; and
    # if they did not wait for `change`, they would be made once and copied at each step
    zero, _ = lax.optimization_barrier((jnp.zeros((), vector.dtype), change))
    return lax.optimization_barrier(jnp.full_like(vector, zero))


def turned(matrix: Float[Array, "rows columns"]) -> Float[Array, "columns rows"]:
    """The matrix turned before a product: one that turns its left side takes up to half longer."""
    return lax.optimization_barrier(matrix.T)


def made_first(make: Callable[[], Array], always: Bool[AnyArray, ""]) -> Array:
    """What `make` gives, made before it is turned; `always` holds, which XLA mostly cannot tell.

    XLA would make each number where it is put after turning, with strides between those that are
    read. It looks into no branch; where it can tell, as in a loop of one turn, that takes longer.
    """
    like = jax.eval_shape(make)
    return lax.cond(always, make, lambda: jnp.zeros(like.shape, like.dtype))
