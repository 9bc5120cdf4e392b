"""The code of a worker process. Nothing here imports JAX before `start` has prepared for it."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
import traceback
from dataclasses import dataclass, replace
from io import TextIOWrapper
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.config import StudyConfig
from sweeper.executors.devices import XLA_THREADS, carried_fraction
from sweeper.executors.private_apis import let_worker_memory_grow
from sweeper.executors.signals import ignore_terminating_signals
from sweeper.faults import VARIABLE, Step, fault_points, plan_faults
from sweeper.process import die_with
from sweeper.results.timeline import Timeline

if TYPE_CHECKING:
    from sweeper.executors.executor import Work
    from sweeper.executors.trainer import Trainer


# makes a worker write its stack traces, whatever it is doing
WHERE_ARE_YOU = getattr(signal, "SIGUSR1", signal.SIGTERM)


# with it, Python does not put the current directory first on the import path
SAFE_PATH = "PYTHONSAFEPATH"
BY_SWEEPER = "set by sweeper"


@dataclass(frozen=True, slots=True)
class StartFile:
    """The saved model that trials start from, and where to find the functions that it names."""

    path: Path
    base_dir: Path


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The arguments of a worker: paths and plain values; it reads the data from a file.

    `cpus` are the cores it may use, all if empty. `start` is the saved model that trials start
    from, if any. `xla_threads` is the number in the program that runs the study, if it was set.
    `directory` is where the program was started, for files that user code opens, unless that is
    this process's own directory. `main` are functions in `__main__` that the study names, pickled
    by value.
    """

    config: StudyConfig
    data: Path
    checkpoints: Path
    cpus: tuple[int, ...]
    parent: int
    start: StartFile | None = None
    directory: Path | None = None
    xla_threads: int | None = None
    main: bytes | None = None


_timeline = Timeline()
_trainer: Trainer | None = None
_memory_fraction: float | None = None


def begin(setup: WorkerSetup, output: Connection) -> None:
    """Make this process a worker that writes its output to `output`."""
    write_to(output)
    if os.environ.get(SAFE_PATH) == BY_SWEEPER:
        del os.environ[SAFE_PATH]  # programs that user code starts search their path as usual
    let_worker_memory_grow()
    start(setup)


def write_to(output: Connection) -> None:
    """Write to `output` from now on, also how this process crashes, or its traces when asked."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        os.dup2(output.fileno(), descriptor)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # buffered output would be lost in a crash
    output.close()
    faulthandler.enable(all_threads=False)
    if hasattr(faulthandler, "register"):
        faulthandler.register(WHERE_ARE_YOU, all_threads=True)  # callbacks run in threads of XLA


def start(setup: WorkerSetup) -> None:
    """Prepare this process: tie it to its parent's life and its cores, then import JAX."""
    global _trainer, _memory_fraction
    # the parent handles signals, even if they could not be blocked before this process began
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ignore_terminating_signals()
    die_with(setup.parent)
    if setup.cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, setup.cpus)
    if setup.xla_threads is not None:
        os.environ[XLA_THREADS] = str(setup.xla_threads)
    if setup.directory is not None and setup.directory.is_dir():
        os.chdir(setup.directory)
    _memory_fraction = carried_fraction(os.environ)
    plan_faults(os.environ.get(VARIABLE))
    with fault_points(Step.START_WORKER):
        _trainer = _trainer_of(setup)


def _trainer_of(setup: WorkerSetup) -> Trainer:
    import jax

    from sweeper.data.dataset import Dataset
    from sweeper.executors.claims import devices_of
    from sweeper.executors.jax_setup import configure_for
    from sweeper.executors.trainer import Trainer
    from sweeper.models.by_value import restore
    from sweeper.programs.continued import read_start

    config = setup.config
    configure_for(config)
    jax.devices()  # without a device, the start fails rather than a trial
    if setup.main is not None:
        restore(setup.main, config.base_dir)
    start = setup.start
    saved = None if start is None else read_start(start.path, start.base_dir)
    data = Dataset.load(setup.data)
    devices = devices_of(config)
    return Trainer(config, data, setup.checkpoints, saved, devices, timeline=_timeline)


def train(work: Work, place: str) -> bytes:
    """The outcome of `work` in this process, pickled."""
    assert _trainer is not None, "the pool's initializer is `begin`"
    try:
        _timeline.cut()  # drop spans of a previous bucket without an outcome
        with _timeline.at(place):
            outcome = _trainer.train(work, place, _memory_fraction)
        outcome = replace(outcome, spans=_timeline.cut())
        with fault_points(Step.RETURN_OUTCOME):
            return pickle.dumps(outcome)
    except BaseException:
        traceback.print_exc()  # for the log: the parent only sees one error among others
        raise
