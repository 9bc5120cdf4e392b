"""Counts the programs and trials that a study finishes, and writes its status."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace

from sweeper.results.events import (
    BucketFinished,
    BucketStarted,
    CompileFinished,
    Compiling,
    Event,
    Observer,
    RoundProgress,
)
from sweeper.results.status import Status, update_status, write_status
from sweeper.rundir import RunDir

# how often the trained trials of a round are written, and the buckets that start at a place
_PERIOD_S = 1.0


class StatusWriter:
    """Observes a study and passes its events on; writes its status, now and as programs finish."""

    def __init__(
        self,
        run_dir: RunDir,
        observer: Observer,
        is_own: Callable[[], bool] = lambda: True,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """Write the status of the study in `run_dir`, as long as that is its own."""
        self._run_dir = run_dir
        self._is_own = is_own
        self._observer = observer
        self._timer = timer
        self._lock = threading.Lock()
        self._compiling = Compiling()
        self._round = RoundProgress()
        self._written: Status | None = None
        # by the timer: the last write, and the last written start of a bucket by place
        self._written_s = 0.0
        self._started_s: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        """Count a program or trained trials, from any thread, and pass the event on."""
        now = time.time()
        with self._lock:
            self._compiling = self._compiling.after(event, now)
            self._round = self._round.after(event)
            is_due = self._is_due(event)
        self._observer(event)
        if is_due:
            self.update()

    def write(self, status: Status) -> Status:
        """Write the status with what is being compiled and where buckets train.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            self._written, self._written_s = self._with_progress(status), self._timer()
            if self._is_own():
                write_status(self._run_dir, self._written)
            return self._written

    def update(self) -> None:
        """Write the status of a running study again if its programs or buckets got further."""
        with self._lock:
            if self._written is None or not self._written.is_running:
                return
            before = self._written
            now = self._with_progress(before)
            if now == before or not self._is_own():
                return
            self._written, self._written_s = replace(now, updated_at=time.time()), self._timer()
            try:
                update_status(self._run_dir, self._written)
            except OSError as error:  # the next commit reports a full disk
                logging.getLogger("sweeper").debug("the status is not up to date: %s", error)

    def _is_due(self, event: Event) -> bool:
        """Whether the status is written after an event; those of short buckets are too many."""
        now_s = self._timer()
        match event:
            case CompileFinished():
                return True
            case BucketFinished():
                return self._written is None or now_s - self._written_s >= _PERIOD_S
            case BucketStarted(place=place):
                before_s = self._started_s.get(place)
                is_due = before_s is None or now_s - before_s >= _PERIOD_S
                if is_due:
                    self._started_s[place] = now_s
                return is_due
            case _:
                return False

    def _with_progress(self, status: Status) -> Status:
        places = self._round.places
        running = [{**bucket, "place": places.get(bucket["bucket"])} for bucket in status.running]
        return replace(
            status,
            compiling=asdict(self._compiling) if self._compiling.is_going_on else None,
            training=str(self._round) or None,
            running=running,
        )
