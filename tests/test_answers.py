"""Answers for people hold the facts that they are made from."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from sweeper import answers


def _shown(renderable: object) -> list[list[str]]:
    console = Console(width=200, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(renderable)
    return [line.split() for line in captured.get().splitlines()]


def test_parameters_stand_under_the_names_of_the_study() -> None:
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
    assert _shown(answers.best_trials("val_accuracy", trials)) == [
        ["best", "trials"],
        ["trial", "val_accuracy", "model_depth", "[bold]"],
        ["7", "0.9877", "3", "-"],
    ]


def _preview(sharing: list[int], splitting: list[str]) -> dict[str, Any]:
    return {
        "space": [{"setting": key, "column": key, "splits_buckets": True} for key in splitting]
        + [{"setting": "optimizer.lr", "column": "lr", "splits_buckets": False}],
        "classes_of_first_round": [{"trials": count} for count in sharing],
    }


@pytest.mark.parametrize(
    ("sharing", "splitting", "expected"),
    [
        (
            [3, 1],
            ["model.width"],
            "3 of 4 trials of the first round share their program with another",
        ),
        ([1], [], "0 of 1 trials of the first round share their program with another"),
        (
            [1, 1, 1],
            ["model.width"],
            "0 of 3 trials of the first round share their program with another; fewer values of "
            "model.width (base = 2, or a step) would let more share",
        ),
    ],
)
def test_few_partners_are_shown_with_their_mend(
    sharing: list[int], splitting: list[str], expected: str
) -> None:
    assert answers.partners(_preview(sharing, splitting)) == expected
