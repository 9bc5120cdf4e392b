"""What becomes of a bucket whose worker died: only the trial that kills workers may fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sweeper.executors.executor import LaneResult, Outcome, Place, Work
from sweeper.trial import Curve, Failure, Reason


class WorkerDiedError(Exception):
    """The process that trained a bucket is gone; `place` is where that was."""

    def __init__(self, message: str, place: Place, started_at: float) -> None:
        super().__init__(message)
        self.place = place
        self.started_at = started_at


Attempt = Callable[[Work], Outcome]


def train_surviving(work: Work, attempt: Attempt, retries: int, deaths: int = 0) -> Outcome:
    """The outcome of `work`, whoever dies over it; `deaths` have been died over it already.

    Half of the lanes are masked, in the same program, until the culprit is alone; alone it has
    `retries` more tries, then it fails and its companions never notice.
    """
    try:
        return _after(attempt(work), deaths)
    except WorkerDiedError as death:
        if len(work.bucket.lanes) == 1:
            return _retry_alone(work, attempt, retries, deaths + 1, death)
        middle = len(work.bucket.lanes) // 2
        first = train_surviving(_part(work, slice(None, middle)), attempt, retries, deaths + 1)
        second = train_surviving(_part(work, slice(middle, None)), attempt, retries, deaths + 1)
        return _joined(work, first, second, deaths + 1)


def _retry_alone(
    work: Work, attempt: Attempt, retries: int, deaths: int, death: WorkerDiedError
) -> Outcome:
    for _ in range(retries):
        try:
            return _after(attempt(work), deaths)
        except WorkerDiedError as again:
            deaths, death = deaths + 1, again
    failure = Failure(Reason.WORKER_DIED, type(death).__name__, str(death))
    outcome = failed(work, failure, death.place, death.started_at)
    return _after(outcome, deaths - 1)


def failed(work: Work, failure: Failure, place: Place, started_at: float) -> Outcome:
    """The outcome of `work` in which every lane failed and none has a state."""
    lanes = tuple(
        LaneResult(
            number=lane.number,
            curve=Curve(lane.number, lane.epoch_from + 1, np.empty((0, 0)), 0),
            checkpoint="",
            test=(),
            place=place,
            failure=failure,
        )
        for lane in work.bucket.lanes
    )
    return Outcome(work.bucket, lanes, {}, place, started_at, 0.0, False, 0.0, None, 1)


def _after(outcome: Outcome, deaths: int) -> Outcome:
    """`outcome`, counting the tries that ended in `deaths` before it."""
    lanes = tuple(replace(lane, attempts=lane.attempts + deaths) for lane in outcome.lanes)
    return replace(outcome, lanes=lanes, attempt=outcome.attempt + deaths)


def _part(work: Work, lanes: slice) -> Work:
    bucket = replace(work.bucket, lanes=work.bucket.lanes[lanes])
    return replace(work, bucket=bucket, specs=work.specs[lanes])


def _joined(work: Work, first: Outcome, second: Outcome, deaths: int) -> Outcome:
    """One outcome of two halves, each of which counts the `deaths` before they were parted."""
    return replace(
        second,
        bucket=work.bucket,
        lanes=first.lanes + second.lanes,
        digests={**first.digests, **second.digests},
        started_at=first.started_at,
        compile_s=first.compile_s + second.compile_s,
        cache_hit=first.cache_hit and second.cache_hit,
        train_s=first.train_s + second.train_s,
        attempt=first.attempt + second.attempt - deaths,
    )
