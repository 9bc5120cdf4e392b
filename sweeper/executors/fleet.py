"""All that a study trains on: the threads of this process and its workers, side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.executors.compiling import CACHE_VARIABLE, cache_directory, configure_jax
from sweeper.executors.devices import visible_gpus
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.inline import InlineExecutor
from sweeper.executors.memory import (
    PREALLOCATE,
    Shares,
    carried_fraction,
    fraction_variable,
    shares,
)
from sweeper.executors.process import ProcessExecutor, Slot
from sweeper.executors.trainer import Trainer
from sweeper.progress import Observer
from sweeper.results.replace import replacing
from sweeper.rundir import RunDir
from sweeper.worker import WorkerSetup, usable_cpus


class Queue(Protocol):
    """An executor that takes buckets one by one."""

    def submit(self, work: Work) -> Future[Outcome]:
        """Queue `work`."""
        ...

    def close(self) -> None:
        """End every thread and process."""
        ...


@dataclass(frozen=True, slots=True)
class Fleet:
    """Sends each bucket of a plan to its side, or to the only side there is.

    The side is where a bucket runs, never what it computes.
    """

    inline: Queue | None
    process: Queue | None

    def train(self, works: Iterable[Work]) -> Iterator[Outcome]:
        """The outcome of each of `works`, as it comes."""
        futures = [self._side(work).submit(work) for work in works]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End every thread and process."""
        for side in (self.process, self.inline):
            if side is not None:
                side.close()

    def _side(self, work: Work) -> Queue:
        wanted, other = self.inline, self.process
        if work.bucket.side == "process":
            wanted, other = other, wanted
        side = wanted or other
        assert side is not None, "a study has threads or workers"
        return side


def n_threads(config: StudyConfig) -> int:
    """How many threads of this process train."""
    threads = config.execution.threads
    return len(usable_cpus()) if threads == "auto" else threads


def n_workers(config: StudyConfig) -> int:
    """How many worker processes there may be; they start when they are first needed.

    By default one a core, or one a GPU, whose memory they share with this process.
    """
    workers = config.execution.workers
    if workers != "auto":
        return workers
    return len(visible_gpus(os.environ)) or len(usable_cpus())


@contextmanager
def fleet(
    config: StudyConfig, data: Dataset, run_dir: RunDir, observer: Observer
) -> Iterator[Fleet]:
    """The threads and workers of a study, until the block ends.

    This process's own memory share is set before JAX starts its client, unless the user chose one.
    """
    threads, workers = n_threads(config), n_workers(config)
    memory = shares(config.execution.memory_fraction, threads, workers)
    if threads:
        os.environ.setdefault(fraction_variable(os.environ), f"{memory.parent:.4f}")
    else:  # this process opens the device to see what it is, and leaves its memory to the workers
        os.environ.setdefault(PREALLOCATE, "false")
    configure_jax(config.execution.precision)
    built = Fleet(
        _inline(config, data, run_dir, observer, threads) if threads else None,
        _process(config, data, run_dir, observer, memory, workers) if workers else None,
    )
    try:
        yield built
    finally:
        built.close()


def _inline(
    config: StudyConfig, data: Dataset, run_dir: RunDir, observer: Observer, threads: int
) -> InlineExecutor:
    trainer = Trainer(config, data, run_dir.checkpoints)
    return InlineExecutor(trainer, threads, observer, carried_fraction(os.environ))


def _process(
    config: StudyConfig,
    data: Dataset,
    run_dir: RunDir,
    observer: Observer,
    memory: Shares,
    workers: int,
) -> ProcessExecutor:
    with replacing(run_dir.data, run_dir.staging / "data") as staged:
        data.save(staged)
    gpus = visible_gpus(os.environ)
    slots = [
        Slot(
            index,
            WorkerSetup(
                config=config,
                data=run_dir.data.absolute(),
                checkpoints=run_dir.checkpoints.absolute(),
                cpus=worker_cpus(index, gpus, usable_cpus()),
                parent=os.getpid(),
            ),
            worker_environment(index, memory.worker, gpus, os.environ),
        )
        for index in range(workers)
    ]
    return ProcessExecutor(slots, config.execution.retries, observer)


def worker_environment(
    index: int, memory_fraction: float, gpus: Sequence[str], parent: Mapping[str, str]
) -> dict[str, str]:
    """What the environment of worker `index` holds, over the `parent`'s, before Python starts."""
    environment = {
        fraction_variable(parent): f"{memory_fraction:.4f}",
        PREALLOCATE: "true",
        CACHE_VARIABLE: str(cache_directory().parent),
    }
    if len(gpus) > 1:
        environment["CUDA_VISIBLE_DEVICES"] = gpus[index % len(gpus)]
    return environment


def worker_cpus(index: int, gpus: Sequence[str], cpus: Sequence[int]) -> tuple[int, ...]:
    """The core of worker `index`, one each round and round; all of them where there is a GPU."""
    return () if gpus else (cpus[index % len(cpus)],)
