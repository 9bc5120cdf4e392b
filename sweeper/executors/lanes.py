"""From trials to the stacked lanes of a program, and back to what each of them measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from sweeper.config import Settings
from sweeper.executors.executor import LaneResult, Place, Work
from sweeper.programs.program import Program, State
from sweeper.programs.segment import Lanes, Segment
from sweeper.scheduler import plan
from sweeper.trial import Curve


@dataclass(frozen=True, slots=True)
class Start:
    """A lane about to train: its state, and the epoch that the state is at the end of."""

    state: State
    epoch: int
    retrained: bool = False


def stack(
    work: Work, starts: Sequence[Start], settings: Sequence[Settings], program: Program
) -> Lanes:
    """The lanes side by side, filled up to the capacity with lanes that stop where they start."""
    spare = work.program.capacity - len(starts)

    def stacked(values: Sequence[Any]) -> Any:
        padded = [*values, *[values[0]] * spare]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *padded)

    stops = [lane.epoch_to for lane in work.bucket.lanes]
    return Lanes(
        state=stacked([start.state for start in starts]),
        lane=stacked(
            [program.lane(spec.number, its) for spec, its in zip(work.specs, settings, strict=True)]
        ),
        start=np.array([start.epoch for start in starts] + [0] * spare, np.int32),
        stop=np.array(stops + [0] * spare, np.int32),
    )


def abstract_lanes(program: Program, capacity: int, settings: Settings) -> Lanes:
    """Shapes and dtypes of the lanes of a class; `settings` are those of any of its trials."""
    bounds = jax.ShapeDtypeStruct((capacity,), np.int32)

    def stacked(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((capacity, *leaf.shape), leaf.dtype)

    return Lanes(
        state=jax.tree.map(stacked, program.abstract()),
        lane=jax.tree.map(stacked, program.lane(0, settings)),
        start=bounds,  # type: ignore[arg-type]
        stop=bounds,  # type: ignore[arg-type]
    )


def judged_columns(metrics: Sequence[str], objective: str) -> list[int]:
    """The metrics that must stay finite: the losses and the objective.

    Others may be undefined for good reason, as r2 is where the targets do not vary.
    """
    return [i for i, name in enumerate(metrics) if name.endswith("loss") or name == objective]


def result(
    lane: plan.Lane, segment: Segment, index: int, judged: Sequence[int], steps: int, place: Place
) -> LaneResult:
    """What lane `index` measured in this round, up to the first epoch that is not finite.

    Where it diverged there are no test scores: they would be of a later epoch than the last.
    """
    rows = np.asarray(segment.curves[index, lane.epoch_from : lane.epoch_to], np.float64)
    bad = np.flatnonzero(~np.isfinite(rows[:, judged]).all(axis=1))
    length = int(bad[0]) + 1 if len(bad) else len(rows)
    return LaneResult(
        number=lane.number,
        curve=Curve(lane.number, lane.epoch_from + 1, rows[:length], steps),
        checkpoint="",
        test=() if len(bad) else tuple(float(value) for value in segment.test[index]),
        place=place,
        diverged_epoch=lane.epoch_from + length if len(bad) else None,
    )
