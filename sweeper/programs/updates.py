"""Updates the parameters of a lane: all parameters of its class, or only the lane's own.

A padded lane only uses some stretches of its class's vector; in between are zeros, also in the
optimizer state. If lanes run one by one, the optimizer processes these stretches in chunks of one
size: a shallow network in a deep class then only pays for its own layers, and a chunk stays in the
processor's nearest cache while all its moments are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from sweeper.config import Settings
from sweeper.models.decay_masks import Places
from sweeper.models.network import Network, Stretch
from sweeper.models.vectors import Vector
from sweeper.programs.optimizers import clipping_of, moving_of, optimizer_of
from sweeper.programs.program import LaneParameters
from sweeper.programs.schedules import Number

Chunk = Float[Array, " chunk"]

# chunks four times as large take a tenth longer at width 32, and just as long at 128
_CHUNK = 1024


def apply_update(
    settings: Settings,
    lane: LaneParameters,
    network: Network,
    step: Number,
    gradients: Any,
    moments: PyTree,
    parameters: Vector,
    value: Float[Array, ""],
    after: Float[Array, ""],
) -> tuple[Vector, PyTree]:
    """The parameters and optimizer state after an update by `gradients`; like `optimizer_of`.

    `value` is the loss whose gradients they are, and `after` the last number that is computed from
    the parameters before the update.
    """
    stretches = network.vector.stretches(lane.traced)
    # other optimizers use whole arrays of the model
    if stretches is None or not settings.sole_optimizer.elementwise:
        optimizer = optimizer_of(settings, lane.hparams, lane.traced, network, step)
        loss = {"value": value, "grad": gradients}
        updates, moments = optimizer.update(gradients, moments, parameters, **loss)
        return eqx.apply_updates(parameters, updates), moments
    hparams: Mapping[str, Any] = lane.hparams
    clipping = clipping_of(settings, hparams)
    unused, own = moments[: len(clipping)], moments[len(clipping) :]
    for clip, state in zip(clipping, unused, strict=True):
        gradients = clip.update(gradients, state, parameters)[0]

    # lookups happen inside: around a loop, each would be a separate program for XLA
    def moving(places: Places) -> optax.GradientTransformation:
        return optax.chain(*moving_of(settings, lane.hparams, lane.traced, network, step, places))

    parameters, own = _in_chunks(moving, stretches, gradients, own, parameters, after)
    return parameters, (*unused, *own)


def _in_chunks(
    moving: Callable[[Places], optax.GradientTransformation],
    stretches: Sequence[Stretch],
    gradients: Vector,
    moments: PyTree,
    parameters: Vector,
    after: Float[Array, ""],
) -> tuple[Vector, PyTree]:
    """Apply `moving`, an elementwise optimizer, to the parameters in `stretches`."""
    size = min(_CHUNK, len(parameters))
    bounds = [tuple(jnp.asarray(end, jnp.int32) for end in stretch) for stretch in stretches]
    # not `//`, which handles signs
    counts = [lax.div(stop - start + (size - 1), jnp.int32(size)) for start, stop in bounds]
    vectors, numbers = eqx.partition(moments, lambda leaf: leaf.shape == parameters.shape)

    def chunk(index: Int[Array, ""], carry: tuple[Vector, PyTree, PyTree]) -> Any:
        parameters, vectors, _ = carry
        first, stop = _bounds(index, size, bounds, counts)
        # a chunk that would exceed the vector starts before its stretch instead
        place = jnp.minimum(first, len(parameters) - size)
        places = place + jnp.arange(size, dtype=jnp.int32)
        is_own = (places >= first) & (places < stop)

        def cut(vector: Vector) -> Chunk:
            return lax.dynamic_slice(vector, (place,), (size,), allow_negative_indices=False)

        def put(vector: Vector, new: Chunk) -> Vector:
            kept = jnp.where(is_own, new, cut(vector))
            return lax.dynamic_update_slice(vector, kept, (place,), allow_negative_indices=False)

        before, own = cut(parameters), eqx.combine(jax.tree.map(cut, vectors), numbers)
        updates, own = moving(places).update(cut(gradients), own, before)
        new, scalars = eqx.partition(own, lambda leaf: leaf.shape == (size,))
        parameters = put(parameters, eqx.apply_updates(before, updates))
        return parameters, jax.tree.map(put, vectors, new), scalars

    start = parameters, vectors, numbers
    parameters, vectors, numbers = lax.fori_loop(
        _zero_after(after), sum(counts[1:], counts[0]), chunk, start
    )
    return parameters, eqx.combine(vectors, numbers)


def _bounds(
    index: Int[Array, ""],
    size: int,
    stretches: Sequence[tuple[Array, ...]],
    counts: Sequence[Int[Array, ""]],
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Where the chunk with this number starts, and where its stretch ends."""
    (start, stop), *later = stretches
    first, passed = start + index * size, counts[0]
    for (start, end), count in zip(later, counts[1:], strict=True):
        is_here = index >= passed
        first = jnp.where(is_here, start + (index - passed) * size, first)
        stop = jnp.where(is_here, end, stop)
        passed += count
    return first, stop


def _zero_after(number: Float[Array, ""]) -> Int[Array, ""]:
    """0, available once `number` is known.

    The loop overwrites the parameters, from which the loss is also computed. XLA copies them twice
    per step unless it knows that the loss comes first, and it drops barriers before it checks.
    """
    return (number > jnp.inf).astype(jnp.int32)
