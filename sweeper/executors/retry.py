"""What becomes of a bucket whose worker died: only the trial that kills workers may fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sweeper.executors.executor import Outcome, Work, finished, started
from sweeper.results.events import Observer, Warned
from sweeper.scheduler.capacity import lowest
from sweeper.trial import Curve, Failure, LaneRecord, Place, Reason


class WorkerDiedError(Exception):
    """The process that trained a bucket is gone; `place` is where that was.

    `how` says it in a few words, `log` where the rest is told, and what.
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
    """It was ended, because it took longer over the bucket than `trial_timeout` allows."""

    reason = Reason.TIMEOUT


class WorkerLostError(WorkerDiedError):
    """It is gone with its machine, or with what ran it there: hardly the bucket's doing."""


class WorkerGivenUpError(WorkerLostError):
    """It was given up while it was there: not the bucket's doing at all."""


Attempt = Callable[[Work], Outcome]

# a bucket that loses its worker more often is taken for the reason
_MAX_LOSSES = 2
# so many trials are told of by number
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Retrying:
    """Trains a bucket by `attempt`, whoever dies over it; `tell` is told what becomes of it."""

    attempt: Attempt
    retries: int
    tell: Callable[[str], None] = lambda told: None

    def train(self, work: Work, deaths: int = 0, losses: int = 0) -> Outcome:
        """The outcome of `work`, over which `deaths` have been died already.

        Where its worker was lost it is tried again as it is, but for so many `losses`. Else half of
        the lanes are masked, in the same program, until the culprit is alone; alone it has
        `retries` more tries, then it fails and its companions never notice.
        """
        try:
            return _after(self.attempt(work), deaths)
        except WorkerDiedError as death:
            numbers = work.bucket.numbers
            if isinstance(death, WorkerLostError) and losses < _MAX_LOSSES:
                self._tell(work, death, "it goes to another worker")
                return self.train(work, deaths + 1, losses + 1)
            if len(numbers) == 1:
                return self._alone(work, deaths + 1, death)
            self._tell(work, death, "they are tried again, half of them at a time")
            middle = len(numbers) // 2
            first = self.train(_part(work, slice(None, middle)), deaths + 1, losses)
            second = self.train(_part(work, slice(middle, None)), deaths + 1, losses)
            return _joined(work, first, second, deaths + 1)

    def _alone(self, work: Work, deaths: int, death: WorkerDiedError) -> Outcome:
        for _ in range(self.retries):
            self._tell(work, death, "it is tried again")
            try:
                return _after(self.attempt(work), deaths)
            except WorkerDiedError as again:
                deaths, death = deaths + 1, again
        self._tell(work, death, f"it fails ({death.reason}), its row and the worker's log say more")
        failure = Failure(death.reason, type(death).__name__, str(death))
        outcome = failed(work, failure, death.place, death.started_at)
        return _after(outcome, deaths - 1)

    def _tell(self, work: Work, death: WorkerDiedError, what: str) -> None:
        numbers = work.bucket.numbers
        named = (
            ", ".join(map(str, numbers)) if len(numbers) <= _NAMED else f"{len(numbers)} of them"
        )
        trials = f"trial {named}" if len(numbers) == 1 else f"trials {named}"
        self.tell(f"{death.how} over {trials}; {what}")


def train_observed(
    work: Work, place: str, attempt: Attempt, retries: int, observer: Observer
) -> Outcome:
    """The outcome of `work` at `place`; reports its start and end to `observer`."""
    observer(started(work, place))
    outcome = Retrying(attempt, retries, lambda said: observer(Warned(said))).train(work)
    observer(finished(outcome))
    return outcome


def failed(work: Work, failure: Failure, place: Place, started_at: float) -> Outcome:
    """The outcome of `work` in which every lane failed and none has a state."""
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
        ceiling=lowest([first.ceiling, second.ceiling]),
        own_programs=first.own_programs + second.own_programs,
        shortage=first.shortage or second.shortage,
        spans=first.spans + second.spans,
    )
