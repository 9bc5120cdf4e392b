"""The simple models of a study are read as they were written, and compared with its trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeper.results.baseline import (
    Baseline,
    SimpleModel,
    comparison_table,
    describe,
    describe_doubt,
    describe_leak,
    describe_test,
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
TESTED = Baseline(
    "d",
    100,
    (
        SimpleModel("mean", False, {"val_r2": 0.0, "test_r2": -0.01}, {"test_r2": 0.0}),
        SimpleModel("ridge", True, {"val_r2": 0.2, "test_r2": 0.3}, {"test_r2": 0.05}),
    ),
)
MINIMIZED = Baseline("d", 100, (SimpleModel("ridge", True, {"val_rmse": 3.0}),))


@pytest.mark.parametrize("baseline", [CLASSES, SKIPPED, TESTED])
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
    assert describe(CLASSES, "val_own") == "no simple model: val_own is not measured for them"
    assert describe(SKIPPED, "val_loss") == "no simple model: the loss is user-defined"
    assert describe(None, "val_loss") == ""


def test_a_table_begins_with_the_objective_and_ends_with_losses() -> None:
    trial: dict[str, Any] = {"trial_number": 3, "value": 0.5, "final_val_accuracy": 0.5}
    headings, rows = comparison_table(CLASSES, "val_accuracy", {**trial, "final_val_loss": 0.7})
    assert headings == ["model", "val_accuracy", "val_loss"]
    assert rows == [
        ["trial 3", 0.5, 0.7],
        ["majority class", 0.1, 2.3],
        ["logistic regression", 0.95, None],
    ]


def test_a_table_shows_the_objective_on_the_test_rows_before_other_metrics() -> None:
    scores = {
        f"{part}_{name}": 0.5 for name in ("accuracy", "f1", "loss") for part in ("val", "test")
    }
    baseline = Baseline("", 1, (SimpleModel("majority class", False, scores),))
    shown = {metric: comparison_table(baseline, metric)[0] for metric in ("val_f1", "val_loss")}
    assert shown["val_f1"][:3] == ["model", "val_f1", "test_f1"]
    assert shown["val_loss"][:3] == ["model", "val_loss", "test_loss"]


def test_a_tested_trial_is_compared_on_the_test_rows() -> None:
    trial = {"trial_number": 3, "value": 0.5, "test_r2": 0.31}
    assert describe_test(TESTED, "val_r2", trial) == (
        "on the test rows: test_r2 0.31 (trial 3); mean -0.01, ridge 0.3"
    )
    assert describe_test(TESTED, "val_r2", {"trial_number": 3, "value": 0.5}) == ""
    assert describe_test(CLASSES, "val_accuracy", {**trial, "test_accuracy": 0.5}) == ""


@pytest.mark.parametrize(
    ("baseline", "metric", "direction", "value", "is_beaten"),
    [
        (CLASSES, "val_accuracy", "maximize", 0.95, True),
        (CLASSES, "val_accuracy", "maximize", 0.951, False),
        (CLASSES, "val_loss", "minimize", 2.4, True),  # its linear model has no loss
        (CLASSES, "val_loss", "minimize", 2.2, False),
        (CLASSES, "val_own", "minimize", 9.0, False),
        (CLASSES, ["val_accuracy", "val_loss"], ["maximize", "minimize"], 0.5, False),
        (MINIMIZED, "val_rmse", "minimize", 3.1, True),
        (MINIMIZED, "val_rmse", "minimize", 2.9, False),
        (SKIPPED, "val_loss", "minimize", 9.0, False),
        (None, "val_loss", "minimize", 9.0, False),
    ],
)
def test_a_simple_model_that_is_as_good_is_reported(
    baseline: Baseline | None, metric: Any, direction: Any, value: float, is_beaten: bool
) -> None:
    warning = describe_doubt(baseline, metric, direction, {"trial_number": 7, "value": value})
    assert warning.startswith("trial 7, the best, is not better than") == is_beaten
    assert bool(warning) == is_beaten


@pytest.mark.parametrize(
    ("tested", "expected"),
    [
        (0.4, ""),
        (0.25, "not better than ridge on the test rows: test_r2 0.25, ridge 0.3; try other"),
        (
            0.33,
            "hardly better than ridge on the test rows: test_r2 0.33, ridge 0.3, with a standard "
            "error of 0.05, so it may be chance; try other learning rates",
        ),
    ],
)
def test_a_lead_within_the_standard_error_of_the_test_part_is_reported(
    tested: float, expected: str
) -> None:
    trial = {"trial_number": 7, "value": 0.9, "test_r2": tested}
    warning = describe_doubt(TESTED, "val_r2", "maximize", trial)
    assert (f"trial 7, the best, is {expected}" in warning) if expected else not warning


def test_a_trial_that_hardly_beats_the_constant_is_reported_as_such() -> None:
    mean = SimpleModel("mean", False, {"val_r2": -1e-6}, {"val_r2": 0.0})
    ridge = SimpleModel("ridge", True, {"val_r2": -0.02}, {"val_r2": 0.03})
    trial = {"trial_number": 7, "value": 0.019}
    assert describe_doubt(Baseline("d", 9, (mean, ridge)), "val_r2", "maximize", trial) == (
        "trial 7, the best, is hardly better than predicting the mean on the validation rows: "
        "val_r2 0.019, mean -1e-6, with a standard error of 0.03, so it may be chance; the columns "
        "may say little about the target"
    )


@pytest.mark.parametrize(("accuracy", "is_reported"), [(0.96, True), (0.97, False)])
def test_the_standard_error_is_that_of_the_model_compared_with(
    accuracy: float, is_reported: bool
) -> None:
    """A majority class of half of the rows has a larger one than a good model."""
    models = (
        SimpleModel("majority class", False, {"val_accuracy": 0.5}, {"val_accuracy": 0.028}),
        SimpleModel("logistic regression", True, {"val_accuracy": 0.95}, {"val_accuracy": 0.0117}),
    )
    trial = {"trial_number": 7, "value": accuracy}
    warning = describe_doubt(Baseline("d", 100, models), "val_accuracy", "maximize", trial)
    assert ("with a standard error of 0.012" in warning) is is_reported
    assert bool(warning) is is_reported


@pytest.mark.parametrize(
    ("metric", "constant", "linear", "rows", "is_reported"),
    [
        ("val_r2", -0.01, 0.99998, 300, True),
        ("val_r2", -0.01, 0.998, 300, False),
        ("val_r2", -0.01, 1.0, 120, False),
        ("val_accuracy", 0.6, 1.0, 300, True),
        ("val_accuracy", 0.998, 0.9995, 300, False),
        ("val_rmse", 20.0, 3.0, 300, False),
    ],
)
def test_an_almost_exact_linear_model_is_reported(
    metric: str, constant: float, linear: float, rows: int, is_reported: bool
) -> None:
    simple = (
        SimpleModel("mean", False, {metric: constant}),
        SimpleModel("ridge", True, {metric: linear}),
    )
    baseline = Baseline("d", rows, simple)
    hint = describe_leak(baseline)
    assert hint.startswith(f"ridge is almost exact: {metric} {linear:g}; ") == is_reported
    assert bool(hint) == is_reported
    if is_reported:  # in place of the advice to train otherwise
        trial = {"trial_number": 7, "value": 0.99}
        assert describe_doubt(baseline, metric, "maximize", trial) == hint


def test_a_skipped_baseline_reveals_nothing() -> None:
    assert describe_leak(None) == describe_leak(SKIPPED) == ""
