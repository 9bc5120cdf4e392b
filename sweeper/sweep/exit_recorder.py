"""What a program records and reports if a signal ends it before its round has ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from sweeper.config import StudyConfig
from sweeper.executors.signals import TERMINATING, Stopping, signals_without_handler, stopping_on
from sweeper.results.events import BucketStarted, Event, Observer, RoundClosed, StudyOpened, Warned
from sweeper.results.status import Status, find_status, update_status
from sweeper.rundir import RunDir
from sweeper.sweep.session.crashes import has_recorded_session, write_normal_end


@dataclass(slots=True)
class ExitRecorder:
    """Observes a study and passes its events on, to know which rounds are committed."""

    run_dir: RunDir
    observer: Observer
    _rounds: int | None = None
    _status: Status | None = None
    _is_training: bool = False

    def __call__(self, event: Event) -> None:
        """Note an event, from any thread, and pass it on."""
        match event:
            case StudyOpened(rounds_done=rounds):
                self._rounds = rounds
            case RoundClosed(status=status):
                self._rounds, self._is_training, self._status = status.round, False, status
            case BucketStarted():
                self._is_training = True
            case _:
                pass
        self.observer(event)

    def record_exit(self, reason: str) -> str:
        """Record that the program ends normally now; returns what that costs the study."""
        if self._is_own():
            if has_recorded_session(self.run_dir):
                write_normal_end(self.run_dir)
            self._write_status()
        if self._rounds is None:
            return f"{reason}: ended before the study was open; nothing is lost"
        lost = ""
        if self._is_training:
            lost = (
                f"round {self._rounds + 1} has not ended, and its training is lost (with a smaller "
                "schedule.parallel, rounds are shorter); "
            )
        then = f"resume after round {self._rounds}" if self._rounds else "start again"
        return f"{reason}: {lost}run the same command to {then}"

    def _is_own(self) -> bool:
        """Whether the run directory is still the same as at the last round, as far as is known."""
        if self._status is None or (written := find_status(self.run_dir)) is None:
            return True
        return written.run_id == self._status.run_id

    def _write_status(self) -> None:
        """Write the status after the last round, if that was not done yet."""
        if self._status is None:
            return
        with suppress(OSError):  # it is a view of the ledger, and the program ends now
            written = find_status(self.run_dir)
            if written is not None and written.round < self._status.round:
                ended = replace(self._status, state="interrupted", updated_at=time.time())
                update_status(self.run_dir, ended)

    @contextmanager
    def stopping(
        self, config: StudyConfig, stop: threading.Event | None = None
    ) -> Iterator[Stopping]:
        """Let SIGTERM and SIGHUP stop the study in a program without its own handlers."""
        numbers = signals_without_handler(TERMINATING)
        if not numbers:
            yield Stopping(stop or threading.Event())
            return

        def say(message: str) -> None:
            self.observer(Warned(message))

        with stopping_on(
            numbers, say, self.record_exit, config.execution.grace_s, stop
        ) as stopping:
            yield stopping
