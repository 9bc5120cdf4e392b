"""The interface of a cluster engine: its workers, and the requests that they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sweeper.errors import Problem, SetupError
from sweeper.executors.engines.remote_worker import Opening
from sweeper.executors.executor import Work


@dataclass(frozen=True, slots=True)
class ClusterWorker:
    """A place of a cluster, in which one bucket at a time trains.

    `name` is its name in the results. `cores` are how many cores it may keep busy, on a `host` that
    it may share with others.
    """

    name: str
    host: str
    cores: int


class AddressError(Exception):
    """No engine answers at an address; the message says what answers, or why nothing does."""


class LostError(Exception):
    """A worker is gone, with any task it had; the message continues after its name."""


class GivenUpError(LostError):
    """A slot was given up by this process, or ended by itself, through no fault of its task."""


class BusyError(Exception):
    """A worker has not answered because it is doing something else."""


class EngineGoneError(SetupError):
    """The engine itself no longer answers, or never did."""


def gone(label: str, found: str) -> EngineGoneError:
    """The error of an engine that has answered, but no longer does."""
    hint = "start it again, then resume the study: committed rounds are kept"
    return EngineGoneError(Problem(label, "", found, hint))


class Engine(Protocol):
    """A connected engine; its methods are thread-safe.

    `label` is its name and address, `dashboard` a link to its own dashboard.
    """

    @property
    def label(self) -> str: ...
    @property
    def dashboard(self) -> str | None: ...

    def workers(self) -> Mapping[str, ClusterWorker]:
        """The workers that are there now, by key.

        Raises:
            EngineGoneError: the engine does not answer.
        """
        ...

    def survey(self, key: str, ask: Callable[[], Any], timeout_s: float) -> Any:
        """The result of `ask` in a worker, which may lack sweeper, or have another version.

        Raises:
            LostError: it no longer exists.
            BusyError: it has not answered in time.
        """
        ...

    def open(self, key: str, timeout_s: float) -> None:
        """Prepare a surveyed worker for this study.

        Raises:
            LostError: it no longer exists.
            BusyError: it is not available in time.
        """
        ...

    def train(self, key: str, opening: Opening, work: Work) -> object:
        """The result of `WorkerSlot.attempt` in a worker.

        Raises:
            LostError: it no longer exists.
            EngineGoneError: the engine does not answer.
        """
        ...

    def drop(self, key: str) -> None:
        """Stop using a worker."""
        ...

    def close(self) -> None:
        """End all work for this study at once; calls in progress raise LostError."""
        ...
