"""Show progress while a study runs: a live view on a terminal, plain lines elsewhere.

Both are observers: they receive events, from any thread, and decide nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeper.errors import counted
from sweeper.results import formatting
from sweeper.results.events import (
    BucketStarted,
    CompileFinished,
    CompileStarted,
    Event,
    PlaceEvent,
    RoundClosed,
    StudyOpened,
    Warned,
)
from sweeper.results.progress import Progress
from sweeper.results.status import Status
from sweeper.results.timeline import DOING, Activity, Timeline

# how often lines report the activity in the first minute, and check whether it has changed
_FIRST_PERIOD_S, _FIRST_S, _LOOK_S = 10.0, 60.0, 1.0
_AVERAGING = DOING[Activity.ENSEMBLE]


class View:
    """Shows a sweep from entry to exit; this one shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, event: Event) -> None:
        """Handle an event."""

    def say(self, message: str) -> None:
        """Print a line that stays on the screen."""


def view_for(console: Console, timeline: Timeline | None = None) -> View:
    """The view that fits `console`; `timeline` is that of the program."""
    timeline = timeline or Timeline(first=Activity.OPEN)
    view = LiveView if console.is_terminal else LineView
    ran_s = max(0.0, time.time() - timeline.started_at)
    return view(console, doing=lambda: timeline.doing, ran_s=ran_s)


class LiveView(View):
    """A view that is redrawn four times a second."""

    def __init__(
        self,
        console: Console,
        clock: Callable[[], float] = time.monotonic,
        *,
        doing: Callable[[], str] = lambda: DOING[Activity.OPEN],
        ran_s: float = 0.0,
    ) -> None:
        self._clock = clock
        self._doing = doing
        self._progress = Progress()
        self._lock = threading.Lock()
        self._started_at = clock() - ran_s
        self._live = Live(console=console, get_renderable=self.picture, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._progress = replace(self._progress, places={})  # none is working any more
        self._live.stop()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.say(event.text)
            return
        with self._lock:
            self._progress = self._progress.after(event, self._clock())

    def say(self, message: str) -> None:
        self._live.console.print(message, soft_wrap=True)

    def picture(self) -> RenderableType:
        """The current state of the study."""
        now = self._clock()
        with self._lock:
            progress = self._progress
        opened, status, trained = progress.opened, progress.status, str(progress.round)
        elapsed = formatting.duration(now - self._started_at)
        parts: list[RenderableType] = []
        if opened is None:
            parts.append(Text(f"{self._doing()}, {elapsed}"))
        else:
            parts.append(Text(f"{opened.study}, rounds closed: {progress.rounds}, {elapsed}"))
            since_s = now - progress.status_at
            parts += [_first_bar(opened)] if status is None else _status_lines(status, since_s)
        if trained:
            parts.append(Text(trained))
        if progress.compiling.is_going_on:
            parts.append(Text(f"compiling: {formatting.compiling(progress.compiling, now)}"))
        if progress.places:
            parts.append(_places_table(progress.places, now))
        if self._doing() == _AVERAGING:
            parts.append(Text(_AVERAGING))
        return Group(*parts)


def _first_bar(opened: StudyOpened) -> RenderableType:
    """The bar before the first commit; after a resume, the number of finished trials is unknown."""
    every, is_resumed = counted(opened.n_trials, "trial"), opened.rounds_done > 0
    return _bar(
        None if is_resumed else 0, opened.n_trials, every if is_resumed else f"0 of {every}"
    )


def _bar(finished: int | None, n_trials: int, *texts: str) -> RenderableType:
    """A progress bar with text next to it; it pulses if `finished` is not known."""
    total = None if finished is None else n_trials
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=total, completed=finished or 0, width=32, complete_style="green"), *texts
    )
    return bar


def _status_lines(status: Status, since_s: float) -> list[RenderableType]:
    """The status at the last commit, `since_s` seconds ago, with the time that is left now."""
    finished = formatting.finished_trials(status.counts)
    ended = f"{finished} of {counted(status.n_trials, 'trial')}"
    bar = _bar(finished, status.n_trials, ended, formatting.pace(status, since_s))
    parts: list[RenderableType] = [bar, Text(formatting.states(status))]
    if status.best is not None:
        parts.append(Text(formatting.best_trial(status.metric, status.best), style="bold"))
    return parts


def _places_table(places: Mapping[str, tuple[PlaceEvent, float]], now: float) -> RenderableType:
    """What each thread and worker is doing, and for how long."""
    table = Table.grid(padding=(0, 2))
    for place in sorted(places):
        event, since = places[place]
        table.add_row(place, formatting.duration(now - since), doing(event))
    return table


def doing(event: PlaceEvent) -> str:
    """What a place is doing, from its last event."""
    if isinstance(event, CompileStarted):
        return f"compiling the {event.strategy} program {event.class_id}"
    if isinstance(event, CompileFinished):
        return f"idle after compiling the {event.strategy} program {event.class_id}"
    if isinstance(event, BucketStarted):
        trials = formatting.trial_numbers(event.trials)
        return f"{event.strategy} bucket {event.bucket}: {trials} to epoch {event.epoch_to}"
    got = "loaded from the cache" if event.cache_hit else "compiled"
    return (
        f"idle after bucket {event.bucket}, {got} in {event.compile_s:.1f} s, "
        f"trained in {event.train_s:.1f} s"
    )


class LineView(View):
    """Prints a line for each new best, each tenth of the trials, and every half minute.

    In the first minute, it prints what the program is doing when this changes, and every ten
    seconds.
    """

    def __init__(
        self,
        console: Console,
        period_s: float = 30.0,
        *,
        doing: Callable[[], str] = lambda: DOING[Activity.OPEN],
        ran_s: float = 0.0,
    ) -> None:
        self._console = console
        self._period_s = period_s
        self._doing = doing
        self._progress = Progress()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._clock = threading.Thread(target=self._tell_time, name="view", daemon=True)
        self._started_at = self._said_at = time.monotonic() - ran_s
        self._best: float | None = None
        self._tenth = 0

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._clock.join()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._progress = self._progress.after(event, time.monotonic())
        if isinstance(event, Warned):
            self.say(event.text)
        elif isinstance(event, StudyOpened):
            going_on = f", resuming after round {event.rounds_done}" if event.rounds_done else ""
            self.say(
                f"{event.study}: {counted(event.n_trials, 'trial')} in {event.run_dir}{going_on}"
            )
            if event.moved_to is not None:
                self.say(f"the old run directory is now {event.moved_to}")
        elif isinstance(event, RoundClosed):
            for line in self._new_lines(event.status):
                self.say(line)

    def say(self, message: str) -> None:
        with self._lock:
            self._console.print(message, soft_wrap=True)
            self._console.file.flush()
            self._said_at = time.monotonic()

    def _new_lines(self, status: Status) -> list[str]:
        """The new facts after a round, compared with the rounds before."""
        lines: list[str] = []
        if status.best is not None and status.best["value"] != self._best:
            self._best = status.best["value"]
            lines.append(formatting.best_trial(status.metric, status.best))
        percent = 100 * formatting.finished_trials(status.counts) // status.n_trials
        if percent // 10 > self._tenth:
            self._tenth = percent // 10
            lines.append(f"{percent} %, {_last_round(status, since_s=0.0)}")
        return lines

    def _tell_time(self) -> None:
        look_s = min(self._period_s, _LOOK_S)
        said = ""
        while not self._ended.wait(look_s):
            now = time.monotonic()
            is_first = now - self._started_at < _FIRST_S
            period_s = min(self._period_s, _FIRST_PERIOD_S) if is_first else self._period_s
            activity = self._activity()
            if now - self._said_at >= period_s or (is_first and activity not in (said, "")):
                said = activity
                self.say(f"{formatting.duration(now - self._started_at)}, {self.what_is_done()}")

    def _activity(self) -> str:
        """What goes on before the first commit; empty afterwards."""
        with self._lock:
            progress = self._progress
        return progress.activity(self._doing()) if progress.status is None else ""

    def what_is_done(self) -> str:
        """The progress, and what the program is doing if no round has been closed."""
        with self._lock:
            progress = self._progress
        now, status = time.monotonic(), progress.status
        if status is None:
            return progress.current(self._doing(), now)
        compiling = f"compiling: {formatting.compiling(progress.compiling, now)}"
        parts = (
            _last_round(status, now - progress.status_at),
            compiling if progress.compiling.is_going_on else "",
            str(progress.round),
            _AVERAGING if self._doing() == _AVERAGING else "",
        )
        return ", ".join(filter(None, parts))


def _last_round(status: Status, since_s: float) -> str:
    """The progress after a round that was committed `since_s` seconds ago."""
    shown = f"round {status.round}: {formatting.progress(status, since_s)}"
    diverged = formatting.outcomes(status).get(formatting.DIVERGED)
    return f"{shown}, {diverged} diverged" if diverged else shown
