"""What a worker process runs. Nothing here imports JAX before `start` has set the stage for it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.config import StudyConfig
from sweeper.executors.memory import carried_fraction

if TYPE_CHECKING:
    from sweeper.executors.executor import Outcome, Work
    from sweeper.executors.trainer import Trainer

_PR_SET_PDEATHSIG = 1
_WATCH_S = 0.2


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker is started with: paths and plain values; data travels as a file.

    `cpus` are the cores it may use, all where there are none.
    """

    config: StudyConfig
    data: Path
    checkpoints: Path
    cpus: tuple[int, ...]
    parent: int


_trainer: Trainer | None = None
_memory_fraction: float | None = None


def start(setup: WorkerSetup) -> None:
    """Make this process a worker: bound to its parent's life and to its cores, then JAX."""
    global _trainer, _memory_fraction
    # Ctrl-C is the parent's to answer, also where it could not be blocked before this process began
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with(setup.parent)
    if setup.cpus and hasattr(os, "sched_setaffinity"):
        # XLA sizes its thread pool by affinity; its flags for that would change results
        os.sched_setaffinity(0, setup.cpus)
    _memory_fraction = carried_fraction(os.environ)
    from sweeper.data.dataset import Dataset
    from sweeper.executors.compiling import configure_jax
    from sweeper.executors.trainer import Trainer

    configure_jax(setup.config.execution.precision)
    _trainer = Trainer(setup.config, Dataset.load(setup.data), setup.checkpoints)


def train(work: Work, place: str) -> Outcome:
    """The outcome of `work` in this process."""
    assert _trainer is not None, "the pool's initializer is start"
    return _trainer.train(work, place, _memory_fraction)


def usable_cpus() -> Sequence[int]:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return range(os.cpu_count() or 1)


def _die_with(parent: int) -> None:
    """End this process when its parent ends, whatever it is doing then."""
    if sys.platform == "linux":
        # the kernel ends a worker even inside a native call that holds the interpreter
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    """For systems without a death signal, and for a parent that died before it was asked for."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)
