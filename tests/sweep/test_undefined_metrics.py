"""A metric without a finite value is null in its epoch only, and does not end the study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sweeper.sweep.state import Running
from sweeper.sweep.verdicts import values_of
from sweeper.trial import OVER, Curve, LaneRecord, Place, TrialSpec
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS, bent

METRICS = ("train_loss", "val_loss", "val_r2")


def trial(*members: list[list[float]]) -> Running:
    """A trial whose members measured these values, one epoch per row."""
    running = Running(TrialSpec(0, {}, {}, 0))
    curve = Curve.of_members(0, 1, np.array(members), 3)
    place = Place("thread 0", "cpu:0", "host", None, None, None)
    running.lanes.append(LaneRecord(0, curve, "", (), place))
    return running


def test_the_last_value_is_that_of_the_last_trained_epoch() -> None:
    whole = [[0.5, 0.6, 0.1], [0.4, 0.5, OVER]]
    ended = [[0.5, 0.7, 0.2], [OVER, OVER, OVER]]
    found = trial(whole, ended)

    assert values_of(found, METRICS, "val_r2", None) == [OVER, 0.2]
    assert values_of(found, METRICS, "val_loss", None) == [0.5, 0.7]


@pytest.mark.parametrize("members", ["study.replicates=1", "study.replicates=2", "study.folds=2"])
def test_trials_of_earlier_studies_continue_if_r2_is_undefined(
    members: str, tmp_path: Path
) -> None:
    """It divides by the variance of the targets, which is zero here."""
    rows = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", x=rows, y=np.where(np.arange(60) < 2, 1.0, 0.0))
    study = bent(
        DIGITS,
        "edition=1",
        "data={source='npz',path='rows.npz',split={val=0.2,test=0.1,stratify=false}}",
        "study.n_trials=2",
        "search={}",
        "model.depth=1",
        "study.seed=2",
        "train.loss=mse",
        "train.metrics=['r2']",
        "train.epochs=2",
        "train.batch_size=16",
        members,
    )

    trials = trained(study_in(tmp_path, study)).trials()

    assert trials["state"].tolist() == ["COMPLETE", "COMPLETE"]
    assert np.isfinite(trials["final_val_loss"]).all()
    assert trials["final_val_r2"].isna().all()
