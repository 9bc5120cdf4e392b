"""A vector of parameters cut into parts, with a gradient that XLA writes part by part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from sweeper.models.mlp import AnyArray


def parted(parameters: AnyArray, sizes: Sequence[int]) -> Sequence[AnyArray]:
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
    # not concatenated, as the gradient of a split would be: with several threads XLA does that
    # element by element on a CPU, which takes longer than the whole step of a large network
    # zeros that XLA sees become a pad, which takes up to a third of the step of a large network
    vector = lax.optimization_barrier(jnp.zeros(sum(sizes), gradients[0].dtype))
    starts = np.cumsum((0, *sizes[:-1]))
    for start, gradient in zip(starts, gradients, strict=True):
        vector = lax.dynamic_update_slice(vector, gradient, (start,))
    return (vector,)


_split.defvjp(_split_forward, _split_backward)
