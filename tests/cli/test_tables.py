"""Answers for people contain the facts that they are made from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.cli import tables
from sweeper.rundir import RunDir
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


@pytest.mark.parametrize("predicted_s", [0.0, 2.5])
def test_a_prediction_is_shown_if_there_is_one(predicted_s: float, tmp_path: Path) -> None:
    status = replace(STATUS, predicted_compile_s=predicted_s, predicted_train_s=predicted_s)
    told = {line[0]: line for line in shown(tables.standing(RunDir(tmp_path), status)) if line}

    for name in ("compiled", "trained"):
        assert (told[name][-3:] == ["predicted", "2.5", "s"]) is (predicted_s > 0)
        assert ("predicted" in told[name]) is (predicted_s > 0)
