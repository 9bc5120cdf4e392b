"""Buckets in worker processes: one single-worker loky pool a slot.

A pool of several workers would not do: when one of them dies, loky fails every pending task and
kills the others. With one pool a slot a death is known by its slot, and the neighbours go on.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import LifoQueue

from sweeper.executors.executor import Outcome, Work
from sweeper.executors.inline import finished, started
from sweeper.executors.interrupts import block_interrupts
from sweeper.executors.retry import Retrying
from sweeper.executors.slot import Slot
from sweeper.results.events import Observer, Warned


class ProcessExecutor:
    """Trains buckets in the workers of `slots`, which start when they are first needed."""

    def __init__(self, slots: Iterable[Slot], retries: int, observer: Observer) -> None:
        self._slots = tuple(slots)
        self._retries = retries
        self._observer = observer
        # One thread a slot, alive as long as the executor: a worker's life is bound to the
        # thread that started it.
        self._threads = ThreadPoolExecutor(
            len(self._slots), thread_name_prefix="slot", initializer=block_interrupts
        )
        self._free: LifoQueue[Slot] = LifoQueue()  # a worker that runs is rather used than started
        for slot in reversed(self._slots):
            self._free.put(slot)

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`; the first slot that is free takes it."""
        return self._threads.submit(self._train, work)

    def close(self) -> None:
        """End every worker, whatever it is doing."""
        for slot in self._slots:
            slot.close()
        self._threads.shutdown(cancel_futures=True)

    def _train(self, work: Work) -> Outcome:
        slot = self._free.get()
        try:
            self._observer(started(work, slot.place))
            outcome = Retrying(slot.attempt, self._retries, self._warn).train(work)
            self._observer(finished(outcome))
            return outcome
        finally:
            self._free.put(slot)

    def _warn(self, told: str) -> None:
        self._observer(Warned(told))
