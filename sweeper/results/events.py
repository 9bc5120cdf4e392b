"""What a running sweep tells whoever watches it: one small record an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sweeper.results.status import Status


@dataclass(frozen=True, slots=True)
class StudyOpened:
    """The study is open; `rounds_done` are closed already where it goes on."""

    study: str
    run_dir: Path
    rounds_done: int
    n_trials: int


@dataclass(frozen=True, slots=True)
class BucketStarted:
    """A bucket was taken up at `place`."""

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
class CompileStarted:
    """A thread began to compile a program, or to load it, ahead of its first bucket."""

    class_id: str
    strategy: str
    place: str


@dataclass(frozen=True, slots=True)
class CompileFinished:
    """It is done with that, however it went."""

    class_id: str
    strategy: str
    place: str


@dataclass(frozen=True, slots=True)
class RoundClosed:
    """A round is committed."""

    status: Status


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that the user should know and that does not stop the study."""

    message: str


PlaceEvent = BucketStarted | BucketFinished | CompileStarted | CompileFinished
Event = StudyOpened | PlaceEvent | RoundClosed | Warned
Observer = Callable[[Event], None]
