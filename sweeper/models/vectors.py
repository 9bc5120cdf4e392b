"""Vectors of parameters: reads, writes and cuts that XLA compiles to fast code on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from sweeper.models.mlp import AnyArray

Vector = Float[Array, " parameters"]


def part(vector: Vector, start: Any, size: int) -> Float[Array, " size"]:
    """This many numbers of the vector from `start`, which may be traced."""
    return lax.dynamic_slice(vector, (start,), (size,), allow_negative_indices=False)


def put(vector: Vector, numbers: Array, start: Any) -> Vector:
    """The vector with these numbers written in memory order from `start`."""
    return lax.dynamic_update_slice(vector, numbers.ravel(), (start,), allow_negative_indices=False)


def blank_gradient(vector: Vector, change: Array) -> Vector:
    """A vector to write a gradient into, once `change` is known."""
    # XLA turns zeros that it sees into a pad, which takes longer than everything that is written
    # into them; if they did not wait for `change`, they would be made once and copied at each step
    zero, _ = lax.optimization_barrier((jnp.zeros((), vector.dtype), change))
    return lax.optimization_barrier(jnp.full_like(vector, zero))


def turned(matrix: Float[Array, "rows columns"]) -> Float[Array, "columns rows"]:
    """The matrix transposed before a product: transposing its left side takes up to half longer."""
    return lax.optimization_barrier(matrix.T)


def made_first(make: Callable[[], Array], always: Bool[AnyArray, ""]) -> Array:
    """The result of `make`, computed before transposing; `always` is true, unknown to XLA.

    Otherwise XLA would compute each number at its place after transposing, with strides between the
    reads. It does not look into branches; if it can tell that `always` is true, as in a loop of one
    iteration, the product takes longer.
    """
    like = jax.eval_shape(make)
    return lax.cond(always, make, lambda: jnp.zeros(like.shape, like.dtype))


def split_vector(parameters: AnyArray, sizes: Sequence[int]) -> Sequence[AnyArray]:
    """The vector cut into parts of these sizes."""
    if not sizes:
        return []
    if isinstance(parameters, np.ndarray):
        return np.split(parameters, np.cumsum(sizes)[:-1])
    return _split(parameters, tuple(sizes))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _split(vector: Array, sizes: tuple[int, ...]) -> Sequence[Array]:
    return lax.split(vector, sizes)


def _split_forward(vector: Array, sizes: tuple[int, ...]) -> tuple[Sequence[Array], None]:
    return lax.split(vector, sizes), None


def _split_backward(sizes: tuple[int, ...], _: None, gradients: Sequence[Array]) -> tuple[Array]:
    # not concatenated, like the gradient of a split: with several threads, XLA does that element by
    # element on a CPU, which takes longer than the whole step of a large network; the zeros are
    # behind a barrier, because XLA would turn zeros that it sees into a pad, which takes up to a
    # third of a step
    vector = lax.optimization_barrier(jnp.zeros(sum(sizes), gradients[0].dtype))
    starts = np.cumsum((0, *sizes[:-1]))
    for start, gradient in zip(starts, gradients, strict=True):
        vector = lax.dynamic_update_slice(vector, gradient, (start,))
    return (vector,)


_split.defvjp(_split_forward, _split_backward)
