"""The events that a running sweep sends to its observers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sweeper.results.status import Status


@dataclass(frozen=True, slots=True)
class StudyOpened:
    """The study is open; on a resume, `rounds_done` rounds are already closed."""

    study: str
    run_dir: Path
    rounds_done: int
    n_trials: int


@dataclass(frozen=True, slots=True)
class BucketStarted:
    """A bucket was started at `place`."""

    bucket: int
    class_id: str
    strategy: str
    place: str
    trials: tuple[int, ...]
    epoch_to: int


@dataclass(frozen=True, slots=True)
class BucketFinished:
    """A bucket reached the end of its round."""

    bucket: int
    place: str
    compile_s: float
    cache_hit: bool
    train_s: float


@dataclass(frozen=True, slots=True)
class CompilePlanned:
    """A thread will compile or load a program, ahead of its first bucket."""

    class_id: str
    strategy: str


@dataclass(frozen=True, slots=True)
class CompileStarted:
    """A thread started to compile or load a program, ahead of its first bucket."""

    class_id: str
    strategy: str
    place: str


@dataclass(frozen=True, slots=True)
class CompileFinished:
    """The thread has finished that, successfully or not."""

    class_id: str
    strategy: str
    place: str


@dataclass(frozen=True, slots=True)
class RoundClosed:
    """A round was committed."""

    status: Status


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning for the user that does not stop the study."""

    message: str


PlaceEvent = BucketStarted | BucketFinished | CompileStarted | CompileFinished
Event = StudyOpened | CompilePlanned | PlaceEvent | RoundClosed | Warned
Observer = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Compiling:
    """How many programs have been compiled of those planned since `since`, when none was."""

    planned: int = 0
    done: int = 0
    since: float = 0.0

    @property
    def is_going_on(self) -> bool:
        """Whether some program is not compiled yet."""
        return self.done < self.planned

    def after(self, event: Event, now: float) -> Compiling:
        """The counts after an event at the time `now`."""
        if isinstance(event, CompilePlanned):
            before = self if self.is_going_on else Compiling(since=now)
            return replace(before, planned=before.planned + 1)
        return replace(self, done=self.done + isinstance(event, CompileFinished))
