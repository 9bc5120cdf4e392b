"""The metrics of a trial are read at the epoch of its value."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeper.results.judged import with_metrics_of_value
from sweeper.rundir import RunDir

TRIAL = {
    "trial_number": 3,
    "value": 0.6,
    "best_value": 0.6,
    "best_epoch": 2,
    "epochs_done": 3,
    "final_val_loss": 0.9,
}
BEST, LAST = {"study": {"value": "best"}}, {"study": {"value": "last"}}


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    """Curves of two replicates of trials 3 and 4: the loss is 10 times the trial plus the epoch."""
    run_dir = RunDir(tmp_path)
    run_dir.metrics.mkdir()
    for epoch in (1, 2, 3):
        rows = [
            {
                "trial_number": trial,
                "epoch": epoch,
                "metric": "val_loss",
                "phase": phase,
                "value": 10.0 * trial + epoch + 0.5 * replicate + (0.0 if phase is None else 7.0),
            }
            for trial in (3, 4)
            for replicate in (0, 1)
            for phase in (None, "first")
        ]
        table = pa.Table.from_pylist(rows)
        parquet.write_table(table, run_dir.metrics / f"part-{epoch:06d}-{epoch:06d}.parquet")
    return run_dir


def test_metrics_are_those_of_the_epoch_of_the_value(run_dir: RunDir) -> None:
    stopping = LAST | {"train": {"early_stop": {"patience": 1}}}
    for settings in (BEST, stopping):
        found = with_metrics_of_value(run_dir, TRIAL, settings)
        assert found == {**TRIAL, "final_val_loss": 32.25}


def test_a_trial_with_the_value_of_its_last_epoch_keeps_its_row(run_dir: RunDir) -> None:
    for change in ({"best_epoch": 3}, {"value": 0.5}, {"value": None, "best_value": None}):
        assert with_metrics_of_value(run_dir, TRIAL | change, BEST) == TRIAL | change


def test_the_last_epoch_may_be_as_good_as_the_best_one(run_dir: RunDir) -> None:
    assert with_metrics_of_value(run_dir, TRIAL, LAST | {"train": {}}) == TRIAL


def test_damaged_curves_leave_the_row_as_it_is(run_dir: RunDir) -> None:
    for part in run_dir.own_parts():
        part.write_bytes(b"no table")
    assert with_metrics_of_value(run_dir, TRIAL, BEST) == TRIAL
