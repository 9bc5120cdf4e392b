"""Buckets in threads of this process: one JAX client, one set of compiled programs.

XLA lets go of the interpreter while it compiles and runs, so threads keep all cores busy.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

from sweeper.data.dataset import Dataset
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.trainer import Trainer
from sweeper.progress import BucketFinished, BucketStarted, Observer
from sweeper.scheduler.buckets import ProgramClass
from sweeper.trial import Scalar
from sweeper.user_code import RAISED


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


class _Class:
    """A class on its way to be compiled; `ready` once nobody need wait for it any more.

    `end` is what ended more than the compiling, where something did.
    """

    def __init__(self, compile: Callable[[], None]) -> None:
        self.compile = compile
        self.ready = False
        self.end: BaseException | None = None


class InlineExecutor:
    """Trains buckets in `threads` threads, in the order of the plan as far as classes are ready.

    A thread that is free compiles a class that waits for it before it trains anything: buckets can
    be spread over threads, compiling a class cannot, so it must not come last.
    """

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
        self._changed = threading.Condition()
        self._classes: dict[str, _Class] = {}
        self._uncompiled: deque[_Class] = deque()
        self._waiting: deque[tuple[Work, Future[Outcome]]] = deque()
        self._closed = False
        self._log = logging.getLogger("sweeper")

    def use(self, data: Dataset) -> None:
        """Train on `data` from here on."""
        self._trainer.use(data)

    def prepare(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> None:
        """Compile a class before any bucket asks for it; `params` are of any of its trials."""
        if program_class.class_id in self._classes:
            return
        planned = _Class(lambda: self._trainer.compile(program_class, params))
        with self._changed:
            self._classes[program_class.class_id] = planned
            self._uncompiled.append(planned)
        self._pool.submit(self._next_task)

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`; a thread that is free takes it when its class is ready."""
        self.prepare(work.program, work.specs[0].params)
        outcome: Future[Outcome] = Future()
        with self._changed:
            self._waiting.append((work, outcome))
        self._pool.submit(self._next_task)
        return outcome

    def close(self) -> None:
        """Wait for what is compiled or trained right now and end the threads; drop the rest."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._pool.shutdown(cancel_futures=True)

    def _next_task(self) -> None:
        """Do one thing that is waiting: there is one call for each."""
        task = self._take()
        if task is None:
            return
        if isinstance(task, _Class):
            try:
                task.compile()
            except RAISED as error:  # each bucket of the class will fail of it, and tell
                self._log.debug("a class could not be compiled ahead", exc_info=error)
            except BaseException as end:
                task.end = end
            with self._changed:
                task.ready = True
                self._changed.notify_all()
            return
        work, outcome = task
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            if (end := self._classes[work.program.class_id].end) is not None:
                raise end
            outcome.set_result(self._train(work))
        except BaseException as error:
            outcome.set_exception(error)

    def _take(self) -> _Class | tuple[Work, Future[Outcome]] | None:
        """A class to compile, else a bucket whose class is ready; None once it is closed."""
        with self._changed:
            while not self._closed:
                if self._uncompiled:
                    return self._uncompiled.popleft()
                for index, (work, _) in enumerate(self._waiting):
                    if self._classes[work.program.class_id].ready:
                        task = self._waiting[index]
                        del self._waiting[index]
                        return task
                self._changed.wait()
        return None

    def _train(self, work: Work) -> Outcome:
        place = self._free.get()
        try:
            self._observer(started(work, place))
            outcome = self._trainer.train(work, place, self._memory_fraction)
            self._observer(finished(outcome))
            return outcome
        finally:
            self._free.put(place)
