"""The events that a running sweep sends to its observers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sweeper.errors import counted
from sweeper.results.status import Status


@dataclass(frozen=True, slots=True)
class StudyOpened:
    """The study is open; on a resume, `rounds_done` rounds are already closed.

    `moved_to` is where an old run directory is now, if the study started over.
    """

    study: str
    run_dir: Path
    rounds_done: int
    n_trials: int
    moved_to: Path | None = None


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A round begins to train this many trials."""

    round: int
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
    trials: tuple[int, ...] = ()


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
    """A thread finished compiling or loading a program, successfully or not."""

    class_id: str
    strategy: str
    place: str


@dataclass(frozen=True, slots=True)
class RoundClosed:
    """A round was committed."""

    status: Status


@dataclass(frozen=True, slots=True)
class Warned:
    """A message for the user that does not stop the study: a warning, or news."""

    message: str
    is_news: bool = False

    @property
    def text(self) -> str:
        """The message as a line of its own."""
        return self.message if self.is_news else f"warning: {self.message}"


PlaceEvent = BucketStarted | BucketFinished | CompileStarted | CompileFinished
Event = StudyOpened | RoundStarted | CompilePlanned | PlaceEvent | RoundClosed | Warned
Observer = Callable[[Event], None]
_BY_OBSERVER = "raised by the observer of this run"


def call_observer(observer: Observer, event: Event) -> None:
    """Pass an event to an observer of the user; an error that it raises gets a note that says so.

    Otherwise an error of the network or a file would be mistaken for one of the run directory.
    """
    try:
        observer(event)
    except Exception as error:
        if not is_of_observer(error):
            error.add_note(_BY_OBSERVER)
        raise


def is_of_observer(error: BaseException) -> bool:
    """Whether an observer of the user raised the error."""
    return _BY_OBSERVER in getattr(error, "__notes__", ())


@dataclass(frozen=True, slots=True)
class Compiling:
    """Counts of programs to compile; `since` is when the first of them was planned."""

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


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """Which trials of the round in training have reached its end; 0 trials if none trains.

    `places` are those of the buckets that have started, by their numbers.
    """

    round: int = 0
    n_trials: int = 0
    trained: frozenset[int] = frozenset()
    places: Mapping[int, str] = field(default_factory=dict[int, str])

    def after(self, event: Event) -> RoundProgress:
        """The progress after an event."""
        match event:
            case RoundStarted(round=number, n_trials=n_trials):
                return RoundProgress(number, n_trials)
            case BucketStarted(bucket=bucket, place=place):
                return replace(self, places={**self.places, bucket: place})
            case BucketFinished(trials=trials):
                return replace(self, trained=self.trained.union(trials))
            case RoundClosed():
                return RoundProgress()
            case _:
                return self

    def __str__(self) -> str:
        """For example `7 of 23 trials of round 1 trained`; empty if no round trains."""
        every = counted(self.n_trials, "trial")
        n_trained = len(self.trained)
        return f"{n_trained} of {every} of round {self.round} trained" if self.n_trials else ""
