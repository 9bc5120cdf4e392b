"""The card of a run is drawn from its events, by one thread, and says how to resume."""

from __future__ import annotations

import errno
import io
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.notebook.card import Card, card_for
from sweeper.notebook.display import Lines
from sweeper.results.events import CompileFinished, CompilePlanned, RoundClosed, StudyOpened, Warned
from sweeper.results.status import Status
from sweeper.results.timeline import IDLE, Timeline
from tests.live_status import STATUS

OPENED = StudyOpened("digits", Path("runs/digits"), rounds_done=0, n_trials=20)
RESUME = "Run the same again to resume."
RUN_DIR = Path("runs/digits")
SO_FAR = " Results so far: sweeper.open_results('runs/digits')"


@pytest.fixture(autouse=True)
def _usual_interrupts() -> Iterator[None]:
    """Interrupts as in a terminal: a program in the background ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Screen:
    """Keeps what was shown."""

    def __init__(self) -> None:
        self.html: list[str] = []
        self.text: list[str] = []

    def show(self, html: str, text: str, *, is_last: bool) -> None:
        self.html.append(html)
        self.text.append(text)

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target)


def shown(train: Callable[[Card, threading.Event], Status], doing: str = IDLE) -> Screen:
    """What the card of a run showed."""
    screen, stop = Screen(), threading.Event()
    card = Card(screen, "digits", RUN_DIR, lambda: doing, period_s=0.01)
    card.follow(lambda: train(card, stop), stop)
    return screen


def wait_for(screen: Screen, part: str) -> None:
    deadline = time.monotonic() + 60
    while part not in screen.text[-1] and time.monotonic() < deadline:
        time.sleep(0.005)
    assert part in screen.text[-1]


def test_the_card_shows_what_goes_on_and_the_end() -> None:
    screen = Screen()
    card = Card(screen, "digits", RUN_DIR, lambda: "importing JAX", period_s=0.01)

    def train() -> Status:
        assert {*screen.text} == {"digits: importing JAX"}
        card(OPENED)
        for number in range(8):
            card(CompilePlanned(f"c{number}", "padded"))
        for number in range(3):
            card(CompileFinished(f"c{number}", "padded", "thread 0"))
        wait_for(screen, "digits: 20 trials; compiling: 3 of 8 programs done, 0:00")
        card(RoundClosed(STATUS))
        for _ in range(2):
            card(Warned("the <cache> is gone"))
        wait_for(screen, "3 of 20 trials, 30 per minute, 0:34 left; best val_accuracy 0.5")
        return replace(STATUS, state="finished", best=None)

    assert card.follow(train, threading.Event()).state == "finished"
    line, *warnings = screen.text[-1].split("\n")
    assert line == "digits: 3 of 20 trials, 30 per minute; finished"
    assert warnings == ["warning: the <cache> is gone"]
    assert "⚠ the &lt;cache&gt; is gone" in screen.html[-1]
    assert "17 unfinished, 3 complete" in screen.html[-1]


def test_an_error_is_named() -> None:
    screen = Screen()
    card = Card(screen, "digits", RUN_DIR, lambda: IDLE)

    def train() -> Status:
        card(replace(OPENED, rounds_done=3))
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        card.follow(train, threading.Event())
    end = "resuming after round 3; ended by OSError, committed rounds are kept"
    assert screen.text[-1].endswith(end)


@pytest.mark.parametrize(
    ("rounds", "when"), [(1, "after round 1, which is committed"), (0, "before the first round")]
)
def test_the_first_interrupt_stops_after_the_round(rounds: int, when: str) -> None:
    screen, stop = Screen(), threading.Event()
    card = Card(screen, "digits", RUN_DIR, lambda: IDLE, period_s=0.01)

    def train() -> Status:
        signal.raise_signal(signal.SIGINT)
        assert stop.wait(60)
        wait_for(screen, "stopping after this round; interrupt again to stop at once")
        return replace(STATUS, state="interrupted", round=rounds)

    with pytest.raises(KeyboardInterrupt):
        card.follow(train, stop)
    so_far = SO_FAR if rounds else ""
    assert screen.text[-1].endswith(f"interrupted {when}. {RESUME}{so_far}")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_interrupt_ends_the_run_at_once() -> None:
    screen = Screen()
    card = Card(screen, "digits", RUN_DIR, lambda: IDLE)

    def train() -> Status:
        card(OPENED)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("still running")

    with pytest.raises(KeyboardInterrupt):
        card.follow(train, threading.Event())
    end = f"interrupted, committed rounds are kept. {RESUME}"
    assert screen.text[-1] == f"digits: 20 trials; {end}"


def test_only_notebooks_show_a_card_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        card_for(progress, "digits", RUN_DIR, Timeline()) is None
        for progress in (None, False, True)
    ]
    assert asked == [True, True, False]
    lines = Lines()
    for text, is_last in (("a", False), ("b\nw", False), ("c\nw\nv", True), ("c\nw\nv", True)):
        lines.show("", text, is_last=is_last)
    assert capsys.readouterr().err == "a\nw\nv\nc\n"


def _closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


class _Full(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("stream", [None, _closed(), _Full()])
def test_a_standard_error_that_cannot_be_written_is_ignored(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    Lines().show("", "study: 1 of 2 trials\na warning", is_last=True)
