"""The metrics of a trial are read at the epoch of its value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeper.results.judged import is_of_earlier_epoch, with_metrics_of_value
from sweeper.rundir import RunDir

TRIAL = {
    "trial_number": 3,
    "value": 0.6,
    "best_value": 0.6,
    "best_epoch": 2,
    "epochs_done": 3,
    "final_val_loss": 0.9,
}
OBJECTIVE = {"metric": "val_accuracy"}
BEST, LAST = ({"study": OBJECTIVE | {"value": value}, "train": {}} for value in ("best", "last"))


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    """Curves of trials 3 and 4, with phases: the loss is 10 times the trial plus the epoch."""
    run_dir = RunDir(tmp_path)
    run_dir.metrics.mkdir()
    for epoch in (1, 2, 3):
        rows = [
            {
                "trial_number": trial,
                "epoch": epoch,
                "metric": "val_loss",
                "phase": "first" if epoch == 1 else "second",
                "value": 10.0 * trial + epoch,
            }
            for trial in (3, 4)
        ]
        table = pa.Table.from_pylist(rows)
        parquet.write_table(table, run_dir.metrics / f"part-{epoch:06d}-{epoch:06d}.parquet")
    return run_dir


def test_metrics_are_those_of_the_epoch_of_the_value(run_dir: RunDir) -> None:
    stopping = LAST | {"train": {"early_stop": {"patience": 1}}}
    for settings in (BEST, stopping):
        found = with_metrics_of_value(run_dir, TRIAL, settings)
        assert found == {**TRIAL, "final_val_loss": 32.0}


def test_a_metric_without_a_value_in_that_epoch_has_not_that_of_the_last(run_dir: RunDir) -> None:
    (part,) = run_dir.metrics.glob("part-000002-*.parquet")
    table = parquet.read_table(part)
    place = table.column_names.index("value")
    parquet.write_table(table.set_column(place, "value", pa.nulls(2, pa.float64())), part)
    assert with_metrics_of_value(run_dir, TRIAL, BEST) == {**TRIAL, "final_val_loss": None}


def test_a_trial_with_the_value_of_its_last_epoch_keeps_its_row(run_dir: RunDir) -> None:
    for change in ({"best_epoch": 3}, {"value": None, "best_value": None}):
        assert with_metrics_of_value(run_dir, TRIAL | change, BEST) == TRIAL | change


def test_the_last_epoch_may_be_as_good_as_the_best_one(run_dir: RunDir) -> None:
    assert with_metrics_of_value(run_dir, TRIAL, LAST | {"train": {}}) == TRIAL


def test_damaged_curves_leave_the_row_as_it_is(run_dir: RunDir) -> None:
    for part in run_dir.own_parts():
        part.write_bytes(b"no table")
    assert with_metrics_of_value(run_dir, TRIAL, BEST) == TRIAL


@pytest.mark.parametrize(
    "settings",
    [
        {"study": OBJECTIVE | {"value": "best", "folds": 5}},
        {"study": OBJECTIVE | {"value": "best", "replicates": 2}},
        {"study": {"metric": ["n_parameters", "val_accuracy"], "value": "best"}},
        {"study": {"metric": "n_parameters", "value": "best"}},
        {"study": OBJECTIVE, "train": {"early_stop": {"metric": "val_loss", "patience": 1}}},
    ],
)
def test_metrics_are_left_out_if_the_epoch_of_the_value_is_not_recorded(
    run_dir: RunDir, settings: Mapping[str, Any]
) -> None:
    assert with_metrics_of_value(run_dir, TRIAL, settings) == {**TRIAL, "final_val_loss": None}
    assert not is_of_earlier_epoch(TRIAL, settings)
