"""Buckets in worker processes: one single-worker loky pool a slot.

A pool of several workers would not do: when one of them dies, loky fails every pending task and
kills the others. With one pool a slot a death is known by its slot, and the neighbours go on.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from queue import LifoQueue

from sweeper.executors.executor import Outcome, Work
from sweeper.executors.inline import finished, started
from sweeper.executors.retry import Retrying
from sweeper.executors.slot import Slot
from sweeper.progress import Observer, Warned


class ProcessExecutor:
    """Trains buckets in the workers of `slots`, which start when they are first needed."""

    def __init__(self, slots: Iterable[Slot], retries: int, observer: Observer) -> None:
        self._slots = tuple(slots)
        self._retries = retries
        self._observer = observer
        # One thread a slot, alive as long as the executor: a worker's life is bound to the
        # thread that started it.
        self._threads = ThreadPoolExecutor(
            len(self._slots), thread_name_prefix="slot", initializer=_block_interrupts
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


def _block_interrupts() -> None:
    """Keep Ctrl-C from the workers that this thread starts, from their first instruction on.

    A terminal sends it to every process; a child inherits what its starting thread has blocked.
    Python unblocks it when it starts its resource tracker, so that has to run before.
    """
    resource_tracker.ensure_running()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
