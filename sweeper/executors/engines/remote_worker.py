"""What runs in a worker of an engine: it holds a worker process of sweeper's own, and asks that.

An engine's worker may have started JAX with another precision, other flags or no share of the
memory, and other people's work in it; a trial that crashes or hangs would take it down with it. So
a study trains in a child of it, started with its own environment, exactly as it is on one machine.
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
from sweeper.executors.process import ClosedError, Slot
from sweeper.executors.retry import WorkerDiedError
from sweeper.executors.worker import WorkerSetup
from sweeper.executors.worker_process import block_interrupts
from sweeper.process import usable_cpus

# how often it is looked whether anybody still wants the slot
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Opening:
    """What a slot in an engine's worker is opened with.

    Of its host it is slot number `turn`, of `neighbours` in all, and may keep `cores` cores busy
    from number `first_core` on. `variables` are of the environment of the program that runs the
    study.
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


class FarSlot:
    """A slot in this process, ended as soon as `is_wanted` says no."""

    def __init__(self, opening: Opening, is_wanted: Callable[[], bool]) -> None:
        self._is_wanted = is_wanted
        self._slot = _slot(opening)
        # a worker's life is bound to the thread that starts it
        self._thread = ThreadPoolExecutor(1, initializer=block_interrupts)
        threading.Thread(target=self._watch, daemon=True).start()

    def attempt(
        self, opening: Opening, work: Work
    ) -> Outcome | WorkerDiedError | SetupError | ClosedError:
        """What came of `work`, also where that is an error.

        A worker that has to start has the environment of `opening`.
        """
        self._slot.environment = _environment(opening)
        try:
            asked = self._thread.submit(self._slot.attempt, work)
        except RuntimeError:  # it was closed meanwhile
            return ClosedError()
        try:
            return asked.result()
        except (WorkerDiedError, SetupError, ClosedError) as error:
            return error

    def close(self) -> None:
        """End its worker, whatever that is doing."""
        self._slot.close()
        self._thread.shutdown(wait=False)

    def _watch(self) -> None:
        while self._is_wanted():
            time.sleep(_LOOK_S)
        self.close()


def _slot(opening: Opening) -> Slot:
    gpus = visible_gpus(os.environ)
    cpus = () if gpus else far_cpus(opening, usable_cpus())
    setup = replace(opening.setup, parent=os.getpid(), cpus=cpus)
    # Dask marks its workers as daemons, which may not have children; these end with their parent
    multiprocessing.current_process().daemon = False
    return Slot(opening.place, setup, _environment(opening), opening.log, opening.trial_timeout_s)


def _environment(opening: Opening) -> dict[str, str]:
    own = far_environment(opening, os.environ, visible_gpus(os.environ))
    return {**opening.variables, **own}


def far_environment(
    opening: Opening, parent: Mapping[str, str], gpus: Sequence[str]
) -> dict[str, str]:
    """What the environment of the worker holds over that of its `parent`, before Python starts.

    `gpus` are those that the parent sees. One alone, where it was told so, is this one's; else
    workers go round them by their `turn`, which counts those that see the same.
    """
    is_own = "CUDA_VISIBLE_DEVICES" in parent and len(gpus) == 1
    sharing = opening.neighbours
    if gpus:
        sharing = 1 if is_own else math.ceil(opening.neighbours / len(gpus))
    fraction = shares(opening.memory_fraction, 0, sharing).worker
    return worker_environment(opening.turn, fraction, gpus, parent)


def far_cpus(opening: Opening, usable: Sequence[int]) -> tuple[int, ...]:
    """The cores of the worker; none, which is all, where there are no more than it may use."""
    if opening.cores >= len(usable):
        return ()
    first = opening.first_core
    return tuple(sorted(usable[(first + core) % len(usable)] for core in range(opening.cores)))
