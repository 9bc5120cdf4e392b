"""Sweeps behind scikit-learn's interface."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import sweeper
from sweeper.errors import SetupError
from sweeper.estimators import FitError, SweepWarning, _changes_split, _of_polars
from sweeper.export.saved_model import UnknownCategoryWarning
from tests.documents import GUIDES, code, section

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
# one small network, of which only the learning rate is searched
SMALL: dict[str, Any] = {
    "n_trials": 2,
    "epochs": 4,
    "search": {"optimizer.lr": {"type": "float", "low": 1e-3, "high": 1e-2, "log": True}},
    "settings": {"model.depth": 1, "model.width": 8, "train.batch_size": 32},
    "validation_fraction": 0.3,
    "random_state": 0,
}
FAILS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "the rows are split and put into batches at random, so a row of weight 2 is not a row twice"
    ),
}

pytestmark = pytest.mark.filterwarnings("ignore::sweeper.estimators.SweepWarning")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> sweeper.SweepClassifier:
    """A classifier of iris, whose run directory is kept."""
    run_dir = tmp_path_factory.mktemp("iris") / "run"
    return sweeper.SweepClassifier(**SMALL, run_dir=run_dir).fit(X, NAMES)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "estimator",
    [
        sweeper.SweepClassifier(n_trials=2, epochs=10, random_state=0),
        sweeper.SweepRegressor(n_trials=2, epochs=20, random_state=0),
    ],
)
def test_estimators_pass_the_checks_of_scikit_learn(
    estimator: sweeper.SweepClassifier | sweeper.SweepRegressor,
) -> None:
    done = check_estimator(estimator, expected_failed_checks=FAILS, on_skip=None)
    assert {one["check_name"] for one in done if one["status"] == "xfail"} == {*FAILS}


def test_a_fitted_classifier_has_the_attributes_of_scikit_learn(
    fitted: sweeper.SweepClassifier,
) -> None:
    assert (fitted.classes_.tolist(), fitted.n_classes_) == ([*np.unique(NAMES)], 3)
    assert fitted.n_features_in_ == 4
    assert not hasattr(fitted, "feature_names_in_")
    assert fitted.run_dir_ == fitted.results_.run_dir.root
    assert fitted.best_score_ == fitted.results_.best()["value"].item()
    assert {*fitted.best_params_} == {"lr"}
    assert fitted.model_.params == fitted.best_params_


def test_predictions_are_the_likeliest_classes(fitted: sweeper.SweepClassifier) -> None:
    probabilities = fitted.predict_proba(X)
    assert probabilities.shape == (150, 3)
    assert np.allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    predicted = fitted.predict(X)
    assert predicted.tolist() == fitted.classes_[probabilities.argmax(axis=1)].tolist()
    assert fitted.score(X, NAMES) == np.mean(predicted == NAMES)


def test_a_fit_in_a_used_run_directory_resumes_it(fitted: sweeper.SweepClassifier) -> None:
    before = fitted.results_.trials()
    again = clone(fitted).fit(X, NAMES)
    pd.testing.assert_frame_equal(again.results_.trials(), before)
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_a_used_run_directory_is_not_overwritten(fitted: sweeper.SweepClassifier) -> None:
    before = fitted.results_.trials()
    with pytest.raises(ValueError, match="data"):
        clone(fitted).fit(X[1:], NAMES[1:])
    with pytest.raises(ValueError, match="epochs"):
        clone(fitted).set_params(epochs=3).fit(X, NAMES)
    with pytest.raises(FitError) as refused:  # it would also have a pruner
        clone(fitted).set_params(epochs=6).fit(X, NAMES)
    (problem,) = refused.value.problems
    assert (problem.key, problem.hint) == ("epochs", "restore it, or pass another run_dir")
    pd.testing.assert_frame_equal(fitted.results_.trials(), before)


@pytest.mark.slow
def test_a_pickled_estimator_predicts_in_a_new_process(
    fitted: sweeper.SweepClassifier, tmp_path: Path
) -> None:
    joblib.dump(fitted, tmp_path / "model.joblib")
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "predict.py").write_text(
        "import joblib, numpy\n"
        "numpy.save('y.npy', joblib.load('model.joblib').predict_proba(numpy.load('x.npy')))\n"
    )
    subprocess.run([sys.executable, "predict.py"], cwd=tmp_path, check=True)
    assert np.array_equal(np.load(tmp_path / "y.npy"), fitted.predict_proba(X))


def test_a_temporary_run_directory_lasts_as_long_as_its_results() -> None:
    results = sweeper.SweepClassifier(**SMALL).fit(X, NAMES).results_
    gc.collect()
    assert len(results.trials()) == 2
    run_dir = results.run_dir.root
    del results
    gc.collect()
    assert not run_dir.parent.exists()


def test_a_run_directory_that_cannot_be_written_is_that_of_the_argument(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match=r"^run_dir: cannot write to .* is not a directory"):
        sweeper.SweepClassifier(**SMALL, run_dir=tmp_path / "file").fit(X, NAMES)


def test_classes_without_a_row_for_each_part_are_split_without_their_proportions() -> None:
    y = np.arange(len(X)) < 2
    estimator = sweeper.SweepClassifier(**{**SMALL, "settings": {"data.split.test": 0.2}})
    assert set(estimator.fit(X, y).classes_) == {False, True}


def test_a_temporary_run_directory_goes_with_its_estimator() -> None:
    estimator = sweeper.SweepClassifier(**SMALL).fit(X, NAMES)
    copy, run_dir = pickle.loads(pickle.dumps(estimator)), estimator.run_dir_
    expected = estimator.predict_proba(X)
    assert len(estimator.results_.trials()) == 2
    del estimator
    gc.collect()
    assert not run_dir.parent.exists()
    assert np.array_equal(copy.predict_proba(X), expected)
    with pytest.raises(AttributeError, match="pass run_dir to keep it"):
        copy.results_  # noqa: B018


@pytest.mark.parametrize(
    ("share", "unused"),
    [(0.2, []), (0.3, ["validation_fraction=0.3 changes nothing: column 'part'"])],
)
def test_with_a_column_that_splits_the_rows_only_own_arguments_are_reported_as_unused(
    share: float, unused: list[str]
) -> None:
    rows = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    rows["part"] = np.resize(["train", "val", "train", "test"], len(rows))
    own = {"validation_fraction": share, "settings": {"data.split.column": "part"}}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        sweeper.SweepClassifier(**{**SMALL, **own}).fit(rows, Y)
    said = [str(one.message) for one in warned if "changes nothing" in str(one.message)]
    assert [one.partition(" says")[0] for one in said] == unused


@pytest.mark.slow
def test_a_pipeline_with_a_column_transformer_is_cross_validated() -> None:
    kind = np.where(X[:, 0] > 5.5, "long", "short")
    rows = pd.DataFrame({"width": X[:, 1], "petal": X[:, 2], "kind": kind})
    prepared = make_column_transformer(
        (StandardScaler(), ["width", "petal"]), (OneHotEncoder(sparse_output=False), ["kind"])
    )
    rates = {"optimizer.lr": {"type": "float", "low": 0.03, "high": 0.1}}
    estimator = sweeper.SweepClassifier(**SMALL | {"epochs": 30, "search": rates})
    scores = cross_val_score(make_pipeline(prepared, estimator), rows, NAMES, cv=3)
    assert scores.shape == (3,)
    assert scores.min() > 0.8


@pytest.mark.slow
def test_rows_of_weight_0_are_as_if_left_out() -> None:
    kept, weights = np.arange(len(X)) % 3 > 0, 1.0 + np.arange(len(X)) % 2
    x, y = X[:, :2], X[:, 2:]
    left_out = sweeper.SweepRegressor(**SMALL)
    left_out.fit(x[kept], y[kept], sample_weight=weights[kept])
    weighted = sweeper.SweepRegressor(**SMALL)
    weighted.fit(x, y, sample_weight=np.where(kept, weights, 0.0))
    assert weighted.n_outputs_ == 2
    assert weighted.predict(x).shape == (150, 2)
    assert np.array_equal(weighted.predict(x), left_out.predict(x))


def test_the_pipeline_of_the_guide_predicts(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = code("python", section("scikit-learn", GUIDES["python"]))
    found: dict[str, Any] = {}
    exec(compile(block, "python.md", "exec"), found)
    model, houses = found["model"], found["houses"]
    assert model[-1].feature_names_in_.tolist() == [*houses.columns]
    assert model.score(houses, found["price"]) > 0.5
    assert "trial_number" in capsys.readouterr().out


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_columns_may_be_text_and_have_gaps(library: Any) -> None:
    kind = np.where(X[:, 0] > 5.5, "long", "short").astype(object)
    table = {"width": np.where(X[:, 1] > 4.0, np.nan, X[:, 1]), "kind": kind}
    rows = library(table)
    if library is pl.DataFrame:
        rows = rows.with_columns(pl.col("kind").cast(pl.Categorical))
    estimator = sweeper.SweepClassifier(**SMALL).fit(rows, NAMES)
    assert estimator.feature_names_in_.tolist() == [*table]
    assert estimator.model_.feature_names == ("width", "kind_long", "kind_short")
    assert {*estimator.predict(rows)} <= {*NAMES}
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(rows[["kind", "width"]])


def test_integers_of_polars_are_not_rounded_next_to_gaps() -> None:
    codes = [2**53 + 1, None, *range(2, len(X))]
    with pytest.raises(ValueError, match="holds numbers that a float would change, such as 9007"):
        sweeper.SweepClassifier(**SMALL).fit(pl.DataFrame({"code": codes}), NAMES)
    assert _of_polars(pl.DataFrame({"code": codes}))["code"].tolist()[0] == 2**53 + 1
    assert _of_polars(pl.DataFrame({"code": codes[1:]}))["code"].dtype == "float64"


@pytest.mark.parametrize("more", [{}, {"study.folds": 2}])
def test_a_group_that_no_training_row_had_is_predicted_with_a_warning(more: Any) -> None:
    """In LeaveOneGroupOut, all rows to predict are of another group."""
    rows = pd.DataFrame(X, columns=[*"wxyz"]).assign(group=["north", "south", "west"] * 50)
    settings = {**SMALL["settings"], **more}
    estimator = sweeper.SweepClassifier(**SMALL | {"settings": settings})
    estimator.fit(rows[rows["group"] != "west"], NAMES[rows["group"] != "west"])
    with pytest.warns(UnknownCategoryWarning, match="column 'group' has 'west' in 50 rows"):
        assert estimator.score(rows[rows["group"] == "west"], NAMES[rows["group"] == "west"]) > 0
    with pytest.raises(ValueError, match="has only values that no training row had"):
        estimator.predict(rows.assign(group=3))


@pytest.mark.slow
def test_an_ensemble_predicts_with_the_mean_of_its_models() -> None:
    estimator = sweeper.SweepClassifier(**SMALL, ensemble=3)
    estimator.fit(X, NAMES)
    assert sum(one["count"] for one in estimator.model_.info["members"]) <= 3
    copy = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(copy.predict_proba(X), estimator.predict_proba(X))


@pytest.mark.parametrize(
    ("more", "n_rows", "n_members"),
    [
        ({"study.folds": 2}, 150, 2),
        ({"study.folds": 2}, 149, 2),  # folds of two sizes
        ({"study.replicates": 3}, 150, 3),
        ({"study.folds": 2, "study.replicates": 2}, 150, 4),
    ],
)
def test_the_model_is_the_mean_of_all_folds_and_replicates(
    more: dict[str, int], n_rows: int, n_members: int
) -> None:
    settings = {**SMALL["settings"], **more}
    given = {**SMALL, "settings": settings, "validation_fraction": 0.2}
    estimator = sweeper.SweepClassifier(**given).fit(X[:n_rows], NAMES[:n_rows])
    best = estimator.results_.best()["trial_number"].item()
    assert estimator.model_.info["members"] == [{"trial": best, "count": 1}] * n_members
    assert pickle.loads(pickle.dumps(estimator)).score(X, NAMES) == estimator.score(X, NAMES)


def test_trials_are_judged_by_a_function_in_the_given_direction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "def error(outputs, y):\n    return abs(outputs - y).mean()\n"
    (tmp_path / "own_metric.py").write_text(own, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = {**SMALL["settings"], "study.direction": "minimize"}
    judged = {"metric": "own_metric:error", "settings": settings}
    fitted = sweeper.SweepRegressor(**{**SMALL, **judged}).fit(X, X[:, 0])
    values = fitted.results_.trials()["value"].dropna()
    assert fitted.best_score_ == values.min() < values.max()


@pytest.mark.parametrize("more", [{}, {"ensemble": 2}])
def test_an_estimator_in_float64_predicts_in_float64(more: dict[str, Any]) -> None:
    settings = {**SMALL["settings"], "execution.precision": "float64"}
    regressor = sweeper.SweepRegressor(**{**SMALL, "settings": settings, **more}).fit(X, X[:, 0])
    assert not jax.config.read("jax_enable_x64")
    found = regressor.predict(X)
    assert found.dtype == np.float64
    assert not np.array_equal(found, found.astype(np.float32))
    again = pickle.loads(pickle.dumps(regressor)).predict(X)
    assert np.array_equal(again, found)
    with jax.enable_x64(True):
        assert np.array_equal(regressor.predict(X), found)
    assert not jax.config.read("jax_enable_x64")
    classes = sweeper.SweepClassifier(**{**SMALL, "settings": settings}).fit(X, Y)
    assert classes.predict_proba(X).shape == (150, 3)


def test_a_constant_target_and_constant_features_are_learnt() -> None:
    rows = np.ones((150, 2))
    estimator = sweeper.SweepRegressor(**SMALL).fit(rows, np.full(150, 7.0))
    assert estimator.predict(rows).tolist() == pytest.approx([7.0] * 150, abs=0.5)


@pytest.mark.parametrize("unset", ["study.folds", "data.split", "data.split.group"])
def test_a_setting_that_is_none_does_not_change_the_split(unset: str) -> None:
    settings = {"model.depth": 1, "model.width": 8, unset: None}
    estimator = sweeper.SweepRegressor(n_trials=1, epochs=1, ensemble=False, settings=settings)
    estimator.fit(X[:5], [1.0, 2.0, 3.0, 4.0, 5.0])  # one row for validation, too few for r2
    assert estimator.results_.study["metric"] == "val_rmse"


def test_without_a_share_for_testing_the_rows_are_split_as_in_a_study_file() -> None:
    assert _changes_split({"data.split.test": None})


@pytest.mark.slow
def test_too_few_rows_for_an_ensemble_or_for_r2_are_warned_about_or_judged_otherwise() -> None:
    estimator = sweeper.SweepRegressor(n_trials=2, epochs=2, ensemble=3)
    with pytest.warns(SweepWarning, match="no ensemble: .* are too few to select by") as caught:
        estimator.fit(X[:5], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert {one.filename for one in caught} == {__file__}
    assert estimator.results_.study["metric"] == "val_rmse"
    assert estimator.predict(X).shape == (150,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_trials": 0}, "n_trials: 0 is too small; write 1 or more"),
        ({"epochs": "10"}, "epochs: '10' is not a number of epochs; pass an integer above 0"),
        (
            {"validation_fraction": 1},
            "validation_fraction: 1 is not a share of the rows; pass a number between 0 and 1",
        ),
        (
            {"settings": {"study": {"seed": 3}}},
            "settings: study.seed: an argument has this setting; pass random_state instead",
        ),
        (
            {"settings": {"search": {"model": {"width": {"type": "int", "low": 8, "high": 9}}}}},
            "settings: search.model: an argument has this setting; pass search instead",
        ),
        (
            {"settings": {"search.model.width": {"type": "int", "low": 8, "high": 9}}},
            "settings: search.model.width: an argument has this setting; pass search instead",
        ),
        (
            {"settings": {"study.prunner": None}},
            "settings: study.prunner: no such setting; did you mean 'study.pruner'?",
        ),
        ({"settings": ["x"]}, "settings: ['x'] is not a mapping; pass a dict of settings"),
        (
            {"settings": {"results": {"keep_models": 0}}},
            "settings: results.keep_models: 0 keeps no model to predict with; write 1 or more",
        ),
        (
            {"metric": "r2"},
            "metric: r2 does not fit the loss cross_entropy; write one of accuracy, "
            "balanced_accuracy, f1, auroc, average_precision, log_loss, or "
            "settings={'train.loss': 'mse'}",
        ),
        (
            {"settings": {"data.weight": "w"}},
            "settings: data.weight: fit sets it; remove it",
        ),
        (
            {"settings": {"train.batchsize": 3}},
            "settings: train.batchsize: no such setting; did you mean 'train.batch_size'?",
        ),
        (
            {"settings": {"train.epoch": 3}},
            "settings: train.epoch: no such setting; did you mean 'epochs'?",
        ),
        (
            {"search": {"model.dept": {"type": "int", "low": 1, "high": 2}}},
            "search: model.dept: no such setting; did you mean 'model.depth'?",
        ),
        (
            {"metric": "own:error"},
            "metric: own:error is a function, so it is not known whether higher is better; pass "
            "settings={'study.direction': 'minimize'}, or 'maximize'",
        ),
        (
            {"metric": "error", "settings": {"train.metrics": ["own:error"]}},
            "metric: error is a function, so it is not known whether higher is better; pass "
            "settings={'study.direction': 'minimize'}, or 'maximize'",
        ),
        (
            {"metric": load_iris},
            f"metric: {load_iris!r} is not the name of a metric; pass "
            "'sklearn.datasets._base:load_iris', and settings={'study.direction': 'minimize'} or "
            "'maximize'",
        ),
        (
            {"metric": 3},
            "metric: 3 is not the name of a metric; pass the name of a built-in one, or "
            "'module:function' for your own function",
        ),
    ],
)
def test_an_argument_that_makes_no_study_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError) as caught:
        sweeper.SweepClassifier(**given).fit(X, Y)
    assert str(caught.value) == message
    assert isinstance(caught.value, ValueError)


def test_constraints_that_no_trial_meets_are_named() -> None:
    settings = {"study.constraints": [{"metric": "val_loss", "max": 1e-9}]}
    with pytest.raises(FitError, match=r"no trial meets settings\['study.constraints'\]"):
        sweeper.SweepClassifier(n_trials=2, epochs=1, settings=settings).fit(X, Y)


@pytest.mark.parametrize(
    ("rows", "targets", "message"),
    [
        (X[:1], Y[:1], "1 sample"),
        (X, np.zeros(150), "only one class: np.float64"),
        (X, X[:, 0], "Unknown label type: continuous"),
        (X, None, "requires y to be passed"),
        (np.where(X > 5.0, np.inf, X), Y, "contains infinity"),
        (X[:, :1] * [[np.nan]], Y, "column 'x0' of the DataFrame has no value in any row"),
    ],
)
def test_rows_that_cannot_be_learnt_are_a_value_error(
    rows: Any, targets: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sweeper.SweepClassifier(**SMALL).fit(rows, targets)


def test_sparse_tables_are_refused() -> None:
    dense = pd.DataFrame(X, columns=[*"abcd"])
    with pytest.raises(ValueError, match=r"4 sparse columns, .*\.sparse\.to_dense\(\)"):
        sweeper.SweepClassifier(**SMALL).fit(dense.astype(pd.SparseDtype(float, 0.0)), Y)
    with pytest.raises(TypeError, match="dense data is required"):
        sweeper.SweepClassifier(**SMALL).fit(csr_matrix(X), Y)


def test_a_class_that_only_rows_of_weight_0_have_is_not_learnt() -> None:
    with pytest.raises(ValueError, match="only one class of nonzero sample_weight"):
        sweeper.SweepClassifier(**SMALL).fit(X, Y == 2, sample_weight=Y == 2)


@pytest.mark.parametrize(
    ("labels", "given"),
    [
        ([5, 7], {"data.class_weights": {7: 9.0}}),
        ([5, 7], {"data": {"class_weights": {"7": 9.0}}}),
        ([1, 2], {"data.class_weights.2": 9.0}),
        ([False, True], {"data.class_weights": {True: 9.0}}),
        ([1.0, 2.0], {"data.class_weights": {2: 9.0}}),
        (["0", "7"], {"data.class_weights": {"7": 9.0}}),
    ],
)
def test_weights_of_classes_are_by_their_labels(labels: list[Any], given: dict[str, Any]) -> None:
    given = {**SMALL["settings"], **given}
    estimator = sweeper.SweepClassifier(**{**SMALL, "epochs": 1, "settings": given})
    fitted = estimator.fit(X, np.array(labels)[(Y == 2).astype(int)])
    second = str(int(labels[1])) if isinstance(labels[1], float) else str(labels[1])
    assert fitted.results_.study["settings"]["data"]["class_weights"] == {second: 9.0}


@pytest.mark.parametrize(
    "labels",
    [
        [10, 20],
        [-1, 1],
        [9.0, 10.0],
        [2.0**60, 2.0**61],
        [False, True],
        ["b", "c"],
        np.array([9, 10], np.uint8),
        np.array([2**60, 2**60 + 1]),
    ],
)
def test_the_model_of_a_classifier_predicts_labels(labels: Any) -> None:
    fitted = sweeper.SweepClassifier(**SMALL | {"epochs": 30, "ensemble": 2})
    fitted.fit(X, (y := np.array(labels)[(Y > 0).astype(int)]))
    assert fitted.score(X, y) > 0.8
    assert fitted.classes_.tolist() == [*np.array(labels)]
    assert fitted.model_.predict(X).tolist() == fitted.predict(X).tolist()


def test_a_classifier_takes_many_labels_that_are_floats() -> None:
    labels = np.arange(len(X)) % 25 * 1.0
    fitted = sweeper.SweepClassifier(**SMALL).fit(X, labels)
    assert {*fitted.predict(X)} <= {*labels}
    assert fitted.predict_proba(X).shape == (len(X), 25)


def test_a_classifier_predicts_days_though_its_study_gets_their_codes() -> None:
    days = np.array(["2026-01-31", "2026-02-01"], "datetime64[D]")[(Y > 0).astype(int)]
    fitted = sweeper.SweepClassifier(**SMALL).fit(X, days)
    assert fitted.classes_.tolist() == [*np.unique(days).astype("datetime64[s]").tolist()]
    codes = fitted.model_.predict(X)
    assert np.array_equal(fitted.classes_[codes], fitted.predict(X))


def test_a_study_of_an_earlier_edition_resumes_with_codes_of_classes(tmp_path: Path) -> None:
    y = np.array([10, 20, 30])[Y]
    given = {**SMALL["settings"], "data.class_weights": {20: 9.0}}
    estimator = sweeper.SweepClassifier(**SMALL | {"settings": given}, run_dir=tmp_path / "run")
    earlier = clone(estimator).set_params(settings={**given, "edition": 4}).fit(X, y)
    resumed = clone(estimator).fit(X, y)
    pd.testing.assert_frame_equal(resumed.results_.trials(), earlier.results_.trials())
    weights = resumed.results_.study["settings"]["data"]["class_weights"]
    assert ({*resumed.model_.predict(X)} <= {0, 1, 2}, weights) == (True, {"1": 9.0})
    assert {*resumed.predict(X)} <= {*y.tolist()}
    new = clone(estimator).set_params(run_dir=None).fit(X, y)
    assert np.array_equal(new.predict_proba(X), resumed.predict_proba(X))


def test_a_study_of_an_earlier_edition_draws_one_seed() -> None:
    settings = {**SMALL["settings"], "edition": 5}
    drawn = {"settings": settings, "random_state": np.random.RandomState(0)}
    fitted = sweeper.SweepClassifier(**SMALL | drawn).fit(X, NAMES)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    assert fitted.results_.study["settings"]["study"]["seed"] == seed


@pytest.mark.parametrize(("edition", "dtype"), [(5, np.float64), (6, np.int64)])
def test_whole_labels_are_integers_in_studies_of_newer_editions(edition: int, dtype: type) -> None:
    """Studies of edition 5 recorded the digest of the floats, and resume only with these."""
    settings = {**SMALL["settings"], "edition": edition}
    fitted = sweeper.SweepClassifier(**SMALL | {"settings": settings}).fit(X, Y * 10.0)
    assert fitted.model_.predict(X).dtype == dtype
    assert fitted.predict(X).dtype == np.float64


@pytest.mark.parametrize(
    ("name", "hint"), [("1", "the classes are 5 and 7"), (6, "the classes are 5 and 7")]
)
def test_a_weight_of_an_unknown_class_is_refused(name: Any, hint: str) -> None:
    estimator = sweeper.SweepClassifier(settings={"data.class_weights": {name: 2.0}})
    with pytest.raises(FitError) as caught:
        estimator.fit(X, np.where(Y == 2, 7, 5))
    assert str(caught.value) == f"settings: data.class_weights.{name}: no class '{name}'; {hint}"


def test_an_estimator_predicts_only_once_it_is_fitted() -> None:
    estimator = sweeper.SweepClassifier()
    for method in (estimator.predict, estimator.predict_proba):
        with pytest.raises(NotFittedError):
            method(X)
    assert not hasattr(estimator, "model_")


def test_none_in_a_mapping_omits_what_init_would_write() -> None:
    rows = pd.DataFrame({"x": X[:, 0], "y": X[:, 1]})
    tables = {"study.pruner": None, "results": {"ensemble": None}}
    study = sweeper.load_study(tables, data=rows, target="y")
    assert (study.study.pruner.name, study.results.ensemble) == ("none", None)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["a", "b", None], "contains 20 missing labels, such as that of row 2 .* leave these rows"),
        ([1, 2, None], "contains 20 missing labels, such as that of row 2 .* leave these rows"),
        ([1, "a", "b"], "contains labels of the types int and str; convert them all"),
    ],
)
def test_labels_that_cannot_be_sorted_are_refused(labels: list[Any], found: str) -> None:
    y = np.array(labels * 20, object)
    with pytest.raises(ValueError, match=found):
        sweeper.SweepClassifier(2, 1).fit(np.zeros((60, 2)), y)
