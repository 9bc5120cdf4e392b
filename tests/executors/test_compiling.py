"""Lanes of a class with one program per phase train in turns."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from sweeper.executors.compiling import Compiled, Run
from sweeper.programs.program import State
from sweeper.programs.segment import Lanes, Segment

N_EPOCHS = 6


def phase_at(epoch: int) -> str:
    """Two epochs of fit, then two of follow, counted from 1."""
    return "fit" if (epoch - 1) % 4 < 2 else "follow"


def program_of(phase: str, ended: Collection[int]) -> Run:
    """A program in which the lanes `ended` have no epoch left; it tests those that it is for."""

    def run(lanes: Lanes, _: Any) -> Segment:
        start, stop = np.asarray(lanes.start), np.asarray(lanes.stop)
        is_on, is_over = start < stop, np.isin(np.arange(len(start)), [*ended])
        last = np.where(is_over, start, stop)
        for lane in np.flatnonzero(is_on & ~is_over):
            assert {phase_at(epoch + 1) for epoch in range(start[lane], stop[lane])} == {phase}
        curves = np.zeros((len(start), N_EPOCHS, 1))
        test: Any = np.where(is_on, 0.5, 0.0)[:, None]
        return Segment(lanes.state, curves, test, last, is_over)  # type: ignore[arg-type]

    return run


def test_a_lane_that_ended_in_an_earlier_round_is_tested_in_its_own_phase() -> None:
    """A younger lane, in another phase, trains first; the last lane is spare."""
    compiled = Compiled({p: program_of(p, {1}) for p in ("fit", "follow")}, False, None, ())
    start, stop = np.array([0, 3, 3, 0], np.int32), np.array([6, 6, 6, 0], np.int32)
    state: Any = State({"": np.zeros((4, 1))}, None, np.array([0, 9, 9, 0]))  # type: ignore[arg-type]
    nothing: Any = None
    lanes = Lanes(state, nothing, np.zeros(4, np.int32), start, stop)

    done = compiled.run(lanes, nothing, [phase_at] * 4)

    assert done.test.ravel().tolist() == [0.5, 0.5, 0.5, 0.0]
    assert done.last is not None
    assert done.last.tolist() == [6, 3, 6, 0]
