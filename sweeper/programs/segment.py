"""A segment of training as one compiled program: a loop over lanes, epochs and steps.

Start and stop epoch are traced, so that one program serves every round of a class; empty lanes stop
where they start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from sweeper.programs.program import (
    AnyArray,
    Batch,
    LaneParameters,
    Metrics,
    Program,
    State,
    judged_state,
)


class Folds(eqx.Module):
    """How the training rows are divided for cross-validation.

    Fold `i` validates the first `sizes[which[i]]` rows of `rows[i]`; features times `scale[i]` plus
    `shift[i]` are scaled by its own training rows.
    """

    rows: Int[AnyArray, "folds rows"]
    which: Int[AnyArray, " folds"]
    scale: Float[AnyArray, "folds features"]
    shift: Float[AnyArray, "folds features"]
    sizes: tuple[int, ...] = eqx.field(static=True)


class DeviceData(eqx.Module):
    """The data of a study, the same for all lanes; `order[i]` is that of member `i` of a trial.

    With `folds`, `val` is empty, and the members of a trial are the folds of its first replicate,
    then those of the next.
    """

    train: Batch
    val: Batch
    test: Batch
    order: Int[AnyArray, "members epochs steps batch"]
    folds: Folds | None = None

    def rows(self, rows: Int[Array, " batch"], member: Int[AnyArray, ""]) -> Batch:
        """These training rows, as a member of a trial sees them."""

        def take(part: AnyArray) -> Array:
            return jnp.asarray(part).at[rows].get(mode="promise_in_bounds")

        return self.scaled(jax.tree.map(take, self.train), member)

    def scaled(self, batch: Batch, member: Int[AnyArray, ""]) -> Batch:
        """`batch` with its features scaled for a member of a trial."""
        if self.folds is None:
            return batch
        fold = member % len(self.folds.which)
        scale, shift = (jnp.asarray(by)[fold] for by in (self.folds.scale, self.folds.shift))
        return replace(batch, x=batch.x * scale + shift, scale=scale, shift=shift)


class Lanes(eqx.Module):
    """The lanes of a bucket, stacked: every leaf has a leading axis of the class's capacity.

    Lane `i` is member `member[i]` of its trial, and trains from the end of epoch `start[i]` to the
    end of epoch `stop[i]`.
    """

    state: State
    lane: LaneParameters
    member: Int[AnyArray, " lane"]
    start: Int[AnyArray, " lane"]
    stop: Int[AnyArray, " lane"]


class Segment(eqx.Module):
    """The result of the lanes: states, `curves[i, e]` after epoch e + 1, and test metrics.

    If lanes may end early, `last` is the epoch that each trained to, and `ended` says whether it is
    over. If they are spread over devices, `device` is the index of each lane's.
    """

    state: State
    curves: Float[Array, "lane epochs metrics"]
    test: Float[Array, "lane test_metrics"]
    last: Int[Array, " lane"] | None = None
    ended: Bool[Array, " lane"] | None = None
    device: Int[Array, " lane"] | None = None


def segment(
    program: Program, lane_loop: Literal["map", "vmap"]
) -> Callable[[Lanes, DeviceData], Segment]:
    """The function to compile for a class: it trains every lane of a bucket.

    `map` trains one lane after the other in the same compiled loop: an empty lane costs nothing,
    and a lane's bits are those of the trial alone. `vmap` trains them in parallel, and in the same
    epoch if the program has a clock.
    """

    if lane_loop == "vmap" and program.epochs.has_clock:
        return lambda lanes, data: train_together(program, lanes, data)

    def lanes(lanes: Lanes, data: DeviceData) -> Segment:
        def one(lane: Lanes) -> Segment:
            return train_lane(program, lane, data)

        return lax.map(one, lanes) if lane_loop == "map" else jax.vmap(one)(lanes)

    return lanes


def train_lane(program: Program, lane: Lanes, data: DeviceData) -> Segment:
    """Train one lane, unstacked, from its start to its stop."""
    dtype = data.train.x.dtype
    order = _at(jnp.asarray(data.order), lane.member)
    curve = jnp.zeros((len(order), len(program.layout.metrics)), dtype)

    def epoch(index: Int[Array, ""], carry: tuple[State, Array]) -> tuple[State, Array]:
        state, curve = carry
        state, trained = _train_epoch(program, state, lane, data, _at(order, index), index)
        row = jnp.stack((*trained, *_validate(program, state, lane, data)))
        # not `.at[index]`, since XLA would check in each epoch whether its index is within bounds
        curve = lax.dynamic_update_index_in_dim(curve, row, index, 0)
        return program.epochs.remember(state, row, lane.lane), curve

    state = _begun(program, lane)
    if not program.epochs.ends_early:
        state, curve = lax.fori_loop(lane.start, lane.stop, epoch, (state, curve))
        return Segment(state, curve, _test(program, state, lane, data))

    def goes_on(carry: tuple[Int[Array, ""], tuple[State, Array]]) -> Bool[Array, ""]:
        index, (state, _) = carry
        return (index < lane.stop) & ~program.epochs.has_ended(state, lane.lane)

    last, (state, curve) = lax.while_loop(
        goes_on,
        lambda carry: (carry[0] + 1, epoch(*carry)),
        (jnp.asarray(lane.start), (state, curve)),
    )
    ended = program.epochs.has_ended(state, lane.lane)
    return Segment(state, curve, _test(program, state, lane, data), last, ended)


def _at(array: Array, index: Int[AnyArray, ""]) -> Array:
    """Element `index` of the leading axis."""
    return lax.dynamic_index_in_dim(array, index, keepdims=False, allow_negative_indices=False)


def train_together(program: Program, lanes: Lanes, data: DeviceData) -> Segment:
    """Train all lanes in parallel, in the same epoch at a time.

    A step then does the same for all of them, and a branch on the epoch is a single one. A lane
    that does not train in an epoch stays unchanged.
    """
    order = jnp.asarray(data.order)
    n_lanes, n_epochs = len(lanes.start), order.shape[1]
    curves = jnp.zeros((n_lanes, n_epochs, len(program.layout.metrics)), data.train.x.dtype)

    def epoch(index: Int[Array, ""], carry: tuple[State, Array, Array]) -> Any:
        def one(lane: Lanes, state: State, curve: Array, last: Array) -> Any:
            is_on = (lane.start <= index) & (index < lane.stop)
            if program.epochs.ends_early:
                is_on &= ~program.epochs.has_ended(state, lane.lane)
            rows = order[lane.member, index]
            fresh, trained = _train_epoch(program, state, lane, data, rows, index)
            row = jnp.stack((*trained, *_validate(program, fresh, lane, data)))
            fresh = program.epochs.remember(fresh, row, lane.lane)
            new = fresh, curve.at[index].set(row), index + 1
            return jax.tree.map(
                lambda new, old: jnp.where(is_on, new, old), new, (state, curve, last)
            )

        return jax.vmap(one)(lanes, *carry)

    state = jax.vmap(partial(_begun, program))(lanes)
    is_live = jnp.asarray(lanes.start < lanes.stop)
    first = jnp.min(jnp.where(is_live, lanes.start, n_epochs))
    start = state, curves, jnp.asarray(lanes.start)
    state, curves, last = lax.fori_loop(first, jnp.max(lanes.stop), epoch, start)
    test = jax.vmap(lambda lane, state: _test(program, state, lane, data))(lanes, state)
    if not program.epochs.ends_early:
        return Segment(state, curves, test)
    ended = jax.vmap(program.epochs.has_ended)(state, lanes.lane)
    return Segment(state, curves, test, last, ended)


def _train_epoch(
    program: Program,
    state: State,
    lane: Lanes,
    data: DeviceData,
    order: Int[Array, "steps batch"],
    epoch: Int[Array, ""],
) -> tuple[State, tuple[Array, ...]]:
    """One pass over the training rows in this `order`, and the means of its steps."""

    def step(state: State, rows: Int[Array, " batch"]) -> tuple[State, PyTree]:
        return program.step(state, data.rows(rows, lane.member), lane.lane, epoch)

    state, measured = lax.scan(step, program.epochs.enter(state), order)
    return replace(state, workspace=None), tuple(jnp.mean(values) for values in measured)


def _validate(program: Program, state: State, lane: Lanes, data: DeviceData) -> Metrics:
    """The metrics on the validation rows, or on the rows of the lane's own fold."""
    folds = data.folds
    if folds is None:
        return program.evaluate(state, data.val, lane.lane)
    fold = lane.member % len(folds.which)
    rows = jnp.asarray(folds.rows)[fold]

    def of_size(size: int) -> Metrics:
        return program.evaluate(state, data.rows(rows[:size], lane.member), lane.lane)

    # a metric may be any function of all rows, so rows cannot be masked: one branch per size
    branches = [partial(of_size, size) for size in folds.sizes]
    return lax.switch(jnp.asarray(folds.which)[fold], branches)


def _begun(program: Program, lane: Lanes) -> State:
    """The lane's state, initialised inside the program if it has not trained yet."""
    begun = program.begin(lane.state, lane.lane)
    is_new = lane.state.step == 0
    return jax.tree.map(lambda new, old: jnp.where(is_new, new, old), begun, lane.state)


def _test(
    program: Program, state: State, lane: Lanes, data: DeviceData
) -> Float[Array, " metrics"]:
    """The metrics on the test rows; an empty lane computes none."""
    dtype = data.train.x.dtype
    if not program.layout.test_metrics:
        return jnp.zeros(0, dtype)
    return lax.cond(
        lane.start < lane.stop,
        lambda: jnp.stack(
            program.evaluate(judged_state(state), data.scaled(data.test, lane.member), lane.lane)
        ),
        lambda: jnp.zeros(len(program.layout.test_metrics), dtype),
    )
