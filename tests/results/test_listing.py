"""Published trials and curves as plain values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from sweeper.results.listing import curves, curves_of_all
from sweeper.rundir import RunDir


def test_a_curve_has_no_value_in_the_epoch_in_which_a_member_diverged(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    run_dir.metrics.mkdir()
    epochs = pa.array([None, 2], pa.int32())
    parquet.write_table(
        pa.table({"trial_number": [0, 1], "diverged_epoch": epochs}), run_dir.trials
    )
    rows = [(trial, epoch, member) for trial in (0, 1) for epoch in (1, 2) for member in (0, 1)]
    part = {
        "trial_number": [trial for trial, _, _ in rows],
        "epoch": [epoch for _, epoch, _ in rows],
        "replicate": [member for _, _, member in rows],
        "metric": ["val_loss"] * len(rows),
        # one member of each trial has no value in epoch 2; that of trial 0 has ended early
        "value": [1.0, 3.0, 2.0, None] * 2,
    }
    parquet.write_table(pa.table(part), run_dir.metrics / "part-000001-000001.parquet")

    assert [curves(run_dir, trial)["val_loss"] for trial in (0, 1)] == [[2.0, 2.0], [2.0, None]]
    assert curves_of_all(run_dir, "val_loss") == {0: {1: 2.0, 2: 2.0}, 1: {1: 2.0}}
