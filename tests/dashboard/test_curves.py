"""Learning curves as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeper.dashboard.curves import Curves
from sweeper.dashboard.views.learning import curve_record, learning_view
from sweeper.errors import SetupError
from sweeper.results.columns import METRICS
from sweeper.results.tables import rows_table

SCHEMA = pa.schema([pa.field(column.name, column.type) for column in METRICS])


def row(trial: int, epoch: int, value: float | None, **more: Any) -> dict[str, Any]:
    """A value of the metric m."""
    return {"trial_number": trial, "epoch": epoch, "metric": "m", "value": value, **more}


def write(directory: Path, part: int, rows: list[dict[str, Any]]) -> None:
    """Publish a part."""
    parquet.write_table(rows_table(rows, SCHEMA), directory / f"part-{part:06d}-{part:06d}.parquet")


def test_a_curve_is_the_mean_of_its_members(tmp_path: Path) -> None:
    write(tmp_path, 1, [row(3, 1, 1.0, fold=0), row(3, 1, 2.0, fold=1), row(3, 2, 4.0)])
    curves = Curves()
    curves.refresh(tmp_path)
    (found,) = curves.curve(3)
    assert (found["metric"], found["phase"], found["epochs"]) == ("m", None, [1, 2])
    assert found["values"].tolist() == [1.5, 4.0]
    assert curves.curve(2) == curves.curve(99) == []


def test_a_curve_ends_before_the_epoch_in_which_a_member_diverged(tmp_path: Path) -> None:
    rows = [row(t, e, float(t + e), fold=0) for t in (0, 1) for e in (1, 2)]
    write(tmp_path, 1, [*rows, row(1, 1, 2.0, fold=1), row(1, 2, None, fold=1)])
    curves = Curves()
    curves.refresh(tmp_path)
    assert curves.refresh(tmp_path, {1: 2, 7: 1})
    assert not curves.refresh(tmp_path)
    assert [curves.curve(number)[0]["epochs"] for number in (0, 1)] == [[1, 2], [1]]
    assert curves.band(("m", None))[1:] == [(2, 2.0, 2.0, 2.0)]


def test_parts_are_read_once_and_their_curves_grow(tmp_path: Path) -> None:
    curves = Curves()
    assert not curves.refresh(tmp_path)
    write(tmp_path, 1, [row(0, 1, 1.0)])
    assert curves.refresh(tmp_path)
    write(tmp_path, 2, [row(0, 2, 0.5), row(900, 1, 3.0), row(900, 2, None)])
    assert curves.refresh(tmp_path)
    assert not curves.refresh(tmp_path)
    assert curves.curve(0)[0]["values"].tolist() == [1.0, 0.5]
    assert curves.curve(900)[0]["epochs"] == [1]


def test_a_restarted_study_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, 1, [row(0, 1, 1.0)])
    curves = Curves()
    curves.refresh(tmp_path)
    (tmp_path / "part-000001-000001.parquet").unlink()
    write(tmp_path, 2, [row(0, 1, 7.0)])
    curves.refresh(tmp_path)
    assert curves.curve(0)[0]["values"].tolist() == [7.0]


def test_a_part_that_was_replaced_under_its_name_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, 1, [row(0, 1, 1.0), row(1, 1, 2.0)])
    curves = Curves()
    curves.refresh(tmp_path)
    (tmp_path / "part-000001-000001.parquet").unlink()
    write(tmp_path, 1, [row(0, 1, 7.0)])
    assert curves.refresh(tmp_path)
    assert curves.curve(0)[0]["values"].tolist() == [7.0]
    assert curves.curve(1) == []
    (tmp_path / "part-000001-000001.parquet").unlink()
    assert curves.refresh(tmp_path)
    assert curves.curve(0) == []


def test_the_band_has_the_quantiles_of_remaining_trials(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(11, 3))
    rows = [row(t, e + 1, float(values[t, e])) for t in range(11) for e in range(3) if e < 2 or t]
    write(tmp_path, 1, [*rows, row(20, 1, None)])
    curves = Curves()
    curves.refresh(tmp_path)
    there = [values[:, 0], values[:, 1], values[1:, 2]]
    for (epoch, *band), of in zip(curves.band(("m", None)), there, strict=True):
        assert band == pytest.approx(np.quantile(of, (0.1, 0.5, 0.9)), abs=1e-6), epoch


def test_values_beyond_single_precision_are_drawn(tmp_path: Path) -> None:
    rows = [row(trial, epoch, 10.0**epoch) for trial in (0, 1) for epoch in (1, 39, 300)]
    write(tmp_path, 1, [*rows, row(2, 400, 1.5e308, fold=0), row(2, 400, 1.5e308, fold=1)])
    curves = Curves()
    curves.refresh(tmp_path)
    (found,) = curves.curve(1)
    assert found["values"].tolist() == [10.0, 1e39, 1e300]
    assert [low for _, low, *_ in curves.band(("m", None))] == [10.0, 1e39, 1e300]
    _, choice = learning_view(curves, "m")
    ((_, (drawn,)),) = choice["alternatives"]
    assert "after epoch 300" in drawn["place"]["label"]
    assert "None" not in drawn["place"]["label"]


def test_a_metric_whose_means_are_infinite_leaves_those_of_others(tmp_path: Path) -> None:
    huge = [row(0, 1, 1.5e308, metric="huge", fold=fold) for fold in (0, 1)]
    write(tmp_path, 1, [row(0, 1, 1.0), *huge])
    curves = Curves()
    curves.refresh(tmp_path)
    _, choice = learning_view(curves, "m")
    (_, (drawn,)), (_, (said,)) = choice["alternatives"]
    assert drawn["kind"] == "chart"
    assert said["text"] == "No value of huge can be drawn."
    assert curve_record(curves, 0) == [["huge", None, [1], [None]], ["m", None, [1], [1]]]


def test_phases_have_curves_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, 1, [row(0, 1, 1.0, phase="fit"), row(0, 2, 2.0, phase="follow")])
    curves = Curves()
    curves.refresh(tmp_path)
    assert curves.keys() == [("m", None), ("m", "fit"), ("m", "follow")]
    assert [curve["epochs"] for curve in curves.curve(0)] == [[1, 2], [1], [2]]


@pytest.mark.parametrize(
    ("trial", "epoch"), [(99_999, 1400), (1, 2**31 - 1), (2**20, 2**20), (2**32 - 1, 1)]
)
def test_trials_take_no_room_for_epochs_that_they_did_not_reach(
    trial: int, epoch: int, tmp_path: Path
) -> None:
    write(tmp_path, 1, [row(0, 1, 1.0), row(trial, epoch, 3.0, fold=0)])
    write(tmp_path, 2, [row(trial, epoch, 4.0, fold=1)])
    curves = Curves()
    curves.refresh(tmp_path)
    (found,) = curves.curve(trial)
    assert (found["epochs"], found["values"].tolist()) == ([epoch], [3.5])
    assert curves.band(("m", None))[-1] == (epoch, 3.5, 3.5, 3.5) or epoch == 1
    assert curves.n_epochs == epoch
    assert len(curves.measured["m", None].cells) == 2


def test_a_part_that_is_damaged_leaves_no_values_of_others(tmp_path: Path) -> None:
    write(tmp_path, 1, [row(0, 1, 1.0)])
    write(tmp_path, 2, [row(0, -1, 3.0)])
    curves = Curves()
    with pytest.raises(SetupError, match="verify"):
        curves.refresh(tmp_path)
    write(tmp_path, 2, [row(0, 2, 3.0)])
    curves.refresh(tmp_path)
    assert curves.measured["m", None].counts.tolist() == [1, 1]


@pytest.mark.parametrize(("trial", "epoch"), [(2**60, 1), (2**32, 1), (-1, 1), (1, -5), (1, 0)])
def test_an_impossible_trial_or_epoch_is_refused(trial: int, epoch: int, tmp_path: Path) -> None:
    write(tmp_path, 1, [row(trial, epoch, 1.0)])
    with pytest.raises(SetupError, match="it has the number of a trial or of an epoch that no"):
        Curves().refresh(tmp_path)
