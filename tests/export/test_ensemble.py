"""Trials whose predictions are averaged: how they are selected, measured, exported and used."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, log_loss, r2_score

import sweeper
from sweeper.cli.trial_tables import ensemble_again
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views.status import status_view
from sweeper.data.transform import Category, Transform
from sweeper.errors import SetupError, StudyError
from sweeper.export import export
from sweeper.export.confirm import finalists, rank_finalists
from sweeper.export.ensemble import (
    Targets,
    candidates,
    measure_again,
    measure_ensemble,
    not_repeatable,
    score_of,
    select,
)
from sweeper.export.ensemble_directory import export_ensemble
from sweeper.results.ensemble import (
    EnsembleMember,
    EnsembleRecord,
    Gain,
    better_trees,
    confirmation,
    latest_verdicts,
    read_ensemble,
    verdict,
    verdicts,
    write_ensemble,
)
from sweeper.results.events import Event, RoundClosed, Warned
from sweeper.results.listing import read_trials
from sweeper.results.read import open_results
from sweeper.results.status import read_status, write_status
from sweeper.rundir import RunDir
from tests.damaged import copy_of
from tests.in_process import prepared, study_in, trained
from tests.small_studies import DIGITS

CLASSES = (
    *("study.n_trials=6", "results.keep_models=6", "train.epochs=3", "study.metric=val_accuracy"),
    *("study.direction=maximize", "search.optimizer.lr={type='float', low=1e-3, high=1e-2}"),
    *(
        "data.name=wine",
        "data.split.val=0.3",
        "train.batch_size=16",
    ),  # few rows and classes, for boosted trees
)
NUMBERS = (
    *("data.name=diabetes", "data.split.stratify=false", "train.loss=mse", "train.metrics=['r2']"),
    "study.metric=val_r2",
)
ONE_LOGIT = ("data.name=breast_cancer", "train.loss=binary_cross_entropy", "study.metric=val_loss")
STUDIES = {
    "classes": CLASSES,
    "numbers": (*CLASSES, *NUMBERS),
    "one logit": (*CLASSES, *ONE_LOGIT, "study.direction=minimize"),
}


@pytest.fixture(
    scope="module",
    params=["classes", "numbers", pytest.param("one logit", marks=pytest.mark.slow)],
)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The run directory of a finished study, its data and its ensemble."""
    directory = tmp_path_factory.mktemp("ensemble")
    config = study_in(directory, DIGITS, *STUDIES[request.param])
    trained(config)
    run_dir = RunDir(config.run_dir)
    record = measure_ensemble(run_dir, 8)
    write_ensemble(run_dir, record)
    return run_dir, config, record


@pytest.fixture(scope="module")
def exported(study: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("exported") / "together"
    export_ensemble(study[0].root, output)
    return output


def raw(config: Any) -> NDArray[Any]:
    """Rows of the table, before they are prepared."""
    from sklearn import datasets

    return getattr(datasets, f"load_{config.data.name}")(return_X_y=True)[0][:40]


def test_selection_adds_the_model_with_which_the_mean_is_best() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    predictions = rng.dirichlet([1, 1, 1], (7, 60)) + 0.3 * np.eye(3)[y]
    predictions /= predictions.sum(axis=-1, keepdims=True)

    def score(found: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        rows = [(accuracy_score(y, p.argmax(1)), -log_loss(y, p, labels=[0, 1, 2])) for p in found]
        return np.array(rows)

    chosen: list[int] = []
    history = []
    for _ in range(9):  # by hand, model by model
        tried = []
        for index in range(7):
            mean = np.mean([predictions[i] for i in (*chosen, index)], axis=0)
            tried.append((accuracy_score(y, mean.argmax(1)), -log_loss(y, mean, labels=[0, 1, 2])))
        chosen.append(max(range(7), key=lambda index: tried[index]))
        history.append(max(tried))
    length = 1 + history.index(max(history))

    assert select(predictions, y, 9, score) == chosen[:length]
    assert length > 2
    assert select(predictions, y, 1, score) == chosen[:1]


def test_rounding_adds_no_model() -> None:
    y = np.zeros(5, int)
    predictions = np.full((2, 5, 2), 0.5)

    def score(found: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        calls.append(len(found))  # a little better each time, as by rounding
        return np.stack([0.25 + 1e-9 * len(calls) * np.ones(2), np.zeros(2)], axis=1)

    calls: list[int] = []
    assert select(predictions, y, 5, score) == [0]


def test_an_ensemble_is_measured_as_its_members_together_predict(study: Any) -> None:
    run_dir, config, record = study
    data = prepared(config)
    models = {one.trial: one.count for one in record.members}
    assert record.candidates == 6
    assert 1 <= record.size <= 8
    outputs = {
        trial: predictions_of(run_dir, trial, data.x_test, data)
        for trial in (*models, record.single)
    }
    together = sum(count * outputs[trial] for trial, count in models.items()) / record.size
    expected = [measured(config, data, one) for one in (outputs[record.single], together)]

    assert record.test is not None
    np.testing.assert_allclose([record.test.single, record.test.ensemble], expected, rtol=1e-5)
    assert record.test.rows == len(data.x_test)
    assert record.validation.rows == len(data.x_val)


def test_boosted_trees_are_measured_on_the_same_rows(study: Any) -> None:
    _, config, record = study
    data = prepared(config)
    kind = HistGradientBoostingClassifier if data.class_names else HistGradientBoostingRegressor
    trees = kind(random_state=config.study.seed).fit(data.x_train, np.ravel(data.y_train))
    found = trees.predict(data.x_test)
    if data.class_names:
        found = trees.predict_proba(data.x_test)
    assert record.test.trees == pytest.approx(measured(config, data, found), rel=1e-4)


def test_importance_is_what_shuffling_a_column_costs(study: Any) -> None:
    _, config, record = study
    data = prepared(config)
    assert list(record.importance) == list(data.transform["columns"])
    constant = [
        name for name, x in zip(record.importance, data.x_test.T, strict=True) if not x.any()
    ]
    assert all(record.importance[name] == 0 for name in constant)
    if config.data.name == "diabetes":  # what is known about it
        best = sorted(record.importance, key=lambda name: -record.importance[name])[:3]
        assert "bmi" in best


def test_a_text_column_is_shuffled_as_a_whole() -> None:
    categories = (Category("kind", ("a", "b", None)), Category("town", ("x", "y")))
    known = Transform(("size", "kind", "town"), ("size",), (), None, categories, True, None, ())
    assert known.places() == {"size": range(1), "kind": range(1, 4), "town": range(4, 6)}
    assert replace(known, one_hot=False).places()["town"] == range(2, 3)


@pytest.mark.parametrize(
    ("trees", "way", "is_better"),
    [
        (0.95, "maximize", True),
        (0.8, "maximize", False),
        (0.8, "minimize", True),
        (None, "", False),
    ],
)
def test_trees_that_are_better_are_named(trees: float | None, way: str, is_better: bool) -> None:
    gain = Gain(200, 0.85, 0.9, 0.01, trees)
    record = EnsembleRecord("val_r2", way, 5, (EnsembleMember(3, 0, 2),), 7, gain, gain, "")
    sentence = better_trees(record)
    assert bool(sentence) is is_better
    if sentence:
        assert sentence.endswith(f"is better on test rows: r2 {trees} instead of 0.9")


def predictions_of(
    run_dir: RunDir, trial: int, x: NDArray[Any], data: Any, member: int = 0
) -> NDArray[Any]:
    place = run_dir.root.parent / f"{run_dir.root.name}-{trial}-{member}"
    if not place.exists():
        export(run_dir.root, trial, member, place)
    outputs = np.asarray(jax.vmap(sweeper.load(place).model)(x)).astype(float)
    if not data.class_names:
        return outputs
    if data.one_logit:
        outputs = np.concatenate([0 * outputs, outputs], axis=1)
    odds = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def measured(config: Any, data: Any, predictions: NDArray[Any], part: str = "test") -> float:
    y = getattr(data, f"y_{part}")
    if not data.class_names:
        return float(r2_score(y, predictions))
    if config.study.metric == "val_loss":
        return float(log_loss(y, predictions))
    return float(accuracy_score(y, predictions.argmax(axis=1)))


def test_an_exported_ensemble_is_one_model(study: Any, exported: Path, tmp_path: Path) -> None:
    _, config, record = study
    rows = raw(config)
    saved = sweeper.load(exported)
    members = {
        one.trial: sweeper.load(exported / "members" / f"trial-{one.trial:06d}")
        for one in record.members
    }
    assert saved.info["members"] == [
        {"trial": one.trial, "count": one.count} for one in record.members
    ]
    assert "models of the study 'digits'" in repr(saved)
    if saved.class_names:
        of_each = {trial: one.probabilities(rows) for trial, one in members.items()}
        mean = sum(one.count * of_each[one.trial] for one in record.members) / record.size
        np.testing.assert_allclose(saved.probabilities(rows), mean, rtol=1e-5, atol=1e-7)
    else:
        of_each = {trial: one.predict(rows) for trial, one in members.items()}
        mean = sum(one.count * of_each[one.trial] for one in record.members) / record.size
        np.testing.assert_allclose(saved.predict(rows), mean, rtol=1e-5)

    np.save(tmp_path / "rows.npy", rows)
    text = "import load, numpy; numpy.save('out.npy', load.predict(numpy.load('rows.npy')))"
    environment = {**os.environ, "PYTHONPATH": str(exported)}
    subprocess.run([sys.executable, "-c", text], cwd=tmp_path, env=environment, check=True)
    alone = np.load(tmp_path / "out.npy", allow_pickle=True)
    if saved.class_names:
        assert list(map(str, alone)) == list(map(str, saved.predict(rows)))
    else:
        np.testing.assert_allclose(alone.astype(float), saved.predict(rows), rtol=1e-5)

    columns = saved.info["data"]["transform"]["columns"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "rows.csv", index=False)
    output = tmp_path / "out.csv"
    sweeper.command("predict", str(exported), str(tmp_path / "rows.csv"), "-o", str(output))
    first = pd.read_csv(output).iloc[:, 0]
    if saved.class_names:
        likeliest = saved.probabilities(rows).argmax(axis=1)
        assert [*first.astype(str)] == [saved.class_names[index] for index in likeliest]
    else:
        np.testing.assert_allclose(first, saved.predict(rows), rtol=1e-5)
    card = (exported / "README.md").read_text(encoding="utf-8")
    assert verdict(record)[1:] in card


def test_an_ensemble_with_another_model_is_refused(exported: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    listed = json.loads((copy / "ensemble.json").read_text())
    for change, match in (
        ([{**listed["members"][0], "digest": "0"}], "another model than the ensemble was made of"),
        ([{**listed["members"][0], "name": "../../elsewhere"}], "cannot be read"),
        ([{**listed["members"][0], "count": 0}], "cannot be read"),
        ([], "names no models"),
    ):
        (copy / "ensemble.json").write_text(json.dumps({"members": change}))
        with pytest.raises(SetupError, match=match):
            sweeper.load(copy)


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        (("results.keep_models=1",), "the weights of 1 trial are kept, and an ensemble needs 2"),
        (
            ("study.metric=['val_loss','val_accuracy']", "study.direction=['minimize','maximize']"),
            "by one metric",
        ),
        (("study.metric=n_parameters",), "n_parameters is not measured on validation rows"),
        (
            (
                *("data.name=diabetes", "data.split.stratify=false", "train.loss=huber"),
                *("train.metrics=[]", "search={}"),
                "search.train.huber_delta={type='float',low=0.1,high=2.0}",
            ),
            "val_loss depends on train.huber_delta, which differs between trials",
        ),
        (
            ("train.metrics=['own:right']", "study.metric=val_right"),
            "val_right is user-defined, so means may have another meaning",
        ),
    ],
)
def test_what_cannot_be_averaged_is_refused(
    overrides: tuple[str, ...], match: str, tmp_path: Path
) -> None:
    own = "def right(outputs, y):\n    return (outputs.argmax(1) == y).mean()\n"
    (tmp_path / "own.py").write_text(own, encoding="utf-8")
    config = study_in(tmp_path, DIGITS, "study.n_trials=2", "train.epochs=1", *overrides)
    trained(config)
    with pytest.raises(StudyError, match=match):
        measure_ensemble(RunDir(config.run_dir), 4)


def test_with_folds_each_row_is_predicted_by_the_model_that_has_not_seen_it(
    tmp_path: Path,
) -> None:
    folds = ("study.folds=2", "data.split={test=0.105}", "data.scale=quantile", "study.n_trials=3")
    config = study_in(tmp_path, DIGITS, *CLASSES, *folds, "study.replicates=2")
    trained(config)
    run_dir, data = RunDir(config.run_dir), prepared(config)
    assert len({*data.rows_of_folds}) == 2  # of 159 rows
    record = measure_ensemble(run_dir, 3)

    judged: dict[tuple[int, int], NDArray[Any]] = {}
    tested: dict[tuple[int, int], NDArray[Any]] = {}
    for trial, replicate in product(range(3), range(2)):
        found = np.zeros((len(data.x_train), 3))
        means = []
        for fold in range(2):
            scale, shift, own = data.fold_scale[fold], data.fold_shift[fold], data.fold_of == fold
            member = 2 * replicate + fold
            x = data.x_train[own] * scale + shift
            found[own] = predictions_of(run_dir, trial, x, data, member)
            x = data.x_test * scale + shift
            means.append(predictions_of(run_dir, trial, x, data, member))
        judged[trial, replicate], tested[trial, replicate] = found, np.mean(means, axis=0)
    assert record.folds == 2
    assert record.candidates == 6
    chosen = {(one.trial, one.member // 2): one.count for one in record.members}
    assert len(record.members) == 2 * len(chosen)
    assert sum(chosen.values()) == record.size == sum(record.weights.values())
    mean = sum(count * tested[one] for one, count in chosen.items()) / record.size
    assert record.test is not None
    values = [measured(config, data, one) for one in (tested[record.single, 0], mean)]
    np.testing.assert_allclose([record.test.single, record.test.ensemble], values, rtol=1e-5)

    one = measure_ensemble(run_dir, 1)
    rows = np.random.default_rng(config.study.seed).permutation(len(data.x_train))
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    is_right = {key: p.argmax(axis=1) == data.y_train for key, p in judged.items()}
    right = 0
    for seen, own in (halves, halves[::-1]):
        y = data.y_train[seen]
        by = {key: (is_right[key][seen].sum(), -log_loss(y, judged[key][seen])) for key in judged}
        right += is_right[max(by, key=by.__getitem__)][own].sum()
    assert one.validation.single == pytest.approx(right / len(rows))

    write_ensemble(run_dir, record)
    export_ensemble(run_dir.root, tmp_path / "out")
    saved = sweeper.load(tmp_path / "out")
    features = [
        sweeper.load(tmp_path / "out" / "members" / run_dir.model(one.trial, one.member).stem)
        for one in record.members
    ]
    of_each = [model.probabilities(raw(config)) for model in features]
    counts = [one.count for one in record.members]
    expected = np.average(of_each, axis=0, weights=counts)
    np.testing.assert_allclose(saved.probabilities(raw(config)), expected, rtol=1e-5, atol=1e-6)
    two = tuple(EnsembleMember(trial, member, 1) for trial in (0, 1) for member in (0, 1))
    assert not_repeatable(replace(record, members=two)) == ""
    repeated = (*two, EnsembleMember(0, 2, 1), EnsembleMember(0, 3, 1))
    assert not_repeatable(replace(record, members=repeated)) != ""


def test_an_ensemble_that_was_not_selected_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no ensemble was selected"):
        export_ensemble(tmp_path, tmp_path / "out")
    with pytest.raises(SetupError, match="no such directory"):
        export_ensemble(tmp_path / "nope", tmp_path / "out")


def test_a_study_averages_its_models_at_the_end_if_asked(tmp_path: Path) -> None:
    config = study_in(tmp_path, DIGITS, *CLASSES, "results.ensemble=4")
    trained(config)
    run_dir = RunDir(config.run_dir)
    chosen = read_ensemble(run_dir)
    assert chosen is not None
    assert chosen == measure_ensemble(run_dir, 4)
    assert read_status(run_dir).spent_s["ensemble"] > 0
    spans = open_results(run_dir.root).spans()
    assert (spans["activity"] == "ensemble").sum() == 1


def test_an_ensemble_of_fewer_trials_is_to_be_selected_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # paths are not wrapped
    few = study_in(tmp_path, DIGITS, *CLASSES, "study.n_trials=2", "results.ensemble=4")
    root = trained(few).run_dir.root
    run_dir = RunDir(root)
    record = read_ensemble(run_dir)
    assert record is not None

    def said_by(*words: str) -> str:
        capsys.readouterr()
        sweeper.command(*words)
        return capsys.readouterr().out.replace("\n", " ")

    def verdicts_of_page() -> str:
        (shown,) = (b for b in status_view(PublishedStudy(run_dir)) if b["kind"] == "facts")
        return dict(shown["items"])["ensemble"]

    export_again = f"export ensemble  python -m sweeper export {root} ensemble"
    best = said_by("best", str(root))
    assert verdict(record) in best
    assert export_again in best
    assert verdicts_of_page().startswith(verdict(record))

    status = read_status(run_dir)
    write_status(run_dir, replace(status, state="running", host="elsewhere"))
    write_ensemble(run_dir, replace(record, completed=1))
    late = "the ensemble was selected when 1 trial had completed, and 2 have now; the study is "
    late += "running, and selects it again when it finishes"
    assert late in said_by("best", str(root))
    assert verdicts_of_page() == late
    write_ensemble(run_dir, record)
    write_status(run_dir, status)

    trained(study_in(tmp_path, DIGITS, *CLASSES, "study.n_trials=3"))
    late = "the ensemble was selected when 2 trials had completed, and 3 have now; "
    late += f"select it again: python -m sweeper ensemble {root}"
    best = said_by("best", str(root))
    assert late in best
    assert verdict(record) not in best
    assert export_again not in best
    assert verdicts_of_page() == late
    assert late in said_by("export", str(root), "ensemble", "--to", str(tmp_path / "out"))
    undated = replace(record, completed=None)
    assert latest_verdicts(undated, run_dir, 3, few.canonical()) == verdicts(record)

    two = replace(record, members=tuple(EnsembleMember(trial, 0, 1) for trial in (0, 1)))
    write_ensemble(run_dir, two)
    assert late in said_by("confirm", str(root), "--ensemble", "--seeds", "2", "--quiet")

    def incomplete(*_: object, **__: object) -> None:
        raise StudyError("trial 1 did not complete")

    monkeypatch.setattr("sweeper.export.ensemble.measure_again", incomplete)
    for more, shown in (((), "finalists, each with 2 fresh seeds"), (("--json",), '"finalists"')):
        with pytest.raises(StudyError, match="trial 1 did not complete"):
            said_by("confirm", str(root), "--ensemble", "--seeds", "2", "--quiet", *more)
        assert shown in capsys.readouterr().out

    run_dir.saved(record.members[0].trial).unlink()
    found = f"the weights of trial {record.members[0].trial} are not kept, but the ensemble "
    found += "averages them; select one with: python -m sweeper ensemble "
    with pytest.raises(StudyError, match=found):
        export_ensemble(root, tmp_path / "again")


def test_an_ensemble_that_cannot_be_recorded_is_shown(
    study: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = copy_of(study[0], tmp_path / "run")
    run_dir.ensemble.unlink()
    shutil.rmtree(run_dir.staging, ignore_errors=True)
    run_dir.staging.touch()  # no directory can be made here, as on a read-only disk

    with pytest.raises(SetupError, match="cannot be written"):
        sweeper.command("ensemble", str(run_dir.root), "--size", "8")

    shown = capsys.readouterr().out
    assert "selected from 6 models, by weight" in shown
    assert "sweeper export" not in shown


def test_a_study_ends_even_if_its_models_cannot_be_averaged(tmp_path: Path) -> None:
    """The model fails as if memory had run out, once all trials are committed."""
    net = """
import pathlib

import equinox as eqx


class Net(eqx.Module):
    inner: eqx.nn.MLP

    def __call__(self, x):
        if (pathlib.Path(__file__).parent / "full").exists():
            raise MemoryError("no memory is left")
        return self.inner(x)


def build(in_size, out_size, key):
    return Net(eqx.nn.MLP(in_size, out_size, 4, 1, key=key))
"""
    (tmp_path / "full_nets.py").write_text(net, encoding="utf-8")
    few = "study.n_trials=2", "train.epochs=1", "schedule.parallel=2", "results.ensemble=2"
    model = "model={kind='python', function='full_nets:build'}"
    rates = "search={optimizer.lr={type='float', low=1e-3, high=1e-2}}"
    config = study_in(tmp_path, DIGITS, *CLASSES, model, rates, *few)
    told: list[str] = []

    def observe(event: Event) -> None:
        if isinstance(event, RoundClosed):
            (tmp_path / "full").touch()
        told.extend([event.message] if isinstance(event, Warned) else [])

    assert sweeper.run(config, observer=observe).state == "finished"
    said = "no ensemble: MemoryError: no memory is left; to try again: python -m sweeper ensemble "
    assert [one.removeprefix(said) for one in told if "ensemble" in one] == [str(config.run_dir)]


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        (("study.metric=val_loss", "study.direction=minimize"), -np.log(3)),
        (("study.metric=val_auroc", "train.metrics=['auroc']"), -np.inf),  # of a single class
    ],
)
def test_a_model_without_a_value_of_the_metric_is_the_worst(
    settings: tuple[str, ...], value: float, tmp_path: Path
) -> None:
    config = study_in(tmp_path, DIGITS, *CLASSES, *settings)
    y = Targets(np.zeros(40, int), None)
    predictions = np.stack([np.full((40, 3), np.nan), np.full((40, 3), 1 / 3)])
    score = score_of(config, prepared(config))
    expected = [[-np.inf, -np.inf], [value, -np.log(3)]]
    np.testing.assert_allclose(score(predictions, y), expected, rtol=1e-6)
    assert select(predictions, y, 1, score) == [1]


FAR = """
import equinox as eqx
import jax.numpy as jnp


class Net(eqx.Module):
    inner: eqx.nn.MLP
    sign: int = eqx.field(static=True)

    def __call__(self, x):
        return jnp.where(x[0] > 50, self.sign * jnp.inf, self.inner(x))


def build(in_size, out_size, sign, key):
    return Net(eqx.nn.MLP(in_size, out_size, 4, 1, key=key), sign)
"""


@pytest.mark.parametrize(("kind", "n_test"), [("classes", 40), ("numbers", 40), ("classes", 0)])
def test_rows_without_a_value_of_the_metric_are_not_compared(
    kind: str, n_test: int, tmp_path: Path
) -> None:
    """Predictions for test rows are infinite, or the study has no test rows."""
    (tmp_path / "far_nets.py").write_text(FAR, encoding="utf-8")
    rng = np.random.default_rng(0)
    parts = ["train"] * 60 + ["val"] * 60 + ["test"] * n_test
    x, other = rng.random((2, len(parts)))
    table = pd.DataFrame({"x": x, "other": other, "part": parts})
    table["y"] = table["x"] + table["other"]
    if kind == "classes":
        table["y"] = np.where(table["y"] > 1, "much", "little")
    table.loc[table["part"] == "test", "x"] = 1000.0
    table.to_csv(tmp_path / "rows.csv", index=False)
    more = (
        "data={source='csv', path='rows.csv', target='y', split={column='part'}}",
        "model={kind='python', function='far_nets:build', sign=1}",
        "search={model.sign={type='categorical', choices=[-1, 1]}}",
        "study.sampler={name='grid'}",
        "study.n_trials=2",
        "train.batch_size=20",
    )
    config = study_in(tmp_path, DIGITS, *STUDIES[kind], *more)
    trained(config)
    run_dir = RunDir(config.run_dir)
    with candidates(run_dir) as (_, _, found):
        assert not np.isfinite(found.test).any()
    record = measure_ensemble(run_dir, 4)
    assert (record.test, record.importance) == (None, {})

    two = replace(record, members=tuple(EnsembleMember(trial, 0, 1) for trial in (0, 1)))
    again = finalists(run_dir, 1, 2, two)
    trained(again.config)
    parts = measure_again(again.config, two, [int(row["trial_number"]) for row in again.rows])
    assert [one.part for one in parts] == ["validation"]
    had_test = replace(two, test=two.validation)
    missing = f"{record.metric_name} has no value on {{}} rows with some of these seeds"
    assert [*ensemble_again((), had_test)] == [*map(missing.format, ("validation", "test"))]
    first, *_, last = ensemble_again(parts, had_test)
    assert (first, last) == (missing.format("test"), confirmation(parts[0], two))


def test_an_ensemble_is_measured_again_with_fresh_seeds(study: Any, tmp_path: Path) -> None:
    run_dir, config, record = study
    others = read_trials(run_dir).best(6)[:0:-1]  # the worst first
    members = tuple(EnsembleMember(others[index], 0, count) for index, count in ((0, 1), (1, 2)))
    two = replace(record, members=members)
    found = finalists(run_dir, 1, 2, two)
    numbers = [row["trial_number"] for row in found.rows]
    assert sorted(numbers) == sorted({record.single, *others[:2]})
    again = RunDir(trained(found.config).run_dir.root)
    ranks = {row["trial"]: row["rank_before"] for row in rank_finalists(found)}
    assert ranks == {record.single: 1, others[1]: 5, others[0]: 6}

    data = prepared(config)
    new = [numbers.index(one) for one in (record.single, *others[:2])]
    for part, x, y in (("val", data.x_val, data.y_val), ("test", data.x_test, data.y_test)):
        each = [[predictions_of(again, trial, x, data, seed) for seed in (0, 1)] for trial in new]
        means = [(first + 2 * second) / 3 for first, second in zip(*each[1:], strict=True)]
        expected = [[measured(config, data, one, part) for one in of] for of in (each[0], means)]
        (one,) = (m for m in measure_again(found.config, two, numbers) if m.part.startswith(part))
        np.testing.assert_allclose([one.single, one.ensemble], expected, rtol=1e-5)
        assert one.rows == len(y)
    assert not_repeatable(two) == ""
    alone = replace(record, members=(EnsembleMember(record.single, 0, 3),))
    assert not_repeatable(alone) == f"the ensemble is trial {record.single} alone"
    for trial in (others[0], record.single):
        members = tuple(EnsembleMember(trial, member, member + 1) for member in (0, 1))
        assert "replicates of one trial" in not_repeatable(replace(record, members=members))
    with pytest.raises(StudyError, match=r"trial 99 did not complete .*--seeds N --fresh"):
        measure_again(found.config, two, [*numbers, 99])
    text = confirmation(measure_again(found.config, two, numbers)[-1], two)
    assert text.startswith("with fresh seeds, the ensemble is ")


@pytest.mark.slow
def test_test_rows_of_one_class_have_no_auroc_to_compare(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kinds = np.where(np.arange(400) < 4, "rare", "usual")
    pd.DataFrame({"x": rng.random(400), "kind": kinds}).to_csv(tmp_path / "rows.csv", index=False)
    data = "data={source='csv',path='rows.csv',target='kind',split={val=0.4,test=0.05}}"
    metric = "study.metric=val_auroc", "train.metrics=['auroc']", "train.batch_size=32"
    config = study_in(tmp_path, DIGITS, *CLASSES, data, *metric, "results.ensemble=4")
    trained(config)
    chosen = read_ensemble(RunDir(config.run_dir))
    assert chosen is not None
    assert chosen.test is None
    assert chosen.importance == {}


def test_the_page_says_what_the_ensemble_gains(study: Any) -> None:
    run_dir, _, record = study
    (shown,) = (b for b in status_view(PublishedStudy(run_dir)) if b["kind"] == "facts")
    assert dict(shown["items"])["ensemble"].startswith(verdict(record))


def test_a_study_that_cannot_be_averaged_begins_with_a_warning(tmp_path: Path) -> None:
    more = "study.metric=n_parameters", "results.ensemble=4"
    config = study_in(tmp_path, DIGITS, "study.n_trials=2", "train.epochs=1", *more)
    events: list[object] = []
    status = sweeper.run(config, observer=events.append)
    assert status.state == "finished"
    assert [one.message for one in events if isinstance(one, Warned)] == [
        "results.ensemble = 4 changes nothing: n_parameters is not measured on "
        "validation rows, which select an ensemble; remove it"
    ]
    assert not RunDir(config.run_dir).ensemble.exists()


def test_an_ensemble_of_the_best_trial_alone_is_called_so() -> None:
    gain = Gain(200, 0.8, 0.8, 0.0)
    record = EnsembleRecord("val_r2", "maximize", 5, (EnsembleMember(7, 0, 1),), 7, gain, gain, "")
    assert verdict(record).startswith("the ensemble is trial 7 alone: no average of the 5 kept")


def test_a_best_trial_without_a_model_is_named() -> None:
    record = record_of(0.8, 0.9, 0.01, "maximize")
    for best in (None, record.single):
        assert verdicts(replace(record, best=best)) == [verdict(record)]
    assert verdicts(replace(record, best=2))[1:] == [
        "the best trial here is trial 7, the best of those whose models are kept; that of trial 2, "
        "the best of the study, is not"
    ]


def test_too_few_complete_trials_are_named_as_the_reason(tmp_path: Path) -> None:
    config = study_in(tmp_path, DIGITS, "study.n_trials=1", "train.epochs=1")
    trained(config)
    with pytest.raises(StudyError, match="1 trial completed, and an ensemble needs 2; let more"):
        measure_ensemble(RunDir(config.run_dir), 4)


def test_trials_that_violate_a_constraint_are_neither_averaged_nor_finalists(
    tmp_path: Path,
) -> None:
    met = "study.constraints=[{metric='val_loss', max=0.58}]"
    config = study_in(tmp_path, DIGITS, *CLASSES, met)
    trained(config)
    rows = sweeper.open_results(config.run_dir).trials()
    assert rows["feasible"].sum() == 3
    assert len(rows) == 6

    run_dir = RunDir(config.run_dir)
    with candidates(run_dir) as (_, _, found):
        assert {number for number, _ in found.models} == {*rows["trial_number"][rows["feasible"]]}
    again = finalists(run_dir, 6, 2).rows
    assert {row["trial_number"] for row in again} == {*rows["trial_number"][rows["feasible"]]}
    best, *others = read_trials(run_dir).best(3)
    run_dir.saved(best).unlink()
    record = measure_ensemble(run_dir)
    assert (record.best, record.single) == (best, others[0])
    run_dir.saved(others[0]).unlink()
    with pytest.raises(StudyError, match="the weights of 1 trial are kept, and an ensemble needs"):
        measure_ensemble(run_dir)


def record_of(single: float, ensemble: float, error: float | None, way: str) -> EnsembleRecord:
    gain = Gain(200, single, ensemble, error)
    return EnsembleRecord("val_r2", way, 5, (EnsembleMember(3, 0, 2),), 7, gain, gain, "")


@pytest.mark.parametrize(
    ("single", "ensemble", "error", "way", "expected"),
    [
        (
            0.8,
            0.9,
            0.01,
            "maximize",
            "the ensemble is better than trial 7 by 0.1 in r2 on 200 test rows",
        ),
        (0.8, 0.81, 0.01, "maximize", "that may be luck"),
        (0.9, 0.8, 0.01, "maximize", "the ensemble is worse than trial 7"),
        (0.9, 0.8, 0.01, "minimize", "the ensemble is better than trial 7"),
        (
            0.8,
            0.9,
            None,
            "maximize",
            "better than the best trial, by 0.1 in r2 on 200 validation rows",
        ),
        (0.8, 0.8, 0.0, "maximize", "the ensemble is as good as trial 7 in r2 on 200 test rows"),
    ],
)
def test_a_gain_within_two_standard_errors_may_be_luck(
    single: float, ensemble: float, error: float | None, way: str, expected: str
) -> None:
    assert expected in verdict(record_of(single, ensemble, error, way))
