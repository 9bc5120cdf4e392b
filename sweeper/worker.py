"""What a worker process runs. Nothing here imports JAX before `start` has set the stage for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.config import StudyConfig
from sweeper.executors.memory import carried_fraction
from sweeper.faults import VARIABLE, Step, fault_points, plan_faults
from sweeper.lifeline import die_with

if TYPE_CHECKING:
    from sweeper.executors.executor import Outcome, Work
    from sweeper.executors.trainer import Trainer


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker is started with: paths and plain values; data travels as a file.

    `cpus` are the cores it may use, all where there are none. `start` is the saved model that
    trials start from, if they do.
    """

    config: StudyConfig
    data: Path
    checkpoints: Path
    cpus: tuple[int, ...]
    parent: int
    start: Path | None = None


_trainer: Trainer | None = None
_memory_fraction: float | None = None


def start(setup: WorkerSetup) -> None:
    """Make this process a worker: bound to its parent's life and to its cores, then JAX."""
    global _trainer, _memory_fraction
    # Ctrl-C is the parent's to answer, also where it could not be blocked before this process began
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(setup.parent)
    if setup.cpus and hasattr(os, "sched_setaffinity"):
        # XLA sizes its thread pool by affinity; its flags for that would change results
        os.sched_setaffinity(0, setup.cpus)
    _memory_fraction = carried_fraction(os.environ)
    plan_faults(os.environ.get(VARIABLE))
    with fault_points(Step.START_WORKER):
        _trainer = _trainer_of(setup)


def _trainer_of(setup: WorkerSetup) -> Trainer:
    from sweeper.data.dataset import Dataset
    from sweeper.executors.compiling import configure_jax
    from sweeper.executors.trainer import Trainer
    from sweeper.programs.continued import read_start

    config = setup.config
    configure_jax(config.execution.precision, config.execution.matmul_precision)
    saved = None if setup.start is None else read_start(setup.start, config.base_dir)
    return Trainer(config, Dataset.load(setup.data), setup.checkpoints, saved)


def train(work: Work, place: str) -> Outcome:
    """The outcome of `work` in this process."""
    assert _trainer is not None, "the pool's initializer is start"
    return _trainer.train(work, place, _memory_fraction)


def usable_cpus() -> Sequence[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return range(os.cpu_count() or 1)
