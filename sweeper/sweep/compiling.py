"""Counts the programs that a study compiles, and keeps its status up to date meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sweeper.results.events import CompileFinished, Compiling, Event, Observer
from sweeper.results.status import Status, update_status, write_status
from sweeper.rundir import RunDir


class CompileWatch:
    """Observes a study and passes its events on; writes its status, now and as programs finish."""

    def __init__(self, run_dir: RunDir, observer: Observer) -> None:
        self._run_dir = run_dir
        self._observer = observer
        self._lock = threading.Lock()
        self._compiling = Compiling()
        self._written: Status | None = None

    def __call__(self, event: Event) -> None:
        """Count a program, from any thread, and pass the event on."""
        with self._lock:
            self._compiling = self._compiling.after(event, time.time())
        self._observer(event)
        if isinstance(event, CompileFinished):
            self.update()

    def write(self, status: Status) -> Status:
        """Write the status with what is being compiled.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            self._written = replace(status, compiling=self._record())
            write_status(self._run_dir, self._written)
            return self._written

    def update(self) -> None:
        """Write the status of a running study again if other programs are compiled now."""
        with self._lock:
            before, compiling = self._written, self._record()
            if before is None or before.state != "running" or before.compiling == compiling:
                return
            self._written = replace(before, updated_at=time.time(), compiling=compiling)
            try:
                update_status(self._run_dir, self._written)
            except OSError as error:  # the next commit reports a full disk
                logging.getLogger("sweeper").debug("the status is not up to date: %s", error)

    def _record(self) -> Mapping[str, Any] | None:
        return asdict(self._compiling) if self._compiling.is_going_on else None
