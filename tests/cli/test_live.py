"""Views receive events and show them; they decide nothing."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.cli.live import LineView, LiveView, view_for
from sweeper.results.events import (
    BucketFinished,
    BucketStarted,
    CompileFinished,
    CompilePlanned,
    CompileStarted,
    RoundClosed,
    RoundStarted,
    StudyOpened,
    Warned,
)
from sweeper.results.progress import Progress
from sweeper.results.timeline import IDLE
from tests.live_status import STATUS

OPENED = StudyOpened("digits", Path("runs/digits"), rounds_done=0, n_trials=20)
STARTED = BucketStarted(4, "c1", "exact", "thread 0", (7, 9), epoch_to=10)
FINISHED = BucketFinished(4, "thread 0", compile_s=1.25, cache_hit=False, train_s=0.5)


def _written() -> Console:
    return Console(file=io.StringIO(), width=120, markup=False, highlight=False, emoji=False)


def _lines(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_line_per_better_best_and_per_tenth() -> None:
    console = _written()
    later = replace(STATUS, round=2, counts={"RUNNING": 16, "COMPLETE": 3, "FAIL": 1})
    same = replace(later, round=3)
    better = replace(same, round=4, best={"trial_number": 5, "value": 0.75, "params": {"depth": 1}})
    with LineView(console) as view:
        for event in (OPENED, STARTED, FINISHED, *map(RoundClosed, (STATUS, later, same, better))):
            view(event)
    assert _lines(console) == [
        "digits: 20 trials in runs/digits",
        "best val_accuracy 0.5 (trial 2): depth=2, [red]=[/]",
        "15 %, round 1: 3 of 20 trials, 30 per minute, 0:34 left",
        "20 %, round 2: 4 of 20 trials, 30 per minute, 0:34 left",
        "best val_accuracy 0.75 (trial 5): depth=1",
    ]


def test_lines_report_the_time_without_events() -> None:
    console = _written()
    with LineView(console, period_s=0.01):
        deadline = time.monotonic() + 5
        while not _lines(console) and time.monotonic() < deadline:
            time.sleep(0.005)
    assert _lines(console)[0] == "0:00, opening the study"


def test_lines_report_the_time_only_if_nothing_else_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sweeper.cli.live._LOOK_S", 0.01)
    for news in ((), ("news",)):
        console = _written()
        view = LineView(console, period_s=30, ran_s=100)
        for one in news:
            view.say(one)
        with view:
            deadline = time.monotonic() + 0.3
            while len(_lines(console)) < 1 + len(news) and time.monotonic() < deadline:
                time.sleep(0.005)
        (line,) = _lines(console)
        assert line == "news" if news else line.startswith("1:40, ")


def test_lines_say_in_the_first_minute_when_something_else_goes_on() -> None:
    console, doing = _written(), ["importing JAX"]
    with LineView(console, doing=lambda: doing[0]) as view:
        for what in ("reading the data", "opening the study"):
            wanted = doing[0]
            deadline = time.monotonic() + 5
            while not any(wanted in line for line in _lines(console)):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            doing[0] = what
        view(RoundClosed(STATUS))
    assert [line.partition(", ")[2] for line in _lines(console)][:2] == [
        "importing JAX",
        "reading the data",
    ]


def test_a_round_that_trains_comes_before_what_the_program_does() -> None:
    view = LineView(_written(), doing=lambda: "publishing")
    assert view.what_is_done() == "publishing"
    view(RoundStarted(2, 5))
    assert view.what_is_done() == "training, 0 of 5 trials of round 2 trained"


def test_lines_say_what_is_compiled_before_the_first_round() -> None:
    view = LineView(_written(), doing=lambda: "importing")
    assert view.what_is_done() == "importing"
    for number in range(3):
        view(CompilePlanned(f"c{number}", "padded"))
    view(CompileFinished("c0", "padded", "thread 0"))
    assert view.what_is_done() == "compiling: 1 of 3 programs done, 0:00"
    for number in (1, 2):
        view(CompileFinished(f"c{number}", "padded", "thread 0"))
    view(RoundClosed(STATUS))
    assert view.what_is_done() == "round 1: 3 of 20 trials, 30 per minute, 0:34 left"
    view(CompilePlanned("c4", "padded"))
    assert view.what_is_done().endswith("left, compiling: 0 of 1 program done, 0:00")
    view(RoundStarted(2, 5))
    view(BucketFinished(1, "worker 0", 1.0, False, 0.5, (3, 4)))
    assert view.what_is_done().endswith(", 2 of 5 trials of round 2 trained")

    idle = LineView(_written(), doing=lambda: IDLE)
    idle(RoundStarted(1, 5))
    assert idle.what_is_done().startswith("training, ")
    idle(replace(STARTED, place="worker 0"))
    assert idle.what_is_done().startswith("compiling and training in workers, ")


def test_lines_count_the_remaining_time_down(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    view = LineView(_written())
    view(RoundClosed(replace(STATUS, diverged=1, counts={**STATUS.counts, "PRUNED": 1})))
    for since, left in ((0.0, ", 0:34 left"), (30.0, ", 0:04 left"), (60.0, "")):
        now[0] = 100.0 + since
        said = f"round 1: 4 of 20 trials, 30 per minute{left}, 1 diverged"
        assert view.what_is_done() == said


def test_a_program_is_not_said_to_train_once_the_rounds_are_over() -> None:
    progress = Progress().after(RoundStarted(1, 20), 0.0)
    assert progress.activity(IDLE) == "training"
    assert progress.activity("publishing") == "training"
    assert progress.activity("initializing models") == "initializing models"
    assert progress.after(RoundClosed(STATUS), 1.0).activity(IDLE) == "finishing"


def test_both_views_say_that_models_are_averaged() -> None:
    done = replace(STATUS, counts={**STATUS.counts, "COMPLETE": 20, "RUNNING": 0})
    for kind in (LineView, LiveView):
        console = _written()
        with kind(console, doing=lambda: "averaging models") as view:
            view(OPENED)
            view(RoundClosed(done))
            shown = view.what_is_done() if isinstance(view, LineView) else ""
        assert "averaging models" in (shown or console.file.getvalue())


def test_a_resumed_study_says_where_it_continues() -> None:
    console = _written()
    with LineView(console) as view:
        view(replace(OPENED, rounds_done=3))
    assert _lines(console) == ["digits: 20 trials in runs/digits, resuming after round 3"]


def test_the_live_view_shows_state_rate_time_left_best_and_places() -> None:
    console = _written()
    now = [100.0]
    view = LiveView(console, clock=lambda: now[0])
    for event in (OPENED, FINISHED, RoundClosed(STATUS), STARTED):
        view(event)
    view(replace(FINISHED, place="worker 0", cache_hit=True, compile_s=0.25))
    now[0] += 4.0
    console.print(view.picture())
    lines = [line.rstrip() for line in _lines(console)]
    lines[1] = lines[1].lstrip("━╸╺ ")
    assert lines == [
        "digits, rounds closed: 1, 0:04",
        "3 of 20 trials 30 per minute, 0:30 left",
        "17 running, 3 complete",
        "best val_accuracy 0.5 (trial 2): depth=2, [red]=[/]",
        "thread 0  0:04  exact bucket 4: trials 7, 9 to epoch 10",
        "worker 0  0:04  idle after bucket 4, loaded from the cache in 0.2 s, trained in 0.5 s",
    ]


def test_what_is_compiled_ahead_is_shown_before_the_study_is_open() -> None:
    console = _written()
    view = LiveView(console, clock=lambda: 0.0, ran_s=2.0)
    view(CompileStarted("c1", "padded", "thread 0"))
    for number in range(3):
        view(CompilePlanned(f"c{number}", "padded"))
    view(CompileFinished("c2", "exact", "thread 1"))
    console.print(view.picture())
    assert [line.rstrip() for line in _lines(console)] == [
        "opening the study, 0:02",
        "compiling: 1 of 3 programs done, 0:00",
        "thread 0  0:00  compiling the padded program c1",
        "thread 1  0:00  idle after compiling the exact program c2",
    ]


@pytest.mark.parametrize(
    ("rounds_done", "expected"),
    [
        (0, ["digits, rounds closed: 0, 0:00", "0 of 20 trials"]),
        (3, ["digits, rounds closed: 3, 0:00", "20 trials"]),
    ],
)
def test_the_bar_is_shown_before_the_first_commit(rounds_done: int, expected: list[str]) -> None:
    console = _written()
    view = LiveView(console, clock=lambda: 0.0)
    view(replace(OPENED, rounds_done=rounds_done))
    console.print(view.picture())
    assert [line.lstrip("━╸╺ ").rstrip() for line in _lines(console)] == expected


def test_a_warning_stays_above_the_live_view() -> None:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=80, markup=False, highlight=False
    )
    with view_for(console) as view:
        view(OPENED)
        view(Warned("the cache [is] gone"))
        view(Warned("a request was granted", is_news=True))
    lines = [line.strip() for line in _lines(console)]
    assert any("warning: the cache [is] gone" in line for line in lines)
    assert any(line.endswith("a request was granted") for line in lines)
    assert not any("warning: a request" in line for line in lines)


def test_the_view_depends_on_the_output() -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True)
    assert (type(view_for(terminal)), type(view_for(_written()))) == (LiveView, LineView)
