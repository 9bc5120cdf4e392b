"""Retries a bucket whose worker died, so that only the trial that kills workers may fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sweeper.executors.executor import (
    Outcome,
    Work,
    bucket_finished_event,
    bucket_started_event,
    merge_outcomes,
)
from sweeper.results.events import Observer, Warned
from sweeper.trial import Curve, Failure, LaneRecord, Place, Reason


class WorkerDiedError(Exception):
    """The process that trained a bucket is gone; `place` is where it was.

    `how` is a short description; `log` is the file with more, and its last lines.
    """

    reason: ClassVar[Reason] = Reason.WORKER_DIED

    def __init__(self, how: str, place: Place, started_at: float, log: str = "") -> None:
        super().__init__(f"{how}; {log}" if log else how)
        self.how = how
        self.place = place
        self.started_at = started_at
        self.log = log

    def __reduce__(self) -> tuple[type[WorkerDiedError], tuple[str, Place, float, str]]:
        return type(self), (self.how, self.place, self.started_at, self.log)


class TrialTimeoutError(WorkerDiedError):
    """The worker was killed because it took longer over the bucket than `trial_timeout` allows."""

    reason = Reason.TIMEOUT


class WorkerLostError(WorkerDiedError):
    """The worker is lost with its machine or parent process, probably not due to the bucket."""


class WorkerGivenUpError(WorkerLostError):
    """The worker was given up although it still existed; the bucket is not the cause."""


Attempt = Callable[[Work], Outcome]

# a bucket that loses its worker more often is considered the cause
_MAX_LOSSES = 2
# at most this many trials are listed by number
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Retrying:
    """Trains a bucket by `attempt`, whatever dies; `report` is called with messages."""

    attempt: Attempt
    retries: int
    report: Callable[[str], None] = lambda message: None

    def train(self, work: Work, crashes: int = 0, losses: int = 0) -> Outcome:
        """The outcome of `work`, after this many earlier `crashes`.

        If its worker was lost, it is retried unchanged, up to a number of `losses`. Otherwise half
        of the lanes are masked, in the same program, until the culprit is alone; then it gets
        `retries` more tries before it fails, and its companions are not affected.
        """
        try:
            return _count_attempts(self.attempt(work), crashes)
        except WorkerDiedError as crash:
            numbers = work.bucket.numbers
            if isinstance(crash, WorkerLostError) and losses < _MAX_LOSSES:
                self._report(work, crash, "retrying in another worker")
                return self.train(work, crashes + 1, losses + 1)
            if len(numbers) == 1:
                return self._alone(work, crashes + 1, crash)
            self._report(work, crash, "retrying half of them at a time")
            middle = len(numbers) // 2
            first = self.train(work.only(range(middle)), crashes + 1, losses)
            second = self.train(work.only(range(middle, len(numbers))), crashes + 1, losses)
            # both halves count the attempts that crashed before they were split
            tried = first.attempt + second.attempt - (crashes + 1)
            return replace(merge_outcomes(work, [first, second]), attempt=tried)

    def _alone(self, work: Work, crashes: int, crash: WorkerDiedError) -> Outcome:
        for _ in range(self.retries):
            self._report(work, crash, "retrying")
            try:
                return _count_attempts(self.attempt(work), crashes)
            except WorkerDiedError as again:
                crashes, crash = crashes + 1, again
        self._report(work, crash, f"it fails ({crash.reason}); see its row and the worker's log")
        failure = Failure(crash.reason, type(crash).__name__, str(crash))
        outcome = failed_outcome(work, failure, crash.place, crash.started_at)
        return _count_attempts(outcome, crashes - 1)

    def _report(self, work: Work, crash: WorkerDiedError, what: str) -> None:
        numbers = work.bucket.numbers
        named = (
            ", ".join(map(str, numbers)) if len(numbers) <= _NAMED else f"{len(numbers)} of them"
        )
        trials = f"trial {named}" if len(numbers) == 1 else f"trials {named}"
        self.report(f"{crash.how} over {trials}; {what}")


def train_observed(
    work: Work, place: str, attempt: Attempt, retries: int, observer: Observer
) -> Outcome:
    """The outcome of `work` at `place`; reports its start and end to `observer`."""
    observer(bucket_started_event(work, place))
    outcome = Retrying(attempt, retries, lambda said: observer(Warned(said))).train(work)
    observer(bucket_finished_event(outcome))
    return outcome


def failed_outcome(work: Work, failure: Failure, place: Place, started_at: float) -> Outcome:
    """The outcome of `work` in which every lane failed and has no state."""
    lanes = tuple(
        LaneRecord(
            number=lane.number,
            curve=Curve(lane.number, lane.epoch_from + 1, np.empty((0, 0)), 0),
            checkpoint="",
            test=(),
            place=place,
            failure=failure,
        )
        for lane in work.bucket.lanes
    )
    return Outcome(
        bucket=work.bucket,
        lanes=lanes,
        digests={},
        place=place,
        started_at=started_at,
        compile_s=0.0,
        cache_hit=False,
        train_s=0.0,
        peak_memory_bytes=None,
        attempt=1,
    )


def _count_attempts(outcome: Outcome, crashes: int) -> Outcome:
    """`outcome`, also counting the attempts that ended in `crashes` before it."""
    lanes = tuple(replace(lane, attempts=lane.attempts + crashes) for lane in outcome.lanes)
    return replace(outcome, lanes=lanes, attempt=outcome.attempt + crashes)
