"""Buckets on a cluster of the user's, by an engine of the user's."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from sweeper.executors.engines.engine import Engine
from sweeper.executors.engines.executor import leased
from sweeper.executors.engines.worker_pool import Roster
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.inline import finished, started
from sweeper.executors.retry import Retrying
from sweeper.results.events import Observer, Warned

# a thread a bucket under way, or waiting for a slot
_MOST_THREADS = 1024


class EngineExecutor:
    """Trains buckets in the slots of `roster`, whichever are free."""

    def __init__(self, engine: Engine, roster: Roster, retries: int, observer: Observer) -> None:
        self._engine = engine
        self._roster = roster
        self._retries = retries
        self._observer = observer
        self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="engine")

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`; the first slot that is free takes it."""
        return self._threads.submit(self._train, work)

    def close(self) -> None:
        """End whatever is done for this study on the cluster, at once."""
        self._roster.close()
        self._engine.close()
        self._threads.shutdown(cancel_futures=True)

    def _train(self, work: Work) -> Outcome:
        with leased(self._roster) as lease:
            self._observer(started(work, lease.place))
            outcome = Retrying(lease.attempt, self._retries, self._warn).train(work)
            self._observer(finished(outcome))
            return outcome

    def _warn(self, told: str) -> None:
        self._observer(Warned(told))
