"""Runs a bucket through the compiled programs of its phases, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from sweeper.programs.segment import DeviceData, Lanes, Segment

Run = Callable[[Lanes, DeviceData], Segment]
PhaseAt = Callable[[int], str]
"""Maps a lane's epoch to its phase; epochs count from 1."""


def run_phases(
    programs: Mapping[str, Run], lanes: Lanes, parts: DeviceData, phases: Sequence[PhaseAt]
) -> Segment:
    """Train the lanes; `phases[i]` are those of lane `i`, and spare lanes have none.

    Each call trains the lanes that are in one phase to the end of it, and leaves the others
    unchanged, since the phases of lanes may differ. States stay on the device in between.
    """
    at, stop = np.array(lanes.start), np.array(lanes.stop)
    done: Segment | None = None
    while (live := np.flatnonzero(at < stop)).size:
        behind = live[np.argmin(at[live])]
        phase = phases[behind](int(at[behind]) + 1)
        ends = np.array([_end(phases, phase, i, at[i], stop[i]) for i in range(len(at))], at.dtype)
        trained = programs[phase](replace(lanes, start=at, stop=ends), parts)
        moved = jnp.asarray(ends > at)
        done = trained if done is None else _joined(done, trained, moved)
        lanes = replace(lanes, state=trained.state)
        if trained.ended is None:
            at = ends
        else:  # lanes that have ended stop
            assert trained.last is not None
            at = np.where(ends > at, np.asarray(trained.last), at).astype(at.dtype)
            stop = np.where(np.asarray(trained.ended), np.minimum(stop, at), stop)
    assert done is not None, "every bucket has a lane that trains"
    return done if done.last is None else replace(done, last=jnp.asarray(at))


def _end(phases: Sequence[PhaseAt], phase: str, lane: int, at: int, stop: int) -> int:
    """The epoch at which a lane's run of this phase ends; its current epoch in another phase."""
    while at < stop and phases[lane](int(at) + 1) == phase:
        at += 1
    return at


def _joined(done: Segment, trained: Segment, moved: jnp.ndarray) -> Segment:
    """All measurements so far; the test scores of a lane are its last ones."""
    test = jnp.where(moved[:, None], trained.test, done.test)
    # each call fills in the epochs that it trained, and the others are 0
    return replace(trained, curves=done.curves + trained.curves, test=test)
