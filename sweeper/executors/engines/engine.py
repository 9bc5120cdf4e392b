"""A cluster engine of the user's, as sweeper needs it: who is there, and what they are asked."""

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

    `name` is what the results call it. `cores` are how many it may keep busy, on a `host` that it
    may share with others.
    """

    name: str
    host: str
    cores: int


class AddressError(Exception):
    """No engine answers at an address; its message says who does, or how nobody."""


class LostError(Exception):
    """A member is gone, with whatever it was asked for; its message goes on after its name."""


class GivenUpError(LostError):
    """A slot was given up by this side, or gave itself up: by no doing of what it was asked for."""


class BusyError(Exception):
    """A member has given no answer, for it does something else."""


class EngineGoneError(SetupError):
    """The engine itself does not answer any more, or never did."""


def gone(label: str, found: str) -> EngineGoneError:
    """That the engine of this `label` has answered, and does so no more."""
    hint = "start it again, then go on: what is committed stands"
    return EngineGoneError(Problem(label, "", found, hint))


class Engine(Protocol):
    """An engine that was connected to; its methods are safe to use from several threads.

    `label` names it and where it is, `dashboard` is a link to its own view of itself.
    """

    @property
    def label(self) -> str: ...
    @property
    def dashboard(self) -> str | None: ...

    def members(self) -> Mapping[str, ClusterWorker]:
        """Who is there now, each by a key.

        Raises:
            EngineGoneError: nobody answers.
        """
        ...

    def survey(self, member: str, ask: Callable[[], Any], timeout_s: float) -> Any:
        """What `ask` gives in a member, which need not have sweeper, or not this version.

        Raises:
            LostError: it is not there any more.
            BusyError: it has not answered in time.
        """
        ...

    def open(self, member: str, timeout_s: float) -> None:
        """Take a member that has been surveyed for this study.

        Raises:
            LostError: it is not there any more.
            BusyError: it is not to be had in time.
        """
        ...

    def train(self, member: str, opening: Opening, work: Work) -> object:
        """What `far_slot.attempt` gives in a member.

        Raises:
            LostError: it is not there any more.
            EngineGoneError: nobody answers.
        """
        ...

    def drop(self, member: str) -> None:
        """Have nothing more to do with a member."""
        ...

    def close(self) -> None:
        """End whatever is done for this study, at once; calls under way raise LostError."""
        ...
