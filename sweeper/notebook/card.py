"""A card that shows how far a study is, updated in place in a notebook."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from sweeper.dashboard.files import tones
from sweeper.errors import counted, printable
from sweeper.notebook.display import Display, Lines, notebook
from sweeper.results import formatting
from sweeper.results.events import Event, Warned
from sweeper.results.progress import Progress
from sweeper.results.status import Status
from sweeper.results.timeline import Timeline

_PERIOD_S = 0.5
_BAR = (*formatting.ENDINGS, "running")  # parts of the bar, in the colours of the page
_KEPT = "committed rounds are kept"
_STOPPING = "stopping after this round; interrupt again to stop at once"
_RESUME = "Run the same again to resume."


@dataclass(frozen=True, slots=True)
class CardContent:
    """What a card shows of the study `name`; `warnings` has the first one first."""

    name: str
    progress: Progress
    activity: str
    ran_s: float
    pace: str
    warnings: Sequence[Warned] = ()

    @property
    def head(self) -> str:
        """How many trials have ended: `12 of 64 trials, 30 per minute, 0:16 left`."""
        status, opened = self.progress.status, self.progress.opened
        if opened is None:
            return ""
        if status is None:
            resuming = f", resuming after round {done}" if (done := opened.rounds_done) else ""
            return f"{counted(opened.n_trials, 'trial')}{resuming}"
        ended = formatting.finished_trials(status.counts)
        return ", ".join(
            filter(None, (f"{ended} of {counted(status.n_trials, 'trial')}", self.pace))
        )

    @property
    def best(self) -> str:
        """The best trial so far with its parameters; empty if there is none."""
        status = self.progress.status
        if status is None or status.best is None:
            return ""
        return formatting.best_trial(status.metric, status.best)

    def text(self) -> str:
        """The content on one line, followed by a line for each warning."""
        said = printable("; ".join(filter(None, (self.head, self.best, self.activity))))
        return "\n".join([f"{self.name}: {said}", *(printable(it.text) for it in self.warnings)])

    def html(self) -> str:
        """The content as HTML in which all text is escaped."""
        faint, status = tones()["faint"], self.progress.status
        ran = formatting.duration(self.ran_s)
        head = f"<b>{escape(self.name)}</b> {escape(self.head)}"
        parts = [
            f'<div style="display: flex; gap: 12px"><span style="flex: 1">{head}</span>{ran}</div>'
        ]
        if status is not None:
            parts += [_bar(status), f"<div>{escape(formatting.states(status))}</div>"]
        if self.best:
            parts.append(f"<div><b>{escape(printable(self.best))}</b></div>")
        parts.append(f"<div>{escape(printable(self.activity))}</div>")
        if self.warnings:
            lines = "".join(
                f"<div>{'' if it.is_news else '⚠ '}{escape(printable(it.message))}</div>"
                for it in self.warnings
            )
            parts.append(f'<div style="max-height: 240px; overflow-y: auto">{lines}</div>')
        style = (
            "font: 13px/1.5 system-ui, sans-serif; max-width: 760px; padding: 8px 12px; "
            f"border: 1px solid {faint}; border-radius: 6px; overflow-wrap: anywhere"
        )
        return f'<div style="{style}">{"".join(parts)}</div>'


def _bar(status: Status) -> str:
    """The trials by how they ended, as parts of a bar."""
    found, colours = formatting.outcomes(status), tones()
    parts = "".join(
        f'<div style="width: {100 * found[word] / status.n_trials:.2f}%; '
        f'background: {colours[word]}"></div>'
        for word in _BAR
        if found.get(word)
    )
    style = "display: flex; height: 8px; border-radius: 4px; overflow: hidden; margin: 4px 0"
    return f'<div style="{style}; background: {colours["line"]}">{parts}</div>'


class Card:
    """An observer that shows the progress of a study named `name`, whose results are in `run_dir`.

    Events come from any thread; one thread draws the card, at most twice a second. `doing` says
    what the program does.
    """

    def __init__(
        self,
        display: Display,
        name: str,
        run_dir: Path,
        doing: Callable[[], str],
        period_s: float = _PERIOD_S,
    ) -> None:
        self._display = display
        self._name = name
        self._run_dir = run_dir
        self._doing = doing
        self._period_s = period_s
        self._began_at = time.monotonic()
        self._lock = threading.Lock()
        self._progress = Progress()
        self._warnings: dict[Warned, None] = {}  # each once, in order
        self._ended = threading.Event()
        self._is_stopping = False

    def __call__(self, event: Event) -> None:
        """Note an event, from any thread."""
        with self._lock:
            self._progress = self._progress.after(event, time.monotonic())
            if isinstance(event, Warned):
                self._warnings[event] = None

    def follow(self, train: Callable[[], Status], stop: threading.Event) -> Status:
        """Show the card while `train` runs, which ends after the current round if `stop` is set.

        The first interrupt of a cell sets `stop`, a second one interrupts `train`.

        Raises:
            KeyboardInterrupt: after an interrupt, unless the study was about to end.
        """
        self._draw(self._current())
        drawing = self._display.thread(self._redraw)
        drawing.start()
        end = ""
        try:
            with self._interruptible(stop):
                status = train()
            with self._lock:
                now = time.monotonic()
                self._progress = Progress(self._progress.opened, status, now)
            end = status.state
            if status.state == "interrupted":
                end = f"interrupted {_after(status.round)}. {self._next()}"
                if self._is_stopping:
                    raise KeyboardInterrupt
            return status
        except BaseException as error:
            end = end or self._why(error)
            raise
        finally:
            self._ended.set()
            drawing.join()
            self._draw(end, is_last=True)

    def _why(self, error: BaseException) -> str:
        """Why the study has ended at once; the last round may be committed without an event."""
        if isinstance(error, KeyboardInterrupt):
            return f"interrupted, {_KEPT}. {self._next()}"
        return f"ended by {type(error).__name__}, {_KEPT}"

    def _next(self) -> str:
        """What to run after an interrupt: `run` has returned no results."""
        if not self._progress.rounds:
            return _RESUME
        return f"{_RESUME} Results so far: sweeper.open_results({str(self._run_dir)!r})"

    @contextmanager
    def _interruptible(self, stop: threading.Event) -> Iterator[None]:
        """Handle interrupts, unless something else does, such as marimo, which ends the cell."""
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGINT)
        if not is_main or before is not signal.default_int_handler:
            yield
            return

        def interrupt(number: int, frame: Any) -> None:
            if self._is_stopping:
                signal.default_int_handler(number, frame)
            self._is_stopping = True
            # not here, since the interrupted code may hold the lock of the event
            threading.Thread(target=stop.set, daemon=True).start()

        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _redraw(self) -> None:
        while not self._ended.wait(self._period_s):
            self._draw(self._current())

    def _current(self) -> str:
        with self._lock:
            progress = self._progress
        said = progress.current(self._doing(), time.monotonic())
        return f"{_STOPPING}; {said}" if self._is_stopping else said

    def _draw(self, activity: str, *, is_last: bool = False) -> None:
        now = time.monotonic()
        with self._lock:
            progress, warnings = self._progress, tuple(self._warnings)
        status = progress.status
        pace = "" if status is None else formatting.pace(status, now - progress.status_at)
        content = CardContent(self._name, progress, activity, now - self._began_at, pace, warnings)
        self._display.show(content.html(), content.text(), is_last=is_last)


def _after(rounds: int) -> str:
    return f"after round {rounds}, which is committed" if rounds else "before the first round"


def card_for(progress: bool | None, name: str, run_dir: Path, timeline: Timeline) -> Card | None:
    """The card of a run: in a notebook by default, also elsewhere, as lines, if asked for."""
    if progress is False:
        return None
    display = notebook() or (Lines() if progress else None)
    return None if display is None else Card(display, name, run_dir, lambda: timeline.doing)
