"""The interface of what trains buckets, and the results of a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from sweeper.results.events import BucketFinished, BucketStarted
from sweeper.results.timeline import Span
from sweeper.scheduler.capacity import Ceiling, lowest
from sweeper.scheduler.classes import Bucket, ProgramClass
from sweeper.trial import LaneRecord, Place, TrialSpec


@dataclass(frozen=True, slots=True)
class Work:
    """A bucket of a round, with everything needed to train it: plain values, cheap to send.

    `specs[i]` is the trial of lane `i`; `digests` are those of the checkpoints that its lanes name;
    `ceilings` are those found for its class in earlier rounds. `crashes` counts how often the whole
    program died while training it. `checkpoint_suffix` is part of the names of its checkpoints, so
    that a late checkpoint from a place that was given up is not mistaken for that of another try.
    """

    round: int
    bucket: Bucket
    program: ProgramClass
    specs: tuple[TrialSpec, ...]
    digests: Mapping[str, str]
    ceilings: tuple[Ceiling, ...] = ()
    crashes: int = 0
    checkpoint_suffix: str = ""

    def only(self, lanes: Iterable[int]) -> Work:
        """The same with only these lanes, by index."""
        places = tuple(lanes)
        bucket = replace(self.bucket, lanes=tuple(self.bucket.lanes[place] for place in places))
        return replace(self, bucket=bucket, specs=tuple(self.specs[place] for place in places))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a bucket in a round: a result per lane, digests of checkpoints, and costs.

    `started_at` and `finished_at` are seconds since 1970, UTC.
    """

    bucket: Bucket
    lanes: tuple[LaneRecord, ...]
    digests: Mapping[str, str]
    """By the name of the checkpoint."""
    place: Place
    started_at: float
    compile_s: float
    cache_hit: bool
    """Whether the program came from the compile cache."""
    train_s: float
    peak_memory_bytes: int | None
    attempt: int
    memory_predicted_bytes: int | None = None
    """What the program needs according to the compiler; None if unknown."""
    finished_at: float = 0.0
    memory_limit_bytes: int | None = None
    """The most memory that the program may use; None if unknown."""
    ceiling: Ceiling | None = None
    """The capacity that was left, if memory was short."""
    own_programs: int = 0
    """The number of trials for which their class was still too large, if memory was short."""
    shortage: str = ""
    """What did not fit into memory, if that was found in this round."""
    spans: tuple[Span, ...] = ()
    """What a worker recorded of its time."""


def bucket_started_event(work: Work, place: str) -> BucketStarted:
    """The event that a bucket was started at `place`."""
    bucket, program = work.bucket, work.program
    return BucketStarted(
        bucket=bucket.bucket,
        class_id=bucket.class_id,
        strategy=program.strategy,
        place=place,
        trials=bucket.numbers,
        epoch_to=max(lane.epoch_to for lane in bucket.lanes),
    )


def bucket_finished_event(outcome: Outcome) -> BucketFinished:
    """The event that a bucket has trained."""
    return BucketFinished(
        bucket=outcome.bucket.bucket,
        place=outcome.place.place,
        compile_s=outcome.compile_s,
        cache_hit=outcome.cache_hit,
        train_s=outcome.train_s,
        trials=outcome.bucket.numbers,
    )


def merge_outcomes(work: Work, outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of `work` from those of its parts, trained one after the other.

    It has the lowest of their ceilings, which holds for each of them. Its program came from the
    cache if all that were compiled did. Its place is that of the last part that trained, since a
    worker that died does not say its device. All other fields are those of the last part.
    """
    lanes = {lane.number: lane for outcome in outcomes for lane in outcome.lanes}
    compiled = [outcome for outcome in outcomes if outcome.compile_s]
    trained = [outcome for outcome in outcomes if outcome.digests]
    return replace(
        outcomes[-1],
        bucket=work.bucket,
        lanes=tuple(lanes[number] for number in work.bucket.numbers),
        digests={file: digest for o in outcomes for file, digest in o.digests.items()},
        place=(trained or outcomes)[-1].place,
        started_at=outcomes[0].started_at,
        compile_s=sum(outcome.compile_s for outcome in outcomes),
        cache_hit=bool(compiled) and all(outcome.cache_hit for outcome in compiled),
        train_s=sum(outcome.train_s for outcome in outcomes),
        peak_memory_bytes=highest(outcome.peak_memory_bytes for outcome in outcomes),
        memory_predicted_bytes=highest(outcome.memory_predicted_bytes for outcome in outcomes),
        memory_limit_bytes=highest(outcome.memory_limit_bytes for outcome in outcomes),
        finished_at=max(outcome.finished_at for outcome in outcomes),
        ceiling=lowest([outcome.ceiling for outcome in outcomes]),
        own_programs=sum(outcome.own_programs for outcome in outcomes),
        shortage=next((outcome.shortage for outcome in outcomes if outcome.shortage), ""),
        spans=tuple(span for outcome in outcomes for span in outcome.spans),
    )


def highest(known: Iterable[int | None]) -> int | None:
    """The largest of the numbers that are known."""
    return max((number for number in known if number is not None), default=None)


TrainRound = Callable[[Iterable[Work]], Iterator[Outcome]]
"""Starts to train the buckets of a round at once; yields the outcome of each as it ends."""


class Executor(Protocol):
    """Trains buckets, in whichever of its threads or workers is free."""

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`."""
        ...

    def close(self) -> None:
        """End every thread and process."""
        ...
