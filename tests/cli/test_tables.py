"""Answers for people contain the facts that they are made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from sweeper.cli import tables, trial_tables
from sweeper.results import formatting
from sweeper.results.listing import TrialRows
from sweeper.rundir import RunDir
from tests.dashboard.small_tables import trials_of
from tests.live_status import STATUS


def shown(renderable: object) -> list[list[str]]:
    console = Console(width=200, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(renderable)
    return [line.split() for line in captured.get().splitlines()]


def test_parameters_have_the_names_of_the_study() -> None:
    trials = [
        {
            "trial_number": 7,
            "state": "COMPLETE",
            "value": 0.98765,
            "params_model_depth": 3,
            "params_[bold]": None,
            "params_json": "{}",
        }
    ]
    assert shown(tables.best_trials("val_accuracy", trials)) == [
        ["best", "trials"],
        ["trial", "val_accuracy", "model_depth", "[bold]"],
        ["7", "0.9877", "3", "-"],
    ]


@pytest.mark.parametrize(
    ("front", "title", "last"),
    [
        ([0, 1], ["Pareto", "front"], []),
        ([0, 1, 2], ["Pareto", "front,", "2", "of", "3", "trials"], []),
        ([0], ["best", "trials,", "the", "Pareto", "front", "first"], ["True", "False"]),
    ],
)
def test_best_trials_say_which_are_on_the_pareto_front(
    front: list[int], title: list[str], last: list[str]
) -> None:
    trials = [
        {"trial_number": number, "value": 0.5 + number, "value_1": 2.5 - number, "params_json": ""}
        for number in range(2)
    ]
    found = shown(tables.best_trials(("val_mse", "n_parameters"), trials, front))
    assert found[0] == title
    assert [line[3:] for line in found[2:]] == ([[word] for word in last] if last else [[], []])


@pytest.mark.parametrize("predicted_s", [0.0, 2.5])
def test_a_prediction_is_shown_if_there_is_one(predicted_s: float, tmp_path: Path) -> None:
    status = replace(STATUS, predicted_compile_s=predicted_s, predicted_train_s=predicted_s)
    told = {line[0]: line for line in shown(tables.status_table(RunDir(tmp_path), status)) if line}

    for name in ("compiled", "trained"):
        assert (told[name][-3:] == ["predicted", "2.5", "s"]) is (predicted_s > 0)
        assert ("predicted" in told[name]) is (predicted_s > 0)


HEADINGS = ("trial", "state", "value", "train s", "why", *(f"params_{at}" for at in range(6)))
LINES = [
    (number, "COMPLETE", 0.1 + number, 3.5, f"{number} of the words that explain it", *6 * (1e-5,))
    for number in range(3)
]


def drawn(renderable: object, width: int) -> list[str]:
    console = Console(width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(renderable)
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_table_that_is_too_wide_goes_on_below(width: int) -> None:
    lines = drawn(tables.rows("of it", HEADINGS, LINES), width)
    whole = " ".join(" ".join(lines).split())

    assert max(map(len, lines)) <= width
    assert "…" not in whole
    for heading in ("trial", "state", "value", *HEADINGS[5:]):
        assert heading in whole.split()
    assert whole.count(formatting.number(1e-5)) == 18
    assert sum(line.startswith("trial") for line in lines) == lines.count("") + 1


def test_columns_without_room_are_named() -> None:
    lines = drawn(tables.rows("", HEADINGS[:7], [line[:7] for line in LINES], "ask"), 50)
    assert lines[0].split() == ["trial", "state", "value", "train", "s"]
    assert lines[4:] == ["3 more columns: why, params_0, params_1; ask"]


def test_a_table_with_room_is_not_wrapped() -> None:
    assert len(drawn(tables.rows("", HEADINGS, LINES, "ask"), 200)) == 1 + len(LINES)


def test_the_end_of_a_failed_trial_begins_with_the_lines_of_user_code() -> None:
    own = '  File "own.py", line 2, in f\n    int("x")'
    trace = "Traceback (most recent call last):\n" + "  at\n" * 50 + "ValueError: x"
    end = "\n".join([*12 * ["  at"], "ValueError: x"][1:])
    for message, blocks in (
        (f"why (own.py, line 2)\n\n{own}\n\n{trace}\n", ["why (own.py, line 2)", own, end]),
        (f"why\n\n{trace}\n", ["why", end]),
        (trace, ["ValueError: x", end]),  # of an older version
        ("worker 0 was killed", ["worker 0 was killed"]),
    ):
        assert "\n".join(map(str, trial_tables.explain_failure(message))).split("\n\n") == blocks


def test_parameters_whose_best_trials_are_at_an_end_of_the_range_are_named() -> None:
    rates = [1e-3] * 20 + [9.9e-3] * 5
    found = trials_of([{"value": 99.0 - n, "params_lr": lr} for n, lr in enumerate(rates)])
    listed = TrialRows(found.table, found.said, np.arange(len(found)))
    assert tables.range_ends(listed).startswith("lr: 5 of the 5 best trials are at the upper end")
    assert tables.range_ends(replace(listed, table=found.table.slice(0, 20))) == ""


def test_curves_without_values_have_no_heading() -> None:
    for values, is_shown in (([None, None], False), ([None, 0.5], True)):
        shown = list(trial_tables.unfinished_trial(3, {}, {"val_loss": values}, []))
        assert ("curves by epoch" in shown) is is_shown
