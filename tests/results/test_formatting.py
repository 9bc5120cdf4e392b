"""Numbers and times are written the same way everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from sweeper.results import formatting
from tests.cli.test_live import STATUS


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (750.0, "12:30"), (11_100.0, "3:05:00")],
)
def test_durations_are_written_as_a_clock_shows_them(seconds: float, expected: str) -> None:
    assert formatting.duration(seconds) == expected


def test_floats_have_four_digits_and_nothing_else_is_touched() -> None:
    params = {"depth": 3, "lr": 0.001234567, "activation": "relu", "norm": True, "absent": None}
    assert (
        formatting.settings(params) == "depth=3, lr=0.001235, activation=relu, norm=True, absent=-"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3875690000000000, "3.88e15"),
        (3.87569e15, "3.88e15"),
        (-1234567.5, "-1.23e6"),
        (25557032, "25557032"),
        (48123.4, "48123"),
        (9999.96, "10000"),
        (0.15625, "0.1563"),  # the page rounds halves up, too
        (5.8449e-05, "5.845e-5"),
        (1e-05, "1e-5"),
        (0.999967, "0.99997"),
        (-0.999996, "-0.999996"),
        (0.9999999, "1"),
        (1.000001, "1"),
        (0.0, "0"),
        (float("nan"), "nan"),
    ],
)
def test_huge_and_small_numbers_are_short(value: float, expected: str) -> None:
    assert formatting.number(value) == expected


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([3], "trial 3"), ([3, 5], "trials 3, 5"), (list(range(9)), "9 trials")],
)
def test_few_trials_are_named_and_many_counted(numbers: list[int], expected: str) -> None:
    assert formatting.trial_numbers(numbers) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "KeyError: 3 (own.py, line 2)\n\nTraceback (most recent call last):\nValueError: 4",
            "KeyError: 3 (own.py, line 2)",
        ),
        ("worker 0 was killed\n\n", "worker 0 was killed"),
        ("", ""),
    ],
)
def test_the_reason_of_a_failure_is_its_first_line(message: str, expected: str) -> None:
    assert formatting.reason_line(message) == expected


def test_the_reason_in_an_older_version_is_the_line_with_the_error() -> None:
    bare = "Traceback (most recent call last):\n  at x\n"
    advised = "ValueError: too\u2028wide\n-----\nFor simplicity, JAX has removed."
    assert formatting.reason_line(bare + advised) == "ValueError: too\u2028wide"
    assert formatting.reason_line(f"{bare}KeyError\n") == "KeyError"


def test_tied_trials_are_named() -> None:
    assert formatting.tie("val_loss", []) == ""
    assert formatting.tie("val_loss", [2, 5]).startswith(
        "trials 2, 5 are tied at the best val_loss"
    )
    assert "2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more" in formatting.tie("x", range(2, 15))


def test_every_way_to_end_is_counted() -> None:
    counts = {"RUNNING": 2, "COMPLETE": 3, "PRUNED": 13}
    ended = replace(STATUS, counts=counts)
    assert formatting.ended(ended) == "3 complete, 13 pruned, 0 failed, 2 unfinished"
    assert formatting.states(ended) == "2 running, 3 complete, 13 pruned"


def test_diverged_trials_are_counted_apart_from_pruned_ones() -> None:
    some = replace(STATUS, counts={"COMPLETE": 3, "PRUNED": 13, "RUNNING": 2}, diverged=9)
    assert formatting.ended(some) == "3 complete, 4 pruned, 9 diverged, 0 failed, 2 unfinished"
    assert formatting.states(some) == "3 complete, 4 pruned, 9 diverged, 2 running"
    every = replace(some, diverged=13)
    assert formatting.states(every) == "3 complete, 13 diverged, 2 running"
    assert formatting.outcome({"state": "PRUNED", "reason": "diverged"}) == "diverged"
    assert formatting.outcome({"state": "PRUNED", "reason": "timeout"}) == "pruned"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("running", "2 running, 1 waiting, 3 complete"),
        ("interrupted", "2 unfinished, 1 not started, 3 complete"),
    ],
)
def test_no_trial_is_running_after_the_study(state: str, expected: str) -> None:
    counts = {"RUNNING": 2, "WAITING": 1, "COMPLETE": 3, "FAIL": 0}
    assert formatting.states(replace(STATUS, state=state, counts=counts)) == expected


@pytest.mark.parametrize(
    ("rate", "left", "expected"),
    [
        (None, None, ""),
        (12.34, None, "12.3 per minute"),
        (None, 5.0, "0:05 left"),
        (1234.5, 61.0, "1234 per minute, 1:01 left"),
    ],
)
def test_pace_says_what_is_known(rate: float | None, left: float | None, expected: str) -> None:
    status = replace(STATUS, trials_per_minute=rate, eta_s=left)
    assert formatting.pace(status) == expected


@pytest.mark.parametrize("state", ["finished", "interrupted", "failed"])
def test_only_a_running_study_has_time_left(state: Literal["finished", "failed"]) -> None:
    assert formatting.progress(STATUS) == "3 of 20 trials, 30 per minute, 0:34 left"
    assert formatting.progress(replace(STATUS, state=state)) == "3 of 20 trials, 30 per minute"
    at_end = replace(STATUS, counts={"COMPLETE": 20}, eta_s=0.0)
    assert formatting.progress(at_end) == "20 of 20 trials, 30 per minute"
    assert formatting.pace(STATUS, since_s=40.0) == "30 per minute"


def test_the_remaining_time_counts_down_between_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    ago = {3.0: "0:31 left", 34.0: "", 1e9: "", -3600.0: "0:34 left"}  # also if a clock is wrong
    for seconds, left in ago.items():
        status = replace(STATUS, trials_per_minute=None, committed_at=1000.0 - seconds)
        assert formatting.progress(status) == ", ".join(filter(None, ("3 of 20 trials", left)))
        assert formatting.progress(status, 10.0) == "3 of 20 trials, 0:24 left"


@pytest.mark.parametrize(
    ("epoch", "why"),
    [(None, "learning rate"), (1, "from epoch 1; check the loss"), (3, "after some")],
)
def test_a_loss_that_was_never_finite_is_not_blamed_on_the_learning_rate(
    epoch: int | None, why: str
) -> None:
    assert why in formatting.why_diverged(epoch)
