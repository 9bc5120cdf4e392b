"""An executor that trains nothing: a formula instead of a network, in microseconds.

For tests of the round loop and for planning sizes that no machine at hand has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.executors.executor import LaneResult, Outcome, Place, Work
from sweeper.executors.retry import Retrying, WorkerDiedError
from sweeper.scheduler.classes import Lane
from sweeper.trial import Curve, TrialSpec

_PLACE = Place("simulated", "simulated", "simulated", 0, None, None)


@dataclass(frozen=True, slots=True)
class SimulatedExecutor:
    """Metrics by formula: `measure(spec, epoch)` gives one row of a curve.

    A worker that holds a trial for which `kills_worker` is true dies, as in the real executors;
    a row that is not finite ends its lane.
    """

    measure: Callable[[TrialSpec, int], Sequence[float]]
    kills_worker: Callable[[TrialSpec], bool] = lambda spec: False
    retries: int = 1

    def train(self, works: Iterable[Work]) -> Iterator[Outcome]:
        """The outcome of each work, in order."""
        for work in works:
            yield Retrying(self.attempt, self.retries).train(work)

    def close(self) -> None:
        """Nothing to end."""

    def attempt(self, work: Work) -> Outcome:
        """One try, in which a worker dies if any of its trials kills it."""
        if any(self.kills_worker(spec) for spec in work.specs):
            raise WorkerDiedError("exit code -9", _PLACE, 0.0)
        file = f"r{work.round}-{work.bucket.lanes[0].number}"
        lanes = tuple(
            self._lane(lane, spec, file)
            for lane, spec in zip(work.bucket.lanes, work.specs, strict=True)
        )
        return Outcome(work.bucket, lanes, {file: "-"}, _PLACE, 0.0, 0.0, False, 0.0, None, 1)

    def _lane(self, lane: Lane, spec: TrialSpec, file: str) -> LaneResult:
        epochs = range(lane.epoch_from + 1, lane.epoch_to + 1)
        rows = np.array([self.measure(spec, epoch) for epoch in epochs], dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        diverged = int(bad[0]) + 1 if len(bad) else None
        return LaneResult(
            number=lane.number,
            curve=Curve(lane.number, lane.epoch_from + 1, rows[:diverged], steps_per_epoch=1),
            checkpoint=file,
            test=(),
            place=_PLACE,
            diverged_epoch=None if diverged is None else lane.epoch_from + diverged,
        )
