"""Trains buckets on a user's cluster, each in a slot that is replaced if it is lost."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor

from sweeper.executors.engines.engine import Engine
from sweeper.executors.engines.remote_slot import RemoteSlot
from sweeper.executors.engines.worker_pool import Roster
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.retry import WorkerGivenUpError, WorkerLostError, train_observed
from sweeper.results.events import Observer

_log = logging.getLogger("sweeper")


class Lease:
    """A slot for all tries of one bucket, as soon as one is free; replaced only if it is lost."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.slot: RemoteSlot | None = roster.take()

    @property
    def place(self) -> str:
        """Its name in the results."""
        return "" if self.slot is None else self.slot.place

    def attempt(self, work: Work) -> Outcome:
        """Train `work` in the slot, or in another one if it was lost.

        Raises:
            WorkerDiedError: as `Slot.attempt`; WorkerLostError if the slot itself is gone.
            ClosedError: nothing is to be trained any more.
            SetupError: as there, or the cluster is gone.
        """
        while True:
            slot = self.slot = self.slot or self._roster.take()
            try:
                return slot.attempt(work)
            except WorkerLostError as lost:
                self._roster.lose(slot)
                self.slot = None
                self._roster.check_open()
                if not isinstance(lost, WorkerGivenUpError):
                    raise
                _log.info("%s; its bucket goes to another worker", lost.how)

    def end(self) -> None:
        """Free the slot for others."""
        if self.slot is not None:
            self._roster.give_back(self.slot)


# one thread per bucket that is training or waiting for a slot
_MAX_THREADS = 1024


class EngineExecutor:
    """Trains buckets in the free slots of `roster`."""

    def __init__(self, engine: Engine, roster: Roster, retries: int, observer: Observer) -> None:
        self._engine = engine
        self._roster = roster
        self._retries = retries
        self._observer = observer
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="engine")

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`; the first free slot takes it."""
        return self._threads.submit(self._train, work)

    def close(self) -> None:
        """End all work for this study on the cluster at once."""
        self._roster.close()
        self._engine.close()
        self._threads.shutdown(cancel_futures=True)

    def _train(self, work: Work) -> Outcome:
        lease = Lease(self._roster)
        try:
            return train_observed(work, lease.place, lease.attempt, self._retries, self._observer)
        finally:
            lease.end()
