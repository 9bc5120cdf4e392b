"""What the program, its threads and its workers did and when.

A row of the timeline is a place: the program itself, a thread or a worker. Spans of one row never
overlap, because a span that starts inside another one interrupts it. Time without a span is idle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

PROGRAM = "program"
IDLE = "idle"


class Activity(StrEnum):
    """What a place does. If several places are busy, time counts as the first of these."""

    TRAIN = "train"
    COMPILE = "compile"
    LOAD = "load"
    LOST = "lost"
    WORKER = "worker"
    INITIALIZE = "initialize"
    BUCKET = "bucket"
    IMPORT = "import"
    DATA = "data"
    OPEN = "open"
    ASK = "ask"
    COMMIT = "commit"
    PUBLISH = "publish"
    BASELINE = "baseline"
    ENSEMBLE = "ensemble"


DOING = {
    Activity.TRAIN: "training",
    Activity.COMPILE: "compiling",
    Activity.LOAD: "loading compiled programs",
    Activity.LOST: "lost with workers",
    Activity.WORKER: "starting workers",
    Activity.INITIALIZE: "initializing models",
    Activity.BUCKET: "reading and writing states",
    Activity.IMPORT: "importing",
    Activity.DATA: "waiting for data",
    Activity.OPEN: "opening the study",
    Activity.ASK: "asking",
    Activity.COMMIT: "committing",
    Activity.PUBLISH: "publishing",
    Activity.BASELINE: "waiting for simple models",
    Activity.ENSEMBLE: "averaging models",
    IDLE: "idle",
}
"""Each activity in words, in display order."""
# a clock that is less than this behind is not read at the same moment, or is being adjusted
_SET_BACK_S = 1.0
_BEGINNING: dict[str, str] = {Activity.IMPORT: "importing JAX", Activity.DATA: "reading the data"}


class Span(NamedTuple):
    """One activity at one place; times are seconds since 1970, UTC.

    A tuple, so that the ledger stores it as a short list.
    """

    place: str
    activity: str
    started_at: float
    finished_at: float
    bucket_id: int | None = None
    class_id: str | None = None


@dataclass(slots=True)
class OpenSpan:
    """A span that has not ended; its activity may be corrected until then."""

    activity: Activity
    started_at: float
    bucket_id: int | None = None
    class_id: str | None = None


class Timeline:
    """Records spans since the last cut, and sums up all of them; thread-safe.

    With a `first` activity, the program has been doing that since `started_at`.
    """

    def __init__(
        self,
        started_at: float | None = None,
        first: Activity | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` is the time of day of spans, and `timer` measures how much time has passed."""
        self.started_at = round(clock() if started_at is None else started_at, 6)
        self._clock, self._timer = clock, timer
        self._began_s = timer() - max(0.0, clock() - self.started_at)
        self._latest = self.started_at, self._began_s  # the last reading of both
        self.elapsed_s = 0.0
        """Seconds from the start to the last cut, even if the time of day is changed meanwhile."""
        self._cut_at = self.started_at
        self._spent_s = dict.fromkeys([*map(str, Activity), IDLE], 0.0)
        self._ended: list[Span] = []
        self._open: dict[str, list[OpenSpan]] = {}
        self._here = threading.local()
        self._lock = threading.Lock()
        if first is not None:
            self._open[PROGRAM] = [OpenSpan(first, self.started_at)]

    @contextmanager
    def at(self, place: str) -> Generator[None]:
        """Record what this thread does in the block as done at `place`."""
        before = self._place
        self._here.place = place
        try:
            yield
        finally:
            self._here.place = before

    @contextmanager
    def spending(
        self, activity: Activity, *, bucket_id: int | None = None, class_id: str | None = None
    ) -> Generator[OpenSpan]:
        """Record the block as a span, which interrupts the span around it."""
        with self._lock:
            around = self._open.setdefault(self._place, [])
            own = OpenSpan(activity, self._now(), bucket_id, class_id)
            self._end_last(own.started_at)
            around.append(own)
        try:
            yield own
        finally:
            with self._lock:
                now = self._now()
                self._end_last(now)
                around.pop()
                if around:
                    around[-1].started_at = now

    def go_on_with(self, activity: Activity | None) -> None:
        """Record that this place does `activity` from now on, or is idle if None."""
        with self._lock:
            now = self._now()
            self._end_last(now)
            self._open[self._place] = [] if activity is None else [OpenSpan(activity, now)]

    def add(self, spans: Iterable[Span]) -> None:
        """Add spans recorded by another process."""
        with self._lock:
            self._ended.extend(spans)

    def cut(self) -> tuple[Span, ...]:
        """The spans since the last cut. Spans that have not ended are cut in two."""
        with self._lock:
            now = self._now()
            spans = tuple(self._until(now))
            for activity, seconds in shares(spans, self._cut_at, now).items():
                self._spent_s[activity] += seconds
            self._ended = []
            for own in (places[-1] for places in self._open.values() if places):
                own.started_at = now
            self._cut_at = now
            self.elapsed_s = self._latest[1] - self._began_s
            return spans

    def spent_s(self) -> dict[str, float]:
        """Seconds by activity from the start until now, including idle time."""
        with self._lock:
            now = self._now()
            more = shares(self._until(now), self._cut_at, now)
            return {activity: self._spent_s[activity] + more[activity] for activity in more}

    def end(self) -> tuple[Span, ...]:
        """The spans since the last cut; the time stops."""
        spans = self.cut()
        self._clock = lambda: self._cut_at
        self._timer = lambda: self._latest[1]
        return spans

    @property
    def doing(self) -> str:
        """What the program itself is doing, in words for the user.

        It is initializing models if a thread does so and no thread trains yet.
        """
        with self._lock:
            current = {spans[-1].activity for spans in self._open.values() if spans}
            if Activity.INITIALIZE in current and Activity.TRAIN not in current:
                return DOING[Activity.INITIALIZE]
            spans = self._open.get(PROGRAM)
            activity = spans[-1].activity if spans else IDLE
            return _BEGINNING.get(activity, DOING[activity])

    @property
    def _place(self) -> str:
        return getattr(self._here, "place", PROGRAM)

    def _now(self) -> float:
        """The time of day. If the clock is set back, the time goes on as if it had not been."""
        day, now_s = round(self._clock(), 6), self._timer()
        before, before_s = self._latest
        expected = round(before + now_s - before_s, 6)
        now = expected if day < expected - _SET_BACK_S else max(day, before)
        self._latest = now, now_s
        return now

    def _end_last(self, now: float) -> None:
        """Record the innermost span of this place until now."""
        around = self._open.get(self._place)
        if around and now > around[-1].started_at:
            self._ended.append(_span(self._place, around[-1], now))

    def _until(self, now: float) -> list[Span]:
        """The recorded spans, and those that have not ended, until now."""
        going_on = [
            _span(place, spans[-1], now)
            for place, spans in self._open.items()
            if spans and now > spans[-1].started_at
        ]
        return [*self._ended, *going_on]


def shares(
    spans: Sequence[Span], started_at: float | None = None, finished_at: float | None = None
) -> dict[str, float]:
    """Seconds by activity between two times. They add up to the time in between.

    The defaults are the first start and the last end. Each moment counts once: as the first
    activity in `Activity` that any place has, or as idle.
    """
    started_at = min(span.started_at for span in spans) if started_at is None else started_at
    finished_at = max(span.finished_at for span in spans) if finished_at is None else finished_at
    ranks = {str(activity): rank for rank, activity in enumerate(Activity)}
    changes: list[tuple[float, int, int]] = [(finished_at, 0, 0)]
    for span in spans:
        begin, end = (min(max(at, started_at), finished_at) for at in span[2:4])
        if begin < end and span.activity in ranks:
            rank = ranks[span.activity]
            changes += [(begin, 1, rank), (end, -1, rank)]
    found = dict.fromkeys([*ranks, IDLE], 0.0)
    names, busy, before = [*found], [0] * len(ranks), started_at
    for at, change, rank in sorted(changes):
        first = next((rank for rank, count in enumerate(busy) if count), -1)
        found[names[first]] += at - before
        busy[rank] += change
        before = at
    return found


def _span(place: str, own: OpenSpan, finished_at: float) -> Span:
    return Span(place, str(own.activity), own.started_at, finished_at, own.bucket_id, own.class_id)
