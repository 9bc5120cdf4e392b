"""Buckets in threads of this process: one JAX client, one set of compiled programs.

XLA lets go of the interpreter while it compiles and runs, so threads keep all cores busy.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

from sweeper.executors.executor import Outcome, Work
from sweeper.executors.trainer import Trainer
from sweeper.progress import BucketFinished, BucketStarted, Observer


def started(work: Work, place: str) -> BucketStarted:
    """The event of a bucket taken up at `place`."""
    bucket, program = work.bucket, work.program
    return BucketStarted(
        bucket.bucket,
        bucket.class_id,
        program.strategy,
        place,
        bucket.numbers,
        max(lane.epoch_to for lane in bucket.lanes),
    )


def finished(outcome: Outcome) -> BucketFinished:
    """The event of a bucket that has trained."""
    return BucketFinished(
        outcome.bucket.bucket,
        outcome.place.place,
        outcome.compile_s,
        outcome.cache_hit,
        outcome.train_s,
    )


class InlineExecutor:
    """Trains buckets in `threads` threads, in the order of the plan."""

    def __init__(
        self,
        trainer: Trainer,
        threads: int,
        observer: Observer,
        memory_fraction: float | None,
    ) -> None:
        self._trainer = trainer
        self._observer = observer
        self._memory_fraction = memory_fraction
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sweeper")
        self._free: SimpleQueue[str] = SimpleQueue()
        for index in range(threads):
            self._free.put(f"thread {index}")

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`; the first thread that is free takes it."""
        return self._pool.submit(self._train, work)

    def close(self) -> None:
        """Wait for the buckets in training and end the threads; queued buckets are dropped."""
        self._pool.shutdown(cancel_futures=True)

    def _train(self, work: Work) -> Outcome:
        place = self._free.get()
        try:
            self._observer(started(work, place))
            outcome = self._trainer.train(work, place, self._memory_fraction)
            self._observer(finished(outcome))
            return outcome
        finally:
            self._free.put(place)
