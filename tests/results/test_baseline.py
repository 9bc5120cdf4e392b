"""The simple models of a study are read as they were written, and compared with its trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeper.results.baseline import (
    Baseline,
    SimpleModel,
    beaten_by_linear,
    compared,
    describe,
    read_baseline,
    write_baseline,
)
from sweeper.rundir import RunDir

CLASSES = Baseline(
    "d",
    100,
    (
        SimpleModel("majority class", False, {"val_loss": 2.3, "val_accuracy": 0.1}),
        SimpleModel("logistic regression", True, {"val_loss": None, "val_accuracy": 0.95}),
    ),
)
SKIPPED = Baseline("d", skipped="the loss is user-defined")
MINIMIZED = Baseline("d", 100, (SimpleModel("ridge", True, {"val_rmse": 3.0}),))


@pytest.mark.parametrize("baseline", [CLASSES, SKIPPED])
def test_what_was_written_is_read(baseline: Baseline, tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    assert read_baseline(run_dir) is None
    write_baseline(run_dir, baseline)
    assert read_baseline(run_dir) == baseline


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"digest": "d", "models": [3]}', '{"models": [{"scores": {"a": "b"}}]}'],
)
def test_a_damaged_file_is_not_read(text: str, tmp_path: Path) -> None:
    RunDir(tmp_path).baseline.write_text(text, encoding="utf-8")
    assert read_baseline(RunDir(tmp_path)) is None


def test_models_are_described_by_the_first_objective() -> None:
    both = "majority class 0.1, logistic regression 0.95"
    assert describe(CLASSES, "val_accuracy") == both
    assert describe(CLASSES, ["val_accuracy", "n_parameters"]) == both
    assert describe(CLASSES, "val_own") == "skipped: val_own is not measured for them"
    assert describe(SKIPPED, "val_loss") == "skipped: the loss is user-defined"
    assert describe(None, "val_loss") == ""


def test_a_table_begins_with_the_objective_and_ends_with_losses() -> None:
    trial: dict[str, Any] = {"trial_number": 3, "value": 0.5, "final_val_accuracy": 0.5}
    headings, rows = compared(CLASSES, "val_accuracy", {**trial, "final_val_loss": 0.7})
    assert headings == ["model", "val_accuracy", "val_loss"]
    assert rows == [
        ["trial 3", 0.5, 0.7],
        ["majority class", 0.1, 2.3],
        ["logistic regression", 0.95, None],
    ]


def test_metrics_of_another_epoch_than_the_value_are_left_out() -> None:
    trial = {"trial_number": 3, "value": 0.6, "final_val_accuracy": 0.5, "final_val_loss": 0.7}
    assert compared(CLASSES, "val_accuracy", trial)[1][0] == ["trial 3", 0.6, None]


@pytest.mark.parametrize(
    ("baseline", "metric", "direction", "value", "is_beaten"),
    [
        (CLASSES, "val_accuracy", "maximize", 0.94, True),
        (CLASSES, "val_accuracy", "maximize", 0.95, False),
        (CLASSES, "val_loss", "minimize", 9.0, False),  # its linear model has no loss
        (CLASSES, ["val_accuracy", "val_loss"], ["maximize", "minimize"], 0.5, False),
        (MINIMIZED, "val_rmse", "minimize", 3.1, True),
        (MINIMIZED, "val_rmse", "minimize", 2.9, False),
        (SKIPPED, "val_loss", "minimize", 9.0, False),
        (None, "val_loss", "minimize", 9.0, False),
    ],
)
def test_a_linear_model_that_is_better_is_reported(
    baseline: Baseline | None, metric: Any, direction: Any, value: float, is_beaten: bool
) -> None:
    warning = beaten_by_linear(baseline, metric, direction, {"trial_number": 7, "value": value})
    assert warning.startswith("trial 7, the best, is worse than a linear") == is_beaten
    assert bool(warning) == is_beaten
