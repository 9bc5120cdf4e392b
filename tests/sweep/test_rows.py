"""Columns of buckets and trials that add up."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sweeper.executors import trainer
from tests.sweep.test_diverging import AT_ONCE, IRIS, LATE, decays, run


@pytest.mark.parametrize("members", [1, 2])
def test_a_bucket_counts_only_epochs_in_which_its_lanes_were_trained(
    members: int, tmp_path: Path
) -> None:
    bad = {1: LATE, 3: AT_ONCE}
    settings = f"study.replicates={members}", "execution.lane_loop='map'"
    results = run(tmp_path, IRIS, decays(4, bad), *settings)
    trials, buckets = results.trials(), results.buckets()
    assert set(trials["reason"].dropna()) == {"diverged"}
    # the time of buckets is divided among the epochs of trials, and nothing is left
    assert trials["train_s"].sum() == pytest.approx(buckets["train_s"].sum(), rel=1e-9)
    lengths = buckets["epochs_to"] - buckets["epochs_from"] + 1
    calls = (buckets["lanes_live"] / buckets["capacity"]).map(math.ceil)
    trained = buckets["occupancy"] * buckets["capacity"] * calls * lengths
    assert trained.sum() == pytest.approx(members * trials["epochs_done"].sum(), rel=1e-9)


def test_the_peak_memory_of_a_trial_is_that_of_its_largest_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks = [300, 500, None, 400]
    monkeypatch.setattr(trainer, "peak_memory", lambda devices: peaks.pop(0))
    results = run(tmp_path, IRIS, decays(1, {}), "train.epochs=4", "schedule.round_epochs=1")
    known = results.buckets()["memory_peak_bytes"]
    assert known.dropna().tolist() == [300, 500, 400]
    assert results.trials()["peak_memory_bytes"].tolist() == [500]
