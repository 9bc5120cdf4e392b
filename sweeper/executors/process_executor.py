"""Trains buckets in worker processes: one loky pool with a single worker per slot.

With several workers in one pool, loky fails every pending task and kills the other workers when one
dies. With one pool per slot, it is known which worker died, and the others continue.
"""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import LifoQueue
from typing import Any

from sweeper.errors import Problem, SetupError
from sweeper.executors import worker
from sweeper.executors.devices import carried_fraction
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.retry import TrialTimeoutError, WorkerDiedError, train_observed
from sweeper.executors.worker import WorkerSetup
from sweeper.executors.worker_process import (
    GoneError,
    OverdueError,
    WorkerProcess,
    block_interrupts,
)
from sweeper.results.events import Observer
from sweeper.results.timeline import Activity, Span, Timeline
from sweeper.trial import Place

# time for a worker to import its libraries, read the data and open the device
_START_S = 300.0
# a failed start may be a coincidence; this many in a row are not
_STARTS = 3


class ClosedError(Exception):
    """The slot was closed while it trained."""


@dataclass(slots=True)
class Slot:
    """A place for workers; one thread at a time may train in it, any thread may close it.

    `place` is its name in the results, `log` the file with the output of its workers.
    `trial_timeout_s` is the time limit of a trial, `send` writes the data again for a worker that
    did not start, in case the file is damaged, and `timeline` records when workers start or are
    lost.
    """

    place: str
    setup: WorkerSetup
    environment: dict[str, str]
    log: Path
    trial_timeout_s: float | None = None
    send: Callable[[], None] = lambda: None  # the data is already where the worker needs it
    timeline: Timeline = field(default_factory=Timeline)
    _worker: WorkerProcess | None = field(default=None, init=False)
    _compiled: set[str] = field(default_factory=set[str], init=False)
    _is_closed: bool = field(default=False, init=False)
    _lock: Any = field(default_factory=threading.Lock, init=False)

    def attempt(self, work: Work) -> Outcome:
        """Train `work` in this slot's worker, after starting one if necessary.

        Raises:
            WorkerDiedError: it ended before it returned an outcome, or returned something else.
            TrialTimeoutError: it took too long, and was killed.
            SetupError: no worker can be started, or a checkpoint cannot be written.
        """
        with self.timeline.at(self.place):
            process = self._running()
        started_at = time.time()
        try:
            given = process.call(worker.train, work, self.place, limit_s=self.limit_s(work))
            outcome = outcome_of(given, work)
            if outcome is None:
                raise process.gone("returned an invalid result and was killed")
        except GoneError as gone:
            self._check_open()
            self.timeline.add([Span(self.place, Activity.LOST, started_at, time.time())])
            kind = TrialTimeoutError if isinstance(gone, OverdueError) else WorkerDiedError
            place = self._place(process.pid)
            raise kind(f"{self.place} {gone.how}", place, started_at, gone.log) from gone
        self._compiled.add(work.program.class_id)
        return outcome

    def close(self) -> None:
        """End the worker at once."""
        with self._lock:
            self._is_closed = True
            if self._worker is not None:
                self._worker.end()

    def limit_s(self, work: Work) -> float | None:
        """The time limit of a worker's task: that of each trial, and once more to compile."""
        if self.trial_timeout_s is None:
            return None
        compiles = work.program.class_id not in self._compiled
        return self.trial_timeout_s * (len(work.bucket.lanes) + compiles)

    def _running(self) -> WorkerProcess:
        """The worker, ready for work; one that died while idle is replaced."""
        if self._worker is not None and self._worker.is_alive:
            return self._worker
        self._compiled.clear()
        found = SetupError("")
        for _ in range(_STARTS):
            try:
                with self.timeline.spending(Activity.WORKER):
                    process = self._started()
                    process.call(os.getpid, limit_s=_START_S)  # answers once it has started
                return process
            except GoneError as gone:
                self._check_open()
                found = self._cannot_start(f"{gone.how}; {gone.log}")
                self.send()
            except OSError as error:
                found = self._cannot_start(f"cannot be started: {error.strerror}")
        raise found

    def _started(self) -> WorkerProcess:
        with self._lock:
            self._check_open()
            if self._worker is not None:
                self._worker.end()
            self._worker = WorkerProcess(worker.begin, self.setup, self.environment, self.log)
            return self._worker

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError

    def _cannot_start(self, found: str) -> SetupError:
        tries = f"no worker has started in {_STARTS} tries; the last one {found}"
        hint = "remove the cause and start again: committed rounds are kept"
        return SetupError(Problem(self.place, "", tries, hint))

    def _place(self, pid: int) -> Place:
        """The place of a worker that could not report it itself."""
        fraction = carried_fraction(self.environment)
        return Place(self.place, "", socket.gethostname(), pid, fraction, None)


def outcome_of(given: object, work: Work) -> Outcome | None:
    """The outcome that a worker returned for `work`; None if it is something else."""
    try:
        outcome = pickle.loads(given) if isinstance(given, bytes) else None
    except Exception:
        return None
    is_its = isinstance(outcome, Outcome) and outcome.bucket == work.bucket
    return outcome if is_its else None


class ProcessExecutor:
    """Trains buckets in the workers of `slots`, which start when they are first needed."""

    def __init__(self, slots: Iterable[Slot], retries: int, observer: Observer) -> None:
        self._slots = tuple(slots)
        self._retries = retries
        self._observer = observer
        # One thread per slot, alive as long as the executor: a worker's life is bound to the thread
        # that started it.
        self._threads = ThreadPoolExecutor(
            len(self._slots), thread_name_prefix="slot", initializer=block_interrupts
        )
        self._free: LifoQueue[Slot] = LifoQueue()  # running workers are preferred to starting one
        for slot in reversed(self._slots):
            self._free.put(slot)

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`; the first free slot takes it."""
        return self._threads.submit(self._train, work)

    def close(self) -> None:
        """End every worker, whatever it is doing."""
        for slot in self._slots:
            slot.close()
        self._threads.shutdown(cancel_futures=True)

    def _train(self, work: Work) -> Outcome:
        slot = self._free.get()
        try:
            return train_observed(work, slot.place, slot.attempt, self._retries, self._observer)
        finally:
            self._free.put(slot)
