"""Counts the programs and trials that a study finishes, and keeps its status up to date."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sweeper.results.events import (
    BucketFinished,
    CompileFinished,
    Compiling,
    Event,
    Observer,
    RoundProgress,
)
from sweeper.results.status import Status, update_status, write_status
from sweeper.rundir import RunDir

# how often the trained trials of a round are written
_PERIOD_S = 1.0


class CompileWatch:
    """Observes a study and passes its events on; writes its status, now and as programs finish."""

    def __init__(self, run_dir: RunDir, observer: Observer) -> None:
        self._run_dir = run_dir
        self._observer = observer
        self._lock = threading.Lock()
        self._compiling = Compiling()
        self._round = RoundProgress()
        self._written: Status | None = None

    def __call__(self, event: Event) -> None:
        """Count a program or trained trials, from any thread, and pass the event on."""
        with self._lock:
            self._compiling = self._compiling.after(event, time.time())
            self._round = self._round.after(event)
            written_at = 0.0 if self._written is None else self._written.updated_at
        self._observer(event)
        is_due = isinstance(event, BucketFinished) and time.time() - written_at >= _PERIOD_S
        if is_due or isinstance(event, CompileFinished):
            self.update()

    def write(self, status: Status) -> Status:
        """Write the status with what is being compiled.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            self._written = replace(status, compiling=self._record(), training=self._trained())
            write_status(self._run_dir, self._written)
            return self._written

    def update(self) -> None:
        """Write the status of a running study again if other programs are compiled now."""
        with self._lock:
            if self._written is None or self._written.state != "running":
                return
            before = self._written
            now = replace(before, compiling=self._record(), training=self._trained())
            if now == before:
                return
            self._written = replace(now, updated_at=time.time())
            try:
                update_status(self._run_dir, self._written)
            except OSError as error:  # the next commit reports a full disk
                logging.getLogger("sweeper").debug("the status is not up to date: %s", error)

    def _record(self) -> Mapping[str, Any] | None:
        return asdict(self._compiling) if self._compiling.is_going_on else None

    def _trained(self) -> str | None:
        return str(self._round) or None
