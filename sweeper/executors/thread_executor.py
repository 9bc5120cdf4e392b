"""Trains buckets in threads of this process: one JAX client, one set of programs per device.

XLA releases the interpreter while it compiles and runs, so threads keep all cores busy.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from sweeper.config.user_errors import is_raised
from sweeper.executors.executor import Outcome, Work, bucket_finished_event, bucket_started_event
from sweeper.executors.placement import DeviceQueues
from sweeper.executors.trainer import Trainer
from sweeper.results.events import (
    CompileFinished,
    CompilePlanned,
    CompileStarted,
    Observer,
)
from sweeper.results.timeline import Timeline
from sweeper.scheduler.classes import ProgramClass
from sweeper.trial import Scalar


@dataclass(slots=True)
class _CompileTask:
    """A class that is being compiled for a device; `ready` once nothing needs to wait for it.

    `error` is one that ends the study, if any: one of an observer, or not of the trials.
    """

    program: ProgramClass
    device: int
    compile: Callable[[], None]
    ready: bool = False
    error: BaseException | None = None


@dataclass(slots=True)
class _QueuedBucket:
    """A bucket that waits to be trained, and its device."""

    work: Work
    device: int
    outcome: Future[Outcome]


class ThreadExecutor:
    """Trains buckets in `threads` threads, in the order of the plan as far as classes are ready.

    There is one trainer per device, and threads take turns serving it. A bucket goes to the device
    that is predicted to finish it first; a device with nothing left takes one from another device
    that is behind, if it has the program for it. A free thread compiles a waiting class before it
    trains anything: buckets can be spread over threads but compiling a class cannot, so it must not
    come last.
    """

    def __init__(
        self,
        trainers: Sequence[Trainer],
        threads: int,
        observer: Observer,
        memory_fraction: float | None,
        *,
        is_cache_shared: bool = False,
        timeline: Timeline | None = None,
    ) -> None:
        """`is_cache_shared` says that a device can load what another has compiled from the cache.

        The trainers record to `timeline`.
        """
        self._timeline = timeline or Timeline()
        self._trainers = trainers[:threads]
        self._observer = observer
        self._memory_fraction = memory_fraction
        self._unstarted = deque(range(threads))
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sweeper")
        self._changed = threading.Condition()
        self._classes: dict[tuple[str, int], _CompileTask] = {}
        self._uncompiled: list[deque[_CompileTask]] = [deque() for _ in self._trainers]
        self._waiting: list[_QueuedBucket] = []
        self._queues = DeviceQueues(len(self._trainers), is_shared=is_cache_shared)
        self._idle = [0] * len(self._trainers)  # number of waiting threads
        self._closed = False
        self._log = logging.getLogger("sweeper")

    def prepare(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> None:
        """Compile a class before any bucket needs it; `params` are those of any of its trials.

        Only one device compiles it now; others do so when they get one of its buckets.
        """
        with self._changed:
            if all(known != program_class.class_id for known, _ in self._classes):
                self._prepare(program_class, params, self._queues.place_class(program_class))

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`; a free thread takes it when its class is ready."""
        outcome: Future[Outcome] = Future()
        with self._changed:
            device = self._queues.place(work)
            self._prepare(work.program, work.specs[0].params, device)
            self._waiting.append(_QueuedBucket(work, device, outcome))
            self._changed.notify_all()
        return outcome

    def close(self) -> None:
        """Wait for current compilations and training, end the threads and drop the rest."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._pool.shutdown(cancel_futures=True)

    def _prepare(
        self, program_class: ProgramClass, params: Mapping[str, Scalar], device: int
    ) -> None:
        key = program_class.class_id, device
        if key in self._classes:
            return
        trainer = self._trainers[device]
        planned = _CompileTask(
            program_class, device, lambda: trainer.compile(program_class, params)
        )
        self._classes[key] = planned
        self._uncompiled[device].append(planned)
        self._observer(CompilePlanned(program_class.class_id, program_class.strategy))
        self._changed.notify_all()
        while self._unstarted:  # threads start when there is work
            index = self._unstarted.popleft()
            self._pool.submit(self._serve, f"thread {index}", index % len(self._trainers))

    def _serve(self, place: str, device: int) -> None:
        """Do the work of a device, one task after the other, until it is closed."""
        with self._timeline.at(place):
            while (task := self._take(device)) is not None:
                if isinstance(task, _CompileTask):
                    self._compile(task, place)
                else:
                    self._train(task, place, device)

    def _take(self, device: int) -> _CompileTask | _QueuedBucket | None:
        """A class to compile, or a bucket whose class is ready; None once it is closed."""
        with self._changed:
            while not self._closed:
                if self._uncompiled[device]:
                    return self._uncompiled[device].popleft()
                if (found := self._next(device)) is not None:
                    self._waiting.remove(found)
                    # it is busy now: others may take its remaining buckets
                    if found.device == device:
                        self._changed.notify_all()
                    return found
                self._idle[device] += 1
                self._changed.wait()
                self._idle[device] -= 1
        return None

    def _next(self, device: int) -> _QueuedBucket | None:
        """The first bucket for this device, or the last one that its own device cannot start now.

        This device has the program for it.
        """
        ready = [
            waiting
            for waiting in self._waiting
            if (known := self._classes.get((waiting.work.program.class_id, device))) is not None
            and known.ready
        ]
        own = (waiting for waiting in ready if waiting.device == device)

        def can_begin(waiting: _QueuedBucket) -> bool:
            theirs = self._classes[waiting.work.program.class_id, waiting.device]
            return theirs.ready and self._idle[waiting.device] > 0

        behind = (waiting for waiting in reversed(ready) if not can_begin(waiting))
        return next(own, None) or next(behind, None)

    def _compile(self, planned: _CompileTask, place: str) -> None:
        what = planned.program.class_id, planned.program.strategy, place
        try:
            self._observer(CompileStarted(*what))
            self._compile_ahead(planned)
            self._observer(CompileFinished(*what))
        except BaseException as error:  # buckets wait for the class, and report how it ended
            planned.error = error
        with self._changed:
            planned.ready = True
            self._queues.end_compiling(planned.program, planned.device)
            self._changed.notify_all()

    def _compile_ahead(self, planned: _CompileTask) -> None:
        try:
            planned.compile()
        except BaseException as error:
            if not is_raised(error):
                raise
            # each bucket of the class will fail with it, and report it
            self._log.debug("a class could not be compiled ahead of time", exc_info=error)

    def _train(self, waiting: _QueuedBucket, place: str, device: int) -> None:
        work, outcome = waiting.work, waiting.outcome
        try:
            if not outcome.set_running_or_notify_cancel():
                return
            try:
                if (
                    compile_error := self._classes[work.program.class_id, device].error
                ) is not None:
                    raise compile_error
                self._observer(bucket_started_event(work, place))
                trained = self._trainers[device].train(work, place, self._memory_fraction)
                self._observer(bucket_finished_event(trained))
                outcome.set_result(trained)
            except BaseException as error:
                outcome.set_exception(error)
        finally:
            with self._changed:
                self._queues.end_training(work, waiting.device)
