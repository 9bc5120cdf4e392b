"""Answers for people hold the facts that they are made from."""

from __future__ import annotations

from rich.console import Console

from sweeper import answers


def shown(renderable: object) -> list[list[str]]:
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
    assert shown(answers.best_trials("val_accuracy", trials)) == [
        ["best", "trials"],
        ["trial", "val_accuracy", "model_depth", "[bold]"],
        ["7", "0.9877", "3", "-"],
    ]
