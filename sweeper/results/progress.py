"""What a running study does, as its events say: the state behind every view of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sweeper.results import formatting
from sweeper.results.events import (
    BucketStarted,
    CompilePlanned,
    Compiling,
    Event,
    PlaceEvent,
    RoundClosed,
    RoundProgress,
    RoundStarted,
    StudyOpened,
    Warned,
)
from sweeper.results.status import Status
from sweeper.results.timeline import DOING, IDLE, Activity

# workers do both, and do not report when they begin to train
_IN_WORKERS = "compiling and training in workers"
# without a round, the program is only idle once the last one is closed
_FINISHING = "finishing"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a study after some events; times are of the clock of the view.

    `status` is that of the last commit, which was reported at `status_at`. `places` have their last
    event and its time.
    """

    opened: StudyOpened | None = None
    status: Status | None = None
    status_at: float = 0.0
    compiling: Compiling = field(default_factory=Compiling)
    round: RoundProgress = field(default_factory=RoundProgress)
    places: Mapping[str, tuple[PlaceEvent, float]] = field(
        default_factory=dict[str, tuple[PlaceEvent, float]]
    )
    has_workers: bool = False

    def after(self, event: Event, now: float) -> Progress:
        """The progress after an event at the time `now`."""
        seen = replace(
            self, compiling=self.compiling.after(event, now), round=self.round.after(event)
        )
        match event:
            case Warned() | CompilePlanned() | RoundStarted():
                return seen
            case StudyOpened():
                return replace(seen, opened=event)
            case RoundClosed(status=status):
                return replace(seen, status=status, status_at=now)
            case _:
                is_started = isinstance(event, BucketStarted)
                is_worker = is_started and not event.place.startswith("thread ")
                places = {**self.places, event.place: (event, now)}
                return replace(seen, places=places, has_workers=self.has_workers or is_worker)

    @property
    def rounds(self) -> int:
        """How many rounds are committed."""
        if self.status is not None:
            return self.status.round
        return 0 if self.opened is None else self.opened.rounds_done

    def activity(self, program: str) -> str:
        """What goes on, while the program itself does `program`: `compiling` or `training`."""
        if self.compiling.is_going_on:
            return DOING[Activity.COMPILE]
        if self.round.n_trials and program != DOING[Activity.INITIALIZE]:
            # whatever else the program does: it publishes while a round trains
            return _IN_WORKERS if self.has_workers else DOING[Activity.TRAIN]
        return _FINISHING if program == IDLE else program

    def current(self, program: str, now: float) -> str:
        """The activity in detail: `compiling: 3 of 8 programs done, 0:12`, and the round."""
        found = self.activity(program)
        if self.compiling.is_going_on:
            found += f": {formatting.compiling(self.compiling, now)}"
        return ", ".join(filter(None, (found, str(self.round))))
