"""Weights of rows count in the loss and in metrics, in every kind of class and in folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn import metrics as sk
from sklearn.preprocessing import label_binarize

from sweeper.config import parse
from sweeper.executors.trainer import Trainer
from sweeper.programs.data_spec import data_spec
from sweeper.programs.losses import ERRORS, mean_of, weighted_mean
from sweeper.programs.metrics import METRICS, metric_of
from tests.programs import plain
from tests.programs.conftest import STUDY, Bench, spec

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
ADAM = optax.adam(1e-3)
TRIAL = spec(5, depth=2, width=16, activation="relu", lr=1e-3, weight_decay=0.0)
COMPANION = spec(1, **{**TRIAL.params, "lr": 2e-3})
N = 240


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, 3))
    kinds = np.array(["a", "b", "c"])[np.argmax(x + rng.normal(size=(N, 3)), axis=1)]
    table = pd.DataFrame(x, columns=["x0", "x1", "x2"])
    table["kind"], table["flag"] = kinds, kinds == "a"
    table["price"], table["cost"] = 9 + x[:, 0] * 4 + rng.normal(size=N), x @ [1, 2, 3]
    table["w"] = rng.integers(0, 4, N)
    return table


COLUMNS = ("kind", "flag", "price", "cost")


@pytest.fixture
def weighted(tmp_path: Path) -> Callable[..., Bench]:
    """Makes a bench for a target of the table."""
    rows().to_csv(tmp_path / "rows.csv", index=False)

    def make(target: str, *overrides: str, weight: str = 'weight = "w"\n') -> Bench:
        names = target.split(",")
        drop = [name for name in COLUMNS if name not in names]
        data = f'source = "csv"\npath = "rows.csv"\ntarget = {names}\ndrop = {drop}\n{weight}'
        text = STUDY.replace('source = "sklearn"\nname = "digits"\n', data)
        changes = ["train.batch_size=24", "data.split.stratify=false", *overrides]
        return Bench(parse(text, tmp_path / "study.toml", changes), tmp_path)

    return make


def mean(errors: Any, weights: Any) -> Any:
    total = jnp.sum(weights)
    return jnp.sum(weights * errors) / jnp.where(total > 0, total, 1)


def score_of(function: Callable[..., float], choose: Callable[[Any], Any]) -> Any:
    """A score of scikit-learn for what `choose` returns for the outputs."""

    def score(outputs: Any, target: Any) -> float:
        y, weights = target
        return function(y, np.asarray(choose(outputs)), sample_weight=weights)

    return score


def of_f1(y: Any, predicted: Any, sample_weight: Any) -> float:
    return sk.f1_score(y, predicted, average="macro", sample_weight=sample_weight)


def of_auroc(y: Any, chances: Any, sample_weight: Any) -> float:
    more: dict[str, Any] = {"multi_class": "ovr", "average": "macro"} if chances.ndim > 1 else {}
    return sk.roc_auc_score(y, chances, sample_weight=sample_weight, **more)


CLASS_METRICS = "train.metrics=['accuracy','f1','auroc','log_loss']"


@pytest.mark.parametrize("way", ["padded", pytest.param("exact", marks=pytest.mark.slow)])
def test_classes_train_as_in_plain_optax(way: str, weighted: Callable[..., Bench]) -> None:
    """Next to class weights, by which weights are multiplied in losses alone."""
    # scores are computed of outputs, whatever program gives them
    n_scores = 4 if way == "padded" else 0
    measured = CLASS_METRICS if n_scores else "train.metrics=[]"
    study = weighted("kind", measured, "data.class_weights={a=2.0,b=0.5}")

    def loss(outputs: Any, target: Any) -> Any:
        y, weights = target
        errors = optax.softmax_cross_entropy_with_integer_labels(outputs, y)
        return mean(errors, weights * jnp.array([2.0, 0.5, 1.0])[y])

    scores = [
        score_of(sk.accuracy_score, lambda outputs: np.argmax(outputs, 1)),
        score_of(of_f1, lambda outputs: np.argmax(outputs, 1)),
        score_of(of_auroc, jax.nn.softmax),
        score_of(sk.log_loss, jax.nn.softmax),
    ]
    expected = plain.train(study, TRIAL, ADAM, loss, scores=scores[:n_scores])
    curve = study.curves([COMPANION, TRIAL], **plain.WAYS[way])[5]
    np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)


@pytest.mark.slow
def test_one_logit_trains_as_in_plain_optax(weighted: Callable[..., Bench]) -> None:
    study = weighted("flag", CLASS_METRICS, "train.loss=binary_cross_entropy")

    def loss(outputs: Any, target: Any) -> Any:
        y, weights = target
        return mean(optax.sigmoid_binary_cross_entropy(outputs[:, 0], y), weights)

    scores = [
        score_of(sk.accuracy_score, lambda outputs: outputs[:, 0] > 0),
        score_of(of_f1, lambda outputs: outputs[:, 0] > 0),
        score_of(of_auroc, lambda outputs: outputs[:, 0]),
        score_of(sk.log_loss, lambda outputs: jax.nn.sigmoid(outputs[:, 0])),
    ]
    expected = plain.train(study, TRIAL, ADAM, loss, scores=scores)
    np.testing.assert_allclose(study.curves([TRIAL])[5], expected.rows, rtol=RELATIVE)


@pytest.mark.parametrize(
    ("loss", "degree", "batch"),
    [
        ("mse", 2, 24),
        pytest.param("mae", 1, 24, marks=pytest.mark.slow),
        ("huber", 2, 2),
    ],
)
def test_numbers_train_as_in_plain_optax(
    loss: str, degree: int, batch: int, weighted: Callable[..., Bench]
) -> None:
    """With two targets, with one, and with batches whose weights are all 0."""
    targets = "price,cost" if loss == "mse" else "price"
    size = f"train.batch_size={batch}"
    study = weighted(targets, f"train.loss={loss}", "train.metrics=['r2','rmse','mae']", size)
    scale, shift = np.array(study.data.y_scale), np.array(study.data.y_mean)
    errors = {
        "mse": lambda outputs, y: (outputs - y) ** 2,
        "mae": lambda outputs, y: jnp.abs(outputs - y),
        "huber": optax.huber_loss,
    }[loss]

    def minimised(outputs: Any, target: Any, units: Any = 1.0) -> Any:
        y, weights = target
        return mean(jnp.mean(errors(outputs, y) * units, axis=1), weights)

    def in_units(outputs: Any, target: Any) -> Any:
        return minimised(outputs, target, scale**degree)

    def own(function: Callable[..., float]) -> Any:
        def score(outputs: Any, target: Any) -> float:
            y, weights = target
            whole = y * scale + shift, np.asarray(outputs) * scale + shift
            return function(*whole, sample_weight=weights)

        return score

    scores = [
        own(score) for score in (sk.r2_score, sk.root_mean_squared_error, sk.mean_absolute_error)
    ]
    expected = plain.train(study, TRIAL, ADAM, minimised, in_units, scores)
    curve = study.curves([TRIAL], **plain.WAYS["padded"])[5]
    if len(scale) == 1:  # several targets have a training loss of several units
        np.testing.assert_allclose(curve[:, 0], expected.rows[:, 0] * scale[0] ** degree, rtol=1e-9)
    np.testing.assert_allclose(curve[:, 1:], expected.rows[:, 1:], rtol=RELATIVE)


@pytest.mark.parametrize(
    ("target", "overrides"),
    [
        ("kind", (CLASS_METRICS, "data.class_weights={a=2.0}")),
        pytest.param("kind", ("train.metrics=[]", "model.kind=tabm"), marks=pytest.mark.slow),
        pytest.param(
            *("price,cost", ("train.loss=mse", "train.metrics=['r2','rmse','mae','mape']")),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_weight_2_is_a_row_written_twice_and_weight_0_none(
    target: str, overrides: tuple[str, ...], weighted: Callable[..., Bench]
) -> None:
    """In steps of all rows, of which there is one in an epoch."""
    study = weighted(target, *overrides)
    # once is one of the weights, and each row is in one split
    times = {part: rows_of(study, part) for part in ("train", "val", "test")}
    written = {
        f"{array}_{part}": np.repeat(getattr(study.data, f"{array}_{part}"), count, axis=0)
        for part, count in times.items()
        for array in "xy"
    }
    empty = {f"w_{part}": np.empty(0) for part in times}
    curves = []
    for data in (study.data, replace(study.data, **written, **empty)):
        batch = len(data.x_train)
        config = study.config.model_copy(
            update={"train": study.config.train.model_copy(update={"batch_size": batch})}
        )
        study.config, study.data = config, data
        study.trainer = Trainer(config, data, study.directory)
        lane = study.train([COMPANION, TRIAL]).lanes[1]
        curves.append([*lane.curve.values.ravel(), *lane.test])
    assert curves[0] == pytest.approx(curves[1], rel=RELATIVE)


def rows_of(study: Bench, part: Any) -> NDArray[np.int64]:
    """How often the rows of a split are written, which are the weights in the table."""
    weights = study.data.weights(part)
    assert weights is not None
    smallest = min(study.data.w_train[study.data.w_train > 0])
    times = np.rint(weights / smallest).astype(np.int64)
    np.testing.assert_allclose(times * smallest, weights, rtol=1e-12)
    assert {0, 1, 2, 3} == {*times.tolist()}
    return times


def test_a_fold_has_the_weights_of_its_own_rows(weighted: Callable[..., Bench]) -> None:
    """As three studies of the rows of one fold each would train."""
    study = weighted("kind", "study.folds=3", "train.metrics=['accuracy']", "data.scale=none")
    data, config = study.data, study.config
    found = study.curves([TRIAL])[5]
    alone = config.model_copy(update={"study": config.study.model_copy(update={"folds": None})})
    expected = []
    for fold in range(3):
        seen, judged = data.training_rows(fold), np.flatnonzero(data.fold_of == fold)
        assert len(seen) == 144
        own = replace(
            data,
            **{f"{array}_train": getattr(data, f"{array}_train")[seen] for array in "xyw"},
            **{f"{array}_val": getattr(data, f"{array}_train")[judged] for array in "xyw"},
            fold_of=np.empty(0, np.int32),
            fold_scale=np.empty((0, 0)),
            fold_shift=np.empty((0, 0)),
        )
        study.config, study.data = alone, own
        study.trainer = Trainer(alone, own, study.directory)
        expected.append(study.curves([TRIAL])[5])
    np.testing.assert_allclose(found, np.mean(expected, axis=0), rtol=RELATIVE)


def test_every_metric_equals_that_of_scikit_learn() -> None:
    """With ties, and with rows that do not count although their outputs are not finite."""
    rng = np.random.default_rng(4)
    logits = np.tile(rng.normal(size=(45, 4)), (2, 1))
    y, weights = rng.integers(0, 4, 90), rng.exponential(size=90) * (rng.random(90) < 0.8)
    one = np.round(rng.normal(size=(90, 1)), 1)
    flags = rng.integers(0, 2, 90)
    numbers, true = rng.normal(size=(90, 2)), rng.normal(size=(90, 2))
    chances, sure = np.asarray(jax.nn.softmax(logits)), np.asarray(jax.nn.sigmoid(one[:, 0]))
    expected: dict[tuple[str, str], float] = {
        ("accuracy", "classes"): sk.accuracy_score(y, logits.argmax(1), sample_weight=weights),
        ("f1", "classes"): of_f1(y, logits.argmax(1), weights),
        ("auroc", "classes"): of_auroc(y, chances, weights),
        ("log_loss", "classes"): sk.log_loss(y, chances, sample_weight=weights),
        ("balanced_accuracy", "classes"): sk.balanced_accuracy_score(
            y, logits.argmax(1), sample_weight=weights
        ),
        ("average_precision", "classes"): sk.average_precision_score(
            label_binarize(y, classes=range(4)), chances, sample_weight=weights
        ),
        ("average_precision", "one"): sk.average_precision_score(
            flags, sure, sample_weight=weights
        ),
        ("accuracy", "one"): sk.accuracy_score(flags, one[:, 0] > 0, sample_weight=weights),
        ("f1", "one"): of_f1(flags, one[:, 0] > 0, weights),
        ("auroc", "one"): of_auroc(flags, sure, weights),
        ("log_loss", "one"): sk.log_loss(flags, sure, sample_weight=weights),
        ("r2", "numbers"): sk.r2_score(true, numbers, sample_weight=weights),
        ("rmse", "numbers"): sk.root_mean_squared_error(true, numbers, sample_weight=weights),
        ("mae", "numbers"): sk.mean_absolute_error(true, numbers, sample_weight=weights),
        ("mape", "numbers"): sk.mean_absolute_percentage_error(
            true, numbers, sample_weight=weights
        ),
    }
    data = {"classes": (logits, y), "one": (one, flags), "numbers": (numbers, true)}
    assert {name for name, _ in expected} == METRICS.keys()
    for (name, kind), value in expected.items():
        found = jax.jit(METRICS[name])(*map(jnp.asarray, (*data[kind], weights)))
        assert float(found) == pytest.approx(value, rel=1e-12), (name, kind)
    # r2 and the errors only see rows that count
    for name in ("r2", "rmse", "mae", "mape"):
        far = np.where(weights[:, None] > 0, numbers, np.inf)
        found = jax.jit(METRICS[name])(far, np.where(weights[:, None] > 0, true, 1e300), weights)
        assert float(found) == pytest.approx(expected[name, "numbers"], rel=1e-12), name


def test_metrics_of_transformed_targets_are_weighted_in_their_unit(
    weighted: Callable[..., Bench],
) -> None:
    study = weighted("price", "train.loss=mse", "train.metrics=['r2','rmse','mae','mape']")
    known = replace(data_spec(study.config, study.data), y_transform="log", y_mean=(1.0,))
    y, weights = study.data.y_val, study.data.w_val
    outputs = y + np.random.default_rng(0).normal(size=y.shape)
    for name, function in {
        "r2": sk.r2_score,
        "rmse": sk.root_mean_squared_error,
        "mae": sk.mean_absolute_error,
        "mape": sk.mean_absolute_percentage_error,
    }.items():
        metric = metric_of(name, study.config.settings_of({}), known)
        expected = function(known.in_unit(y), known.in_unit(outputs), sample_weight=weights)
        assert float(jax.jit(metric)(outputs, y, weights)) == pytest.approx(expected, rel=1e-12)


def test_a_class_of_rows_without_weight_does_not_occur() -> None:
    rng = np.random.default_rng(2)
    logits, y = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    logits[:, 2] -= 9  # never predicted
    counted = y != 2
    for name in ("f1", "auroc"):
        metric = jax.jit(METRICS[name])
        found = metric(logits, y, counted.astype(np.float64))
        assert float(found) == pytest.approx(float(metric(logits[counted], y[counted])))
    assert np.isnan(jax.jit(METRICS["auroc"])(logits[:, :1], y == 1, (y == 1) * 1.0))


@pytest.mark.parametrize("name", ERRORS)
def test_a_batch_without_any_weight_has_no_loss_and_no_gradient(name: str) -> None:
    outputs = jnp.ones((4, 1 if name == "binary_cross_entropy" else 3))
    y = jnp.zeros(4, jnp.int32) if "entropy" in name else jnp.zeros((4, 3))
    classes = [(), (1.0, 2.0, 3.0)[: 2 if name.startswith("b") else 3]]
    for class_weights in classes if "entropy" in name else classes[:1]:
        loss = mean_of(ERRORS[name], class_weights)
        value, gradient = jax.value_and_grad(lambda out, loss=loss: loss(out, y, {}, jnp.zeros(4)))(
            outputs
        )
        assert value == 0
        assert (gradient == 0).all()


def test_values_of_rows_without_weight_may_be_anything() -> None:
    found = weighted_mean(jnp.array([1.0, jnp.inf, jnp.nan, 3.0]), jnp.array([1.0, 0, 0, 3]))
    assert float(found) == 2.5
