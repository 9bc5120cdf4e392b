"""Stacks trials into the lanes of a program, and unstacks their results."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.errors import counted
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.open_devices import own_xla_threads
from sweeper.programs.data_spec import is_blank
from sweeper.programs.program import Layout
from sweeper.programs.segment import Lanes, Segment
from sweeper.scheduler.classes import Lane
from sweeper.trial import OVER, Curve, LaneRecord, Member, Place, Reason


@dataclass(frozen=True, slots=True)
class TrialStart:
    """A trial about to train: its members' states, and the last epoch that they have finished."""

    states: tuple[PyTree, ...]
    epoch: int
    retrained: bool = False


def stack(
    work: Work,
    starts: Sequence[TrialStart],
    settings: Sequence[Settings],
    program: Layout,
    members: Sequence[Member] = (Member(),),
) -> Lanes:
    """The stacked lanes, filled up to the capacity with lanes that stop where they start.

    The members of a trial are next to each other.
    """
    spare = work.program.capacity - len(starts) * len(members)

    def stacked(values: Sequence[Any]) -> Any:
        padded = [*values, *[values[0]] * spare]
        return jax.tree.map(lambda *leaves: _stacked(leaves), *padded)

    def bounds(epochs: Iterable[int]) -> NDArray[np.int32]:
        return np.array([*np.repeat([*epochs], len(members)), *[0] * spare], np.int32)

    return Lanes(
        state=stacked([state for start in starts for state in start.states]),
        lane=stacked(
            [
                program.lane(spec.number, trial_settings, member.replicate)
                for spec, trial_settings in zip(work.specs, settings, strict=True)
                for member in members
            ]
        ),
        member=np.array([*range(len(members))] * len(starts) + [0] * spare, np.int32),
        start=bounds(start.epoch for start in starts),
        stop=bounds(lane.epoch_to for lane in work.bucket.lanes),
    )


def _stacked(leaves: Sequence[Any]) -> NDArray[Any]:
    """`leaves` stacked; blank ones, such as moments of fresh lanes, are not copied."""
    written = [index for index, leaf in enumerate(leaves) if not is_blank(leaf)]
    if len(written) == len(leaves):
        return np.stack(leaves)
    assert len({(leaf.shape, leaf.dtype) for leaf in leaves}) == 1, (
        "all lanes have the same program"
    )
    whole = np.zeros((len(leaves), *leaves[0].shape), leaves[0].dtype)
    for index in written:
        whole[index] = leaves[index]
    return whole


def abstract_lanes(program: Layout, capacity: int, settings: Settings) -> Lanes:
    """Shapes and dtypes of the lanes of a class; `settings` are those of any of its trials."""
    bounds = jax.ShapeDtypeStruct((capacity,), np.int32)

    def stacked(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((capacity, *leaf.shape), leaf.dtype)

    return Lanes(
        state=jax.tree.map(stacked, program.abstract()),
        lane=jax.tree.map(stacked, program.lane(0, settings)),
        member=bounds,  # type: ignore[arg-type]
        start=bounds,  # type: ignore[arg-type]
        stop=bounds,  # type: ignore[arg-type]
    )


def lanes_of(trial: int, n_members: int) -> slice:
    """The lanes of the trial at this index of a bucket: one for each of its members."""
    return slice(trial * n_members, (trial + 1) * n_members)


def has_ended(segment: Segment, lanes: slice) -> bool:
    """Whether all of these lanes have ended before their last epoch."""
    return segment.ended is not None and bool(segment.ended[lanes].all())


def state_of(lane: int, segment: Segment) -> PyTree:
    """The state of one lane, padded as in its program."""
    return jax.tree.map(lambda leaf: leaf[lane], segment.state)


def judged_columns(metrics: Sequence[str], objectives: Sequence[str]) -> list[int]:
    """The metrics that must stay finite: the losses and the objectives.

    Others may be undefined for good reason, such as r2 if the targets do not vary.
    """
    losses = ("train_loss", "val_loss")
    return [i for i, name in enumerate(metrics) if name.startswith(losses) or name in objectives]


def record_of(
    lane: Lane, segment: Segment, lanes: slice, judged: Sequence[int], steps: int, place: Place
) -> LaneRecord:
    """The result of a trial's `lanes` in this round, up to the first epoch not finite in all.

    If a lane diverged, test scores are left out: they would be of a later epoch than the last.
    """
    alive = _alive(lane, segment, lanes)
    rows = np.array(segment.curves[lanes, lane.epoch_from :], np.float64)[:, : alive.shape[1]]
    fine = np.isfinite(rows[:, :, judged]).all(axis=2) | ~alive
    bad = np.flatnonzero(~fine.all(axis=0))
    length = int(bad[0]) + 1 if len(bad) else rows.shape[1]
    rows[~alive] = OVER
    tests = np.asarray(segment.test[lanes], np.float64)
    is_finite, has_spread = not len(bad), len(tests) > 1
    return LaneRecord(
        number=lane.number,
        curve=Curve.of_members(lane.number, lane.epoch_from + 1, rows[:, :length], steps),
        checkpoint="",
        test=tuple(tests.mean(axis=0).tolist()) if is_finite else (),
        test_std=tuple(tests.std(axis=0, ddof=1).tolist()) if is_finite and has_spread else (),
        place=place,
        diverged_epoch=lane.epoch_from + length if len(bad) else None,
        ended=has_ended(segment, lanes),
    )


def _alive(lane: Lane, segment: Segment, lanes: slice) -> NDArray[np.bool_]:
    """Whether each member trained in each epoch, up to the last in which one did."""
    epochs = lane.epoch_to - lane.epoch_from
    last = np.full(lanes.stop - lanes.start, epochs)
    if segment.last is not None:
        last = np.asarray(segment.last[lanes]) - lane.epoch_from
    return np.arange(last.max()) < last[:, None]


def place_on(device: Any, place: str, memory_fraction: float | None) -> Place:
    """The thread or worker `place` of this process, on one of its devices."""
    return Place(
        place=place,
        device=_device_names([device]),
        host=socket.gethostname(),
        worker_pid=os.getpid(),
        memory_fraction=memory_fraction,
        bytes_limit=_memory(device).get("bytes_limit"),
        xla_threads=own_xla_threads() if device.platform == "cpu" else None,
    )


def on_devices(place: Place, devices: Sequence[Any]) -> Place:
    """`place` with the devices that a program was compiled for."""
    return replace(place, device=_device_names(devices))


def place_of(lanes: slice, segment: Segment, place: Place, devices: Sequence[Any]) -> Place:
    """Where the `lanes` of a trial trained: one device each, if they are spread over several."""
    if segment.device is None:
        return place
    used = sorted({int(device) for device in segment.device[lanes]})
    return on_devices(place, [devices[device] for device in used])


def peak_memory(devices: Sequence[Any]) -> int | None:
    """The most bytes that any of the devices ever used; unknown for a CPU."""
    peaks = [_memory(device).get("peak_bytes_in_use") for device in devices]
    return max((peak for peak in peaks if peak is not None), default=None)


def _device_names(devices: Sequence[Any]) -> str:
    """The name of one device, such as `cpu:0`, or of several, such as `gpu:0,1`."""
    return f"{devices[0].platform}:{','.join(str(device.id) for device in devices)}"


def _memory(device: Any) -> dict[str, int]:
    """The memory statistics of a device; a CPU has none."""
    return device.memory_stats() or {}


def shortages(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """For each class that did not fit into memory, its size, and how it was trained instead."""
    by_class: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.shortage:
            by_class.setdefault(outcome.bucket.class_id, []).append(outcome)
    return {
        class_id: f"class {class_id}: {of_class[0].shortage}; {_describe_fallback(of_class)}"
        for class_id, of_class in by_class.items()
    }


def _describe_fallback(outcomes: Sequence[Outcome]) -> str:
    """How the buckets of a class were trained instead."""
    lanes = [lane for outcome in outcomes for lane in outcome.lanes]
    failed = sum(lane.failure is not None and lane.failure.reason is Reason.OOM for lane in lanes)
    own = sum(outcome.own_programs for outcome in outcomes)
    why = f"because {'it does' if failed == 1 else 'they do'} not fit alone"
    if failed == len(lanes):
        return f"its {counted(failed, 'trial')} failed, {why}"
    capacity = min(outcome.ceiling.capacity for outcome in outcomes if outcome.ceiling)
    said = f"it trains {counted(capacity, 'lane')} at a time"
    if own:
        said += f", {counted(own, 'trial')} in programs of their own"
    if failed:
        said += f", and {counted(failed, 'trial')} failed, {why}"
    return said
