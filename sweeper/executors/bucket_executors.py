"""Everything that a study trains on: the threads of this process and its workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.executors.claims import (
    claim_devices,
    devices_of,
    gpus,
    n_threads,
    n_workers,
    shares_of,
)
from sweeper.executors.data_memory import check_fits_workers, trained_bytes
from sweeper.executors.devices import worker_cpus, worker_environment
from sweeper.executors.executor import Executor, Outcome, Work
from sweeper.executors.open_devices import own_fraction, own_xla_threads
from sweeper.executors.placement import device_locks
from sweeper.executors.thread_executor import ThreadExecutor
from sweeper.executors.trainer import Trainer
from sweeper.executors.worker import StartFile, WorkerSetup
from sweeper.faults import Step, fault_points
from sweeper.files import replacing
from sweeper.models.by_value import by_value
from sweeper.process import usable_cores, usable_cpus
from sweeper.programs.continued import SavedStart
from sweeper.results.events import Observer
from sweeper.results.timeline import Timeline
from sweeper.rundir import RunDir
from sweeper.scheduler.classes import ProgramClass
from sweeper.trial import Scalar


@dataclass(slots=True)
class BucketExecutors:
    """Sends each bucket of a plan to threads or workers, whichever exist.

    This decides where a bucket runs, never what it computes. `start_workers` is called when a
    bucket first needs them, which never happens in a study whose trials all share programs.
    """

    thread_executor: ThreadExecutor | None
    start_workers: Callable[[], Executor] | None
    worker_executor: Executor | None = None

    def prepare(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> None:
        """Compile a class for threads in advance; `params` are those of any of its trials."""
        if self.thread_executor is not None:
            self.thread_executor.prepare(program_class, params)

    def train(self, works: Iterable[Work]) -> Iterator[Outcome]:
        """Start on `works` at once; yields each outcome as it arrives."""
        return _as_they_end([self._executor_of(work).submit(work) for work in works])

    def close(self) -> None:
        """End every thread and process."""
        for executor in (self.worker_executor, self.thread_executor):
            if executor is not None:
                executor.close()

    def _executor_of(self, work: Work) -> Executor:
        wants_workers = work.bucket.side == "process" or self.thread_executor is None
        if wants_workers and self.worker_executor is None and self.start_workers is not None:
            self.worker_executor = self.start_workers()
        wanted, other = self.thread_executor, self.worker_executor
        if wants_workers:
            wanted, other = other, wanted
        executor = wanted or other
        assert executor is not None, "every study has threads or workers"
        return executor


def _as_they_end(futures: Sequence[Future[Outcome]]) -> Iterator[Outcome]:
    try:
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


@dataclass(frozen=True, slots=True)
class StudyInputs:
    """What all executors of a study are created from; its trials start from `start`, if any."""

    config: StudyConfig
    data: Dataset
    run_dir: RunDir
    observer: Observer
    start: SavedStart | None = None

    @property
    def start_file(self) -> StartFile | None:
        """The copy of the saved model that trials start from, if any."""
        return self.start and StartFile(self.run_dir.started_from, self.start.settings.base_dir)

    def write_data(self) -> None:
        """Write the data to the file that workers read."""
        run_dir = self.run_dir
        with fault_points(Step.SEND_DATA), replacing(run_dir.data, run_dir.staging) as staged:
            self.data.save(staged)


@contextmanager
def open_executors(
    config: StudyConfig,
    data: Dataset,
    run_dir: RunDir,
    observer: Observer,
    start: SavedStart | None = None,
    timeline: Timeline | None = None,
) -> Iterator[BucketExecutors]:
    """The threads and workers of a study, whose trials start from `start`, until the block ends.

    They record their activities in `timeline`, except for workers of an engine. This process's own
    memory share is set before JAX starts its client, unless the user has chosen one.
    """
    claim_devices(config)
    inputs = StudyInputs(config, data, run_dir, observer, start)
    if config.execution.engine is None:
        opening = _local_executors(inputs, timeline or Timeline())
    else:
        opening = _engine_executors(inputs)
    with opening as executors:
        yield executors


@contextmanager
def _engine_executors(inputs: StudyInputs) -> Iterator[BucketExecutors]:
    """The workers of an engine, which are ready and suitable before anything is trained."""
    # imports an engine, which may be missing
    from sweeper.executors.engines.connect import connect_engine

    config, n_bytes = inputs.config, trained_bytes(inputs.config, inputs.data)
    executor = connect_engine(config, inputs.run_dir, inputs.observer, inputs.start_file, n_bytes)

    def begin() -> Executor:
        inputs.write_data()
        return executor

    with closing(executor):
        yield BucketExecutors(thread_executor=None, start_workers=begin)


@contextmanager
def _local_executors(inputs: StudyInputs, timeline: Timeline) -> Iterator[BucketExecutors]:
    """The threads of this process, and workers that start when they are first needed."""
    threads, workers = n_threads(inputs.config), n_workers(inputs.config)
    executors = BucketExecutors(
        thread_executor=_start_threads(inputs, threads, timeline) if threads else None,
        start_workers=partial(_start_workers, inputs, workers, timeline) if workers else None,
    )
    with closing(executors):
        yield executors


def _start_threads(inputs: StudyInputs, threads: int, timeline: Timeline) -> ThreadExecutor:
    config, checkpoints = inputs.config, inputs.run_dir.checkpoints
    devices = devices_of(config)
    # a program of several structures runs on all devices, any other on one
    groups = [devices] if config.execution.strategy == "switch" else [[one] for one in devices]
    locks = device_locks([group[0].platform for group in groups])
    trainers = [
        Trainer(config, inputs.data, checkpoints, inputs.start, group, lock, timeline)
        for group, lock in zip(groups, locks, strict=True)
    ]
    # cache entries are for one device by its number, but those of GPUs for any of a kind
    return ThreadExecutor(
        trainers,
        threads,
        inputs.observer,
        own_fraction(),
        is_cache_shared=devices[0].platform == "gpu",
        timeline=timeline,
    )


def _start_workers(inputs: StudyInputs, workers: int, timeline: Timeline) -> Executor:
    config, run_dir = inputs.config, inputs.run_dir
    check_fits_workers(config, inputs.data)
    # loky is slow to import
    from sweeper.executors.process_executor import ProcessExecutor, Slot

    inputs.write_data()
    main = by_value(config)
    mine, worker_fraction = gpus(config), shares_of(config).worker
    slots = [
        Slot(
            f"worker {index}",
            WorkerSetup(
                config=config,
                data=run_dir.data,
                checkpoints=run_dir.checkpoints,
                cpus=worker_cpus(index, mine, usable_cpus(), usable_cores()),
                parent=os.getpid(),
                start=inputs.start_file,
                xla_threads=own_xla_threads(),
                main=main,
            ),
            worker_environment(index, worker_fraction, mine, os.environ),
            run_dir.worker_log(index),
            config.execution.trial_timeout_s,
            inputs.write_data,
            timeline,
        )
        for index in range(workers)
    ]
    return ProcessExecutor(slots, config.execution.retries, inputs.observer)
