"""A study with weights of rows: its results, models, ensemble and simple models count them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn import metrics as sk
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge

import sweeper
from sweeper.cli import plan_tables
from sweeper.export.ensemble import measure_ensemble
from sweeper.preflight.preview import data_preview
from sweeper.programs.baseline import measure_baseline
from sweeper.results.ensemble import EnsembleRecord
from sweeper.rundir import RunDir
from tests.in_process import prepared, study_in, trained
from tests.small_studies import DIGITS

SOURCE = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\ndrop = ["price"]\nweight = "w"\n'
STUDY = DIGITS.replace('source = "sklearn"\nname = "digits"\n', SOURCE)
OVERRIDES = (
    *("study.n_trials=3", "study.metric=val_auroc", "study.direction=maximize"),
    *("results.keep_models=3", "train.metrics=['accuracy','auroc']", "train.epochs=4"),
    *("train.loss=binary_cross_entropy",),
    *("search.optimizer.lr={type='float', low=1e-3, high=1e-2}", "train.batch_size=32"),
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The configuration, the results, and the exported best trial of a finished study."""
    directory = tmp_path_factory.mktemp("weights")
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 2))
    table = pd.DataFrame(x, columns=["a", "b"]).assign(price=x[:, 0] + rng.normal(size=400))
    table = table.assign(kind=np.where(table.price > x[:, 1], "yes", "no"))
    table = table.assign(w=rng.exponential(size=400) * (rng.random(400) < 0.8))
    table.to_csv(directory / "rows.csv", index=False)
    config = study_in(directory, STUDY, *OVERRIDES)
    results = trained(config)
    sweeper.command("export", str(config.run_dir), "best", "--to", str(directory / "best"))
    return config, results, sweeper.load(directory / "best")


@pytest.fixture(scope="module")
def ensemble(study: Any) -> EnsembleRecord:
    return measure_ensemble(RunDir(study[0].run_dir), 4)


def test_published_metrics_are_weighted(study: Any) -> None:
    config, results, saved = study
    data = prepared(config)
    best = results.trials().sort_values("value").iloc[-1]
    for part, prefix in (("val", "final_val"), ("test", "test")):
        y, weights = data.targets(part), data.weights(part)
        odds = logits(saved, data, part)
        sure = 1 / (1 + np.exp(-odds))
        expected = {
            "accuracy": sk.accuracy_score(y, odds > 0, sample_weight=weights),
            "auroc": sk.roc_auc_score(y, odds, sample_weight=weights),
            "loss": sk.log_loss(y, sure, sample_weight=weights),
        }
        for name, value in expected.items():
            assert best[f"{prefix}_{name}"] == pytest.approx(value, rel=1e-5), (part, name)


def logits(saved: Any, data: Any, part: str) -> Any:
    import jax

    return np.asarray(jax.vmap(saved.model)(getattr(data, f"x_{part}")))[:, 0]


def test_predictions_need_no_weights(study: Any, capsys: pytest.CaptureFixture[str]) -> None:
    config, _, saved = study
    whole = pd.read_csv(config.base_dir / "rows.csv")
    whole.to_csv(config.base_dir / "with.csv", index=False)
    whole[["a", "b"]].to_csv(config.base_dir / "without.csv", index=False)
    model = str(config.base_dir / "best")
    for name in ("with", "without"):
        rows, output = (str(config.base_dir / f"{name}{end}") for end in (".csv", "-out.csv"))
        sweeper.command("predict", model, rows, "-o", output)
        found = pd.read_csv(output)
        assert list(found.iloc[:, 0]) == list(saved.predict(whole[["a", "b"]]))
    assert "not used" not in capsys.readouterr().err
    assert "| weights of rows | w |" in Path(model, "README.md").read_text("utf-8")


def test_simple_models_are_fitted_and_measured_by_weight(study: Any) -> None:
    config, _, _ = study
    data = prepared(config)
    fitted = LogisticRegression(max_iter=1000).fit(data.x_train, data.y_train, data.w_train)
    constant, linear = measure_baseline(config, data).models
    weights = data.w_val
    share = np.average(data.y_train, weights=data.w_train)
    found = {"linear": linear.scores, "constant": constant.scores}
    for name, sure in {
        "linear": fitted.predict_proba(data.x_val)[:, 1],
        "constant": np.full(len(data.y_val), share),
    }.items():
        expected = sk.log_loss(data.y_val, sure, sample_weight=weights)
        assert found[name]["val_loss"] == pytest.approx(expected, rel=1e-5), name
    numbers = sweeper.load_study(
        config.base_dir / "study.toml",
        [
            *("data.target=price", "data.drop=['kind']", "train.loss=mse", "train.metrics=['r2']"),
            *("study.metric=val_r2", "data.split.stratify=false", "study.folds=2", "search={}"),
        ],
    )
    data = prepared(numbers)
    scores = []
    for fold in range(2):
        seen, judged = data.fold_of != fold, data.fold_of == fold
        x = data.x_train * data.fold_scale[fold] + data.fold_shift[fold]
        ridge = Ridge().fit(x[seen], data.y_train[seen], data.w_train[seen])
        own = data.y_train[judged], ridge.predict(x[judged])
        scores.append(sk.r2_score(*own, sample_weight=data.w_train[judged]))
    found = measure_baseline(numbers, data).models[1].scores
    assert found["val_r2"] == pytest.approx(np.mean(scores), rel=1e-5)


def test_an_ensemble_is_measured_by_weight(study: Any, ensemble: EnsembleRecord) -> None:
    config, _, saved = study
    data = prepared(config)
    assert ensemble.test is not None
    single = sk.roc_auc_score(data.y_test, logits(saved, data, "test"), sample_weight=data.w_test)
    trees = HistGradientBoostingClassifier(random_state=config.study.seed)
    trees.fit(data.x_train, data.y_train, data.w_train)
    sure = trees.predict_proba(data.x_test)[:, 1]
    of_trees = sk.roc_auc_score(data.y_test, sure, sample_weight=data.w_test)
    assert ensemble.test.rows == np.count_nonzero(data.w_test) < len(data.w_test)
    assert ensemble.validation.rows == np.count_nonzero(data.w_val) < len(data.w_val)
    assert ensemble.test.single == pytest.approx(single, rel=1e-5)
    assert ensemble.test.trees == pytest.approx(of_trees, rel=1e-5)


def test_plan_names_the_column(study: Any) -> None:
    config, _, _ = study
    shown = plan_tables._data(data_preview(config, prepared(config)))
    with (console := Console(width=120)).capture() as text:
        console.print(next(iter(shown)))
    assert "of rows in 'w'" in text.get()
