"""Targets that are learnt as logarithms are trained as such, and scored in their own unit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

import sweeper
from sweeper.data.prepare import prepare
from sweeper.errors import SweeperError
from sweeper.export import export
from sweeper.export.ensemble import measure_ensemble
from sweeper.export.ensemble_directory import export_ensemble
from sweeper.programs.saved_file import MODEL_FILE
from sweeper.results.baseline import read_baseline
from sweeper.results.ensemble import EnsembleMember, write_ensemble
from tests.in_process import study_in, trained
from tests.standalone import standalone

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
PRICES = np.exp(1 + X @ [0.8, -0.5] + 0.1 * RNG.normal(size=300))
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "price": PRICES, "log": np.log(PRICES)})
LOG1P = np.log1p(PRICES)
STUDY = """\
version = 1
[study]
name = "prices"
metric = "val_r2"
direction = "maximize"
n_trials = 2
[data]
source = "csv"
path = "prices.csv"
target = "price"
drop = ["log"]
target_transform = "log"
[model]
depth = 1
width = 8
[optimizer]
name = "adam"
lr = 0.02
[train]
loss = "mse"
metrics = ["r2", "rmse", "mae", "units:greatest"]
epochs = 20
batch_size = 30
[search]
model.width = { type = "categorical", choices = [4, 8] }
[execution]
precision = "float32"
threads = 1
workers = 0
"""
UNITS = "def greatest(outputs, y):\n    return y.max()\n"
SCORES = {"r2": r2_score, "rmse": root_mean_squared_error, "mae": mean_absolute_error}


def written(directory: Path) -> Path:
    directory.mkdir(exist_ok=True)
    FRAME.to_csv(directory / "prices.csv", index=False)
    (directory / "units.py").write_text(UNITS, encoding="utf-8")
    return directory


def test_logarithms_are_trained_and_scored_in_the_unit_of_the_data(tmp_path: Path) -> None:
    study = study_in(written(tmp_path / "of"), STUDY)
    results = trained(study)
    trials = results.trials()

    # what is trained is the same as with a column of logarithms
    of_log = 'target = "log"\ndrop = ["price"]'
    alike = STUDY.replace('target = "price"\ndrop = ["log"]', of_log).replace(
        "_transform", "_scale"
    )
    alike = alike.replace('target_scale = "log"', 'target_scale = "standard"')
    other = trained(study_in(written(tmp_path / "log"), alike)).trials()
    np.testing.assert_allclose(trials["final_val_loss"], other["final_val_loss"], rtol=2e-6)
    assert (trials["final_val_r2"] != other["final_val_r2"]).all()

    data = prepare(study)
    rows, y = data.x_val, data.targets_in_unit(data.y_val)[:, 0]
    row = trials.iloc[0]
    number = int(row["trial_number"])
    export(results.run_dir.root, number, 0, tmp_path / "best")
    saved = sweeper.load(tmp_path / "best", base_dir=tmp_path / "of")
    outputs = np.stack([np.asarray(saved.model(x)) for x in rows])
    predicted = saved.numbers_by(outputs)[:, 0]
    for name, score in SCORES.items():
        assert row[f"final_val_{name}"] == pytest.approx(score(y, predicted), rel=2e-6)
    assert row["final_val_greatest"] == pytest.approx(y.max(), rel=2e-6)
    assert np.isin(np.round(y, 4), np.round(PRICES, 4)).all()

    found = saved.predict(FRAME)
    assert r2_score(PRICES, found) > 0.9
    alone = standalone(tmp_path / "best", tmp_path, {"y": "load.predict(given['x'])"}, x=X)
    np.testing.assert_allclose(alone["y"], found, rtol=2e-6)
    card = (tmp_path / "best" / "README.md").read_text(encoding="utf-8")
    assert "predictions are exp of the outputs times the deviation" in card

    record = measure_ensemble(results.run_dir, 4)
    both = tuple(EnsembleMember(trial, 0, 1) for trial in (0, 1))
    write_ensemble(results.run_dir, replace(record, members=both))
    export_ensemble(results.run_dir.root, tmp_path / "mean")
    card = (tmp_path / "mean" / "README.md").read_text(encoding="utf-8")
    assert "The models predict `log` of the target. Their predictions are averaged first," in card
    found = sweeper.load(tmp_path / "mean", base_dir=tmp_path / "of").predict(FRAME)
    alone = standalone(tmp_path / "mean", tmp_path, {"y": "load.predict(given['x'])"}, x=X)
    np.testing.assert_allclose(alone["y"], found, rtol=2e-6)

    baseline = read_baseline(results.run_dir)
    assert baseline is not None
    scores = {one.name: one.scores["val_r2"] for one in baseline.models}
    constant = np.full(len(y), data.targets_in_unit(data.y_train).mean())
    assert scores["mean"] == pytest.approx(r2_score(y, constant), abs=1e-6)


def test_a_model_of_logarithms_does_not_go_on_with_numbers(tmp_path: Path) -> None:
    short = "train.epochs=1", "study.n_trials=1", "search={}"
    results = trained(study_in(written(tmp_path), STUDY, *short))
    export(results.run_dir.root, 0, 0, tmp_path / "best")
    other = study_in(
        tmp_path, STUDY, *short, "data.target_transform=none", f"results.dir={tmp_path}/o"
    )
    with pytest.raises(SweeperError, match="transformed by 'log', not 'none'; write target_transf"):
        sweeper.run(other, continue_from=tmp_path / "best" / MODEL_FILE)


@pytest.mark.parametrize(("exponent", "size"), [(60, "large"), (-70, "small")])
def test_targets_whose_squares_overflow_or_are_0_are_refused(
    exponent: int, size: str, tmp_path: Path
) -> None:
    written(tmp_path)
    prices = np.exp(exponent + 5 * X[:, 0])
    FRAME.assign(price=prices).to_csv(tmp_path / "prices.csv", index=False)
    with pytest.raises(SweeperError, match=f"squares too {size} for float32"):
        prepare(study_in(tmp_path, STUDY))


def test_log1p_takes_zeros_and_is_undone(tmp_path: Path) -> None:
    frame = FRAME.assign(price=np.maximum(0, PRICES - 2))
    study = study_in(written(tmp_path), STUDY, "data.target_transform=log1p")
    frame.to_csv(tmp_path / "prices.csv", index=False)
    data = prepare(study)
    y = np.concatenate([data.y_train, data.y_val, data.y_test])
    assert sorted(data.targets_in_unit(y)[:, 0]) == pytest.approx(sorted(frame["price"]), abs=1e-5)
    scaled = np.log1p(frame["price"])
    assert data.y_mean[0] == pytest.approx(scaled.mean(), abs=0.1)


@pytest.mark.parametrize(
    ("settings", "least", "found"),
    [
        ((), 0.0, "'log1p' or 'none'"),
        ((), -1.0, "write target_transform = 'none'"),
        (
            ("data.target_transform=log1p",),
            -1.0,
            "is -1 or less (line 9); write target_transform = 'none'",
        ),
        (("train.loss=cross_entropy", "train.metrics=[]"), 1.0, "the target is classes; remove"),
    ],
)
def test_targets_without_logarithm_are_refused(
    settings: tuple[str, ...], least: float, found: str, tmp_path: Path
) -> None:
    metric = ("study.metric=val_loss", "study.direction=minimize") if len(settings) > 1 else ()
    written(tmp_path)
    frame = FRAME.copy()
    frame.loc[7, "price"] = least
    frame.to_csv(tmp_path / "prices.csv", index=False)
    with pytest.raises(SweeperError, match=r"data\.target_transform") as refused:
        prepare(study_in(tmp_path, STUDY, *settings, *metric))
    assert found in str(refused.value)
    if not metric:
        assert "line 9" in str(refused.value)


def test_numbers_as_text_without_logarithm_are_refused(tmp_path: Path) -> None:
    written(tmp_path)
    texts = FRAME["price"].map(str)
    texts[7] = "-1"
    FRAME.assign(price=texts).to_parquet(tmp_path / "prices.parquet")
    parquet = ("data.source=parquet", "data.path=prices.parquet")
    with pytest.raises(SweeperError, match=r"log has no value: .*0 or less \(row 8\)"):
        prepare(study_in(tmp_path, STUDY, *parquet))
