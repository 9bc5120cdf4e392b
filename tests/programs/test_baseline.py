"""The simple models of a study are measured like its trials, and equal plain scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import LogisticRegression, Ridge

from sweeper.config import StudyConfig, parse
from sweeper.config.comparable import not_comparable
from sweeper.data.dataset import Dataset
from sweeper.programs import baseline
from sweeper.programs.baseline import measure_baseline
from sweeper.results.baseline import Baseline
from tests.in_process import prepared
from tests.small_studies import COUPLED, DIGITS, PARTS, bent, write_mixture

FLOAT64 = "execution.precision=float64"
NUMBERS = ("train.loss=mse", "train.metrics=['r2','rmse','mae']", "search={}", FLOAT64)


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., StudyConfig]:
    """A study of a synthetic table with three columns of numbers, two targets and a class."""
    draw = np.random.default_rng(5)
    x = draw.normal(size=(300, 3))
    y = x @ np.array([[3.0], [-1.0], [0.5]]) + draw.normal(size=(300, 1))
    lines = [
        f"{a},{b},{c},{100 * one},{one + b * b},{'yes' if one > 2 else 'no'}"
        for (a, b, c), (one,) in zip(x, y, strict=True)
    ]
    text = "\n".join(["a,b,c,big,small,kind", *lines])
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")

    def study(target: str, drop: str, *settings: str) -> StudyConfig:
        data = f"data={{source='csv', path='rows.csv', target={target}, drop={drop}}}"
        return parse(bent(DIGITS, "search={}", data, *settings), tmp_path / "study.toml")

    return study


def scores(found: Baseline) -> dict[str, dict[str, Any]]:
    return {model.name: dict(model.scores) for model in found.models}


def test_classes_are_scored_like_plain_scikit_learn(study: Callable[..., StudyConfig]) -> None:
    config = study(
        "'kind'",
        "['big', 'small']",
        *("train.loss=binary_cross_entropy", FLOAT64),
        "train.metrics=['accuracy','f1','auroc','log_loss']",
    )
    data = prepared(config)
    found = measure_baseline(config, data)
    assert (found.rows, found.skipped, found.digest) == (len(data.x_train), "", data.digest)
    plain = LogisticRegression().fit(data.x_train, data.y_train)
    likely, predicted = plain.predict_proba(data.x_val), plain.predict(data.x_val)
    log_loss = metrics.log_loss(data.y_val, likely)
    expected = {
        "val_accuracy": metrics.accuracy_score(data.y_val, predicted),
        "val_f1": metrics.f1_score(data.y_val, predicted, average="macro"),
        "val_auroc": metrics.roc_auc_score(data.y_val, likely[:, 1]),
        "val_log_loss": log_loss,
        "val_loss": log_loss,
    }
    by_model = scores(found)
    measured = {name: by_model["logistic regression"][name] for name in expected}
    assert measured == pytest.approx(expected, rel=1e-9)
    constant = by_model["majority class"]
    assert constant["val_auroc"] == 0.5
    assert constant["val_accuracy"] == pytest.approx(np.mean(data.y_val == 0))


def test_numbers_are_scored_in_the_units_of_their_targets(
    study: Callable[..., StudyConfig],
) -> None:
    split = "data.split={val=0.2, test=0.2}"
    config = study("['big', 'small']", "['kind']", split, *NUMBERS)
    data = prepared(config)
    by_model = scores(measure_baseline(config, data))
    y_test = data.y_test * data.y_scale + data.y_mean
    plain = Ridge().fit(data.x_train, data.y_train)
    predicted = plain.predict(data.x_test) * data.y_scale + data.y_mean
    assert by_model["ridge"]["test_r2"] == pytest.approx(metrics.r2_score(y_test, predicted))
    rmse = metrics.root_mean_squared_error(y_test, predicted)
    assert by_model["ridge"]["test_rmse"] == pytest.approx(rmse)
    mse = metrics.mean_squared_error(y_test, predicted)
    assert by_model["ridge"]["test_loss"] == pytest.approx(mse)
    assert -0.1 < by_model["mean"]["val_r2"] < 1e-9


@pytest.mark.parametrize(
    "split", [["data.split={val=0.1, test=0.25}"], ["data.split={test=0.25}", "study.folds=3"]]
)
def test_rows_of_all_parts_and_folds_have_one_shape_to_compile_for(
    split: list[str], study: Callable[..., StudyConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = study("'big'", "['kind', 'small']", *split, *NUMBERS)
    shapes: set[tuple[int, ...]] = set()
    of_study = baseline.scoring

    def noting(config: StudyConfig, data: Dataset) -> baseline.Metrics:
        score = of_study(config, data)

        def noted(outputs: Any, y: Any, weights: Any) -> dict[str, Any]:
            shapes.add((*outputs.shape, *y.shape, *weights.shape))
            return score(outputs, y, weights)

        return noted

    monkeypatch.setattr(baseline, "scoring", noting)
    _, ridge = measure_baseline(config, prepared(config)).models

    assert {"val_r2", "test_r2"} <= set(ridge.scores)
    assert len(shapes) == 1


def test_the_standard_error_of_a_share_is_that_of_a_binomial(
    study: Callable[..., StudyConfig],
) -> None:
    config = study("'kind'", "['big', 'small']", "train.metrics=['accuracy']")
    data = prepared(config)
    _, model = measure_baseline(config, data).models
    share = model.scores["val_accuracy"]
    assert share is not None
    expected = (share * (1 - share) / len(data.y_val)) ** 0.5
    assert model.errors["val_accuracy"] == pytest.approx(expected, rel=0.5)


@pytest.mark.parametrize("first_fold", [0.0, 0.7])  # the share of its rows, if it is larger
def test_with_folds_values_are_means_over_models_of_all_their_rows(
    first_fold: float, study: Callable[..., StudyConfig]
) -> None:
    config = study("'big'", "['kind', 'small']", "study.folds=3", *NUMBERS)
    data = prepared(config)
    is_first = np.arange(len(data.fold_of)) < first_fold * len(data.fold_of)
    data = replace(data, fold_of=np.where(is_first, 0, data.fold_of))
    baseline = measure_baseline(config, data)
    assert baseline.rows == min(len(data.training_rows(fold)) for fold in range(3))
    found = scores(baseline)["ridge"]["val_r2"]
    of_folds: list[float] = []
    for fold in range(3):
        x, own = data.x_train * data.fold_scale[fold] + data.fold_shift[fold], data.fold_of == fold
        plain = Ridge().fit(x[~own], data.y_train[~own])
        of_folds.append(metrics.r2_score(data.y_train[own], plain.predict(x[own])))
    assert found == pytest.approx(np.mean(of_folds))


def test_many_rows_are_sampled_by_the_seed_of_the_study(
    study: Callable[..., StudyConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (
        study("'big'", "['kind', 'small']", f"study.seed={seed}", "data.split.seed=1", *NUMBERS)
        for seed in (1, 2)
    )
    data = prepared(one)
    whole = measure_baseline(one, data)
    monkeypatch.setattr(baseline, "_MOST_ROWS", 50)
    monkeypatch.setattr(baseline, "_LEAST_ROWS", 50)
    sampled = measure_baseline(one, data)
    assert (whole.rows, sampled.rows) == (len(data.x_train), 50)
    assert sampled == measure_baseline(one, data)
    ridge = [scores(of)["ridge"] for of in (whole, sampled, measure_baseline(other, data))]
    assert ridge[0] != ridge[1] != ridge[2]


def test_a_linear_model_that_would_take_long_is_left_out(
    study: Callable[..., StudyConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = study("'big'", "['kind', 'small']", *NUMBERS)
    monkeypatch.setattr(baseline, "_MOST_NUMBERS", 50)
    found = measure_baseline(config, prepared(config))
    assert [model.name for model in found.models] == ["mean"]
    assert found.skipped.startswith("3 features are too many")


def test_a_loss_whose_setting_is_searched_is_left_out(study: Callable[..., StudyConfig]) -> None:
    searched = "search={train.huber_delta={type='float', low=0.1, high=2.0}}"
    config = study("'big'", "['kind', 'small']", *NUMBERS[1:], "train.loss=huber", searched)
    fixed = study("'big'", "['kind', 'small']", *NUMBERS, "train.loss=huber")
    data = prepared(config)
    assert "val_loss" not in scores(measure_baseline(config, data))["ridge"]
    assert scores(measure_baseline(fixed, data))["ridge"]["val_loss"] > 0


def test_the_losses_of_parts_against_the_data_are_measured() -> None:
    config = parse(PARTS, Path("study.toml"))
    found = measure_baseline(config, prepared(config))
    assert found.skipped == ""
    assert scores(found)["ridge"]["val_loss_data"] < scores(found)["mean"]["val_loss_data"]


@pytest.mark.parametrize(
    ("text", "settings", "loss"),
    [
        (DIGITS, ("data={source='sklearn',name='diabetes'}", *NUMBERS), "val_loss"),
        (PARTS, (FLOAT64,), "val_loss_data"),
    ],
    ids=["supervised", "alternating"],
)
def test_the_loss_of_the_mean_is_that_of_transformed_targets(
    text: str, settings: tuple[str, ...], loss: str
) -> None:
    config = parse(bent(text, *settings, "data.target_transform=log"), Path("study.toml"))
    data = prepared(config)
    found = scores(measure_baseline(config, data))["mean"]
    distance = (data.y_val - data.y_train.mean(axis=0)) * data.y_scale
    assert found[loss] == pytest.approx(np.mean(distance**2), rel=1e-9)


OWN = "def loss(outputs, y):\n    return ((outputs - y) ** 2).mean()\n"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (("train.loss='own:loss'", "train.task=classes"), "the loss own:loss is user-defined"),
        (("data.split.train_on='train+val'",), "trials train on rows that they are measured on"),
    ],
)
def test_studies_with_nothing_to_compare_say_why(
    settings: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    config = parse(bent(DIGITS, *settings), tmp_path / "study.toml")
    found = measure_baseline(config, prepared(config))
    assert (found.models, found.skipped.startswith(why)) == ((), True)


def test_a_program_without_targets_has_no_simple_models(tmp_path: Path) -> None:
    write_mixture(tmp_path)
    config = parse(COUPLED, tmp_path / "study.toml")
    found = measure_baseline(config, prepared(config))
    assert found.skipped == 'train.program = "coupled" has no target that they could predict'


@pytest.mark.parametrize(
    ("text", "train", "name"),
    [
        (DIGITS, "program='own:Program'", "program own:Program"),
        (COUPLED, "program='coupled',objective='own:losses'", "objective own:losses"),
    ],
)
def test_predictions_of_your_own_programs_mean_anything(text: str, train: str, name: str) -> None:
    own = f"train={{{train},task='numbers',epochs=1,batch_size=8}}"
    config = parse(bent(text, "train={}", own, "search={}"), Path("study.toml"))
    assert not_comparable(config) == f"the {name} is user-defined, so outputs may mean anything"


def test_an_error_is_the_reason_why_there_are_none(tmp_path: Path) -> None:
    config = parse(DIGITS, tmp_path / "study.toml")
    data = prepared(config)
    broken: Dataset = replace(data, x_val=data.x_val[:, :3])
    found = measure_baseline(config, broken)
    assert found.skipped.startswith("ValueError: X has 3 features")
