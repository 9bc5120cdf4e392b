"""Runs in a worker of an engine: holds a worker process of sweeper's own, which does the work.

An engine's worker may have started JAX with another precision, other flags or no memory share, and
may run other people's work; a trial that crashes or hangs would take all of it down. So a study
trains in a child process, started with its own environment, exactly as on a single machine.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from sweeper.errors import SetupError
from sweeper.executors.devices import shares, visible_gpus, worker_environment
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.process_executor import ClosedError, Slot
from sweeper.executors.retry import WorkerDiedError
from sweeper.executors.worker import WorkerSetup
from sweeper.executors.worker_process import block_interrupts
from sweeper.process import usable_cpus

# how often to check whether the slot is still wanted
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments with which a slot in an engine's worker is opened.

    It is slot number `turn` of `neighbours` on its host, and may keep `cores` cores busy, starting
    with `first_core`. `variables` are from the environment of the program that runs the study.
    """

    place: str
    setup: WorkerSetup
    log: Path
    memory_fraction: float
    turn: int
    neighbours: int
    first_core: int
    cores: int
    variables: Mapping[str, str]
    trial_timeout_s: float | None


class WorkerSlot:
    """A slot in this process, ended as soon as `is_wanted` returns False."""

    def __init__(self, opening: Opening, is_wanted: Callable[[], bool]) -> None:
        self._is_wanted = is_wanted
        self._slot = _slot(opening)
        # a worker's life is bound to the thread that starts it
        self._thread = ThreadPoolExecutor(1, initializer=block_interrupts)
        threading.Thread(target=self._watch, daemon=True).start()

    def attempt(
        self, opening: Opening, work: Work
    ) -> Outcome | WorkerDiedError | SetupError | ClosedError:
        """The outcome of `work`, or an error as a value.

        If a worker must be started, it gets the environment of `opening`.
        """
        self._slot.environment = _environment(opening)
        try:
            asked = self._thread.submit(self._slot.attempt, work)
        except RuntimeError:  # it was closed in the meantime
            return ClosedError()
        try:
            return asked.result()
        except (WorkerDiedError, SetupError, ClosedError) as error:
            return error

    def close(self) -> None:
        """End its worker, whatever it is doing."""
        self._slot.close()
        self._thread.shutdown(wait=False)

    def _watch(self) -> None:
        while self._is_wanted():
            time.sleep(_LOOK_S)
        self.close()


def _slot(opening: Opening) -> Slot:
    gpus = visible_gpus(os.environ)
    cpus = () if gpus else remote_cpus(opening, usable_cpus())
    setup = replace(opening.setup, parent=os.getpid(), cpus=cpus)
    # Dask marks its workers as daemons, which may not have children; these end with their parent
    multiprocessing.current_process().daemon = False
    return Slot(opening.place, setup, _environment(opening), opening.log, opening.trial_timeout_s)


def _environment(opening: Opening) -> dict[str, str]:
    own = remote_environment(opening, os.environ, visible_gpus(os.environ))
    return {**opening.variables, **own}


def remote_environment(
    opening: Opening, parent: Mapping[str, str], gpus: Sequence[str]
) -> dict[str, str]:
    """The variables of the worker in addition to those of its `parent`, set before Python starts.

    `gpus` are those that the parent sees. If that is a single assigned one, the worker uses it;
    otherwise workers are assigned in turn, by `turn` among those that see the same GPUs.
    """
    is_own = "CUDA_VISIBLE_DEVICES" in parent and len(gpus) == 1
    sharing = opening.neighbours
    if gpus:
        sharing = 1 if is_own else math.ceil(opening.neighbours / len(gpus))
    fraction = shares(opening.memory_fraction, 0, sharing).worker
    return worker_environment(opening.turn, fraction, gpus, parent)


def remote_cpus(opening: Opening, usable: Sequence[int]) -> tuple[int, ...]:
    """The cores of the worker; empty, meaning all, if it may not use more than there are."""
    if opening.cores >= len(usable):
        return ()
    first = opening.first_core
    return tuple(sorted(usable[(first + core) % len(usable)] for core in range(opening.cores)))
