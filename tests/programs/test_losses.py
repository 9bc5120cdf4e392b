"""Losses and metrics equal those of plain Optax and of scikit-learn, in every kind of class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn import metrics as sk
from sklearn.preprocessing import label_binarize

from sweeper.config import parse
from sweeper.config.train import TASK_OF_METRIC
from sweeper.programs.data_spec import data_spec
from sweeper.programs.metrics import METRICS, metric_of, rounded_accuracy
from tests.programs import plain
from tests.programs.conftest import STUDY, Bench, spec

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
SHAPE = {"depth": 2, "width": 16, "activation": "relu"}
TRIAL = spec(5, **SHAPE, lr=1e-3, weight_decay=0.0)
BINARY = ("data.name=breast_cancer", "train.loss=binary_cross_entropy", "train.metrics=['auroc']")
NUMBERS = ("data.name=diabetes", "data.split.stratify=false")
COMPANION = spec(1, **{**TRIAL.params, "lr": 2e-3})
ADAM = optax.adam(1e-3)
WAYS = plain.WAYS

OF_CLASSES = {name for name, task in TASK_OF_METRIC.items() if task == "classes"}


def same_in_every_way(study: Bench, expected: plain.Plain, *ways: str) -> None:
    """`TRIAL` next to another has the expected curve, in all `ways` to train a bucket."""
    for way in ways or WAYS:
        curve = study.curves([COMPANION, TRIAL], **WAYS[way])[5]
        np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE, err_msg=way)


def softmax_loss(outputs: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()


def one_logit(outputs: Any, y: Any) -> Any:
    return optax.sigmoid_binary_cross_entropy(outputs[:, 0], y).mean()


def scored(function: Callable[..., Any], scale: float = 1.0, mean: float = 0.0) -> Any:
    """A score of scikit-learn, of numbers in their own unit."""
    return lambda outputs, y: function(
        np.asarray(y) * scale + mean, np.asarray(outputs) * scale + mean
    )


def test_every_metric_equals_that_of_scikit_learn() -> None:
    """With ties, with a class that is never predicted, and with one that does not occur."""
    rng = np.random.default_rng(4)
    # rows that occur twice are ties; one class is never the most likely
    logits = np.tile(rng.normal(size=(45, 4)), (2, 1)) + np.array([0.0, 0.3, 0.0, -9.0])
    y = rng.integers(0, 3, 90)
    y[:2] = 3
    one = np.round(rng.normal(size=(60, 1)), 1)
    flags = rng.integers(0, 2, 60)
    chances = np.asarray(jax.nn.softmax(logits))
    sure = np.asarray(jax.nn.sigmoid(one[:, 0]))
    two = np.concatenate([np.zeros_like(one), one], axis=1)
    numbers, true = rng.normal(size=(50, 2)), rng.normal(size=(50, 2))

    def ours(name: str, outputs: Any, y: Any) -> float:
        return float(jax.jit(METRICS[name])(jnp.asarray(outputs), jnp.asarray(y)))

    expected = {
        ("accuracy", "classes"): sk.accuracy_score(y, logits.argmax(1)),
        ("f1", "classes"): sk.f1_score(y, logits.argmax(1), average="macro", zero_division=0),
        ("auroc", "classes"): sk.roc_auc_score(y, chances, multi_class="ovr", average="macro"),
        ("log_loss", "classes"): sk.log_loss(y, chances, labels=range(4)),
        ("balanced_accuracy", "classes"): sk.balanced_accuracy_score(y, logits.argmax(1)),
        ("average_precision", "classes"): sk.average_precision_score(
            label_binarize(y, classes=range(4)), chances, average="macro"
        ),
        ("balanced_accuracy", "one"): sk.balanced_accuracy_score(flags, one[:, 0] > 0),
        ("average_precision", "one"): sk.average_precision_score(flags, sure),
        ("average_precision", "two"): sk.average_precision_score(flags, sure),
        ("accuracy", "one"): sk.accuracy_score(flags, one[:, 0] > 0),
        ("f1", "one"): sk.f1_score(flags, one[:, 0] > 0, average="macro"),
        ("auroc", "one"): sk.roc_auc_score(flags, sure),
        ("log_loss", "one"): sk.log_loss(flags, sure),
        ("f1", "two"): sk.f1_score(flags, two.argmax(1), average="macro"),
        ("auroc", "two"): sk.roc_auc_score(flags, sure),
        ("r2", "numbers"): sk.r2_score(true, numbers),
        ("rmse", "numbers"): sk.root_mean_squared_error(true, numbers),
        ("mae", "numbers"): sk.mean_absolute_error(true, numbers),
        ("mape", "numbers"): sk.mean_absolute_percentage_error(true, numbers),
    }
    data = {
        "classes": (logits, y),
        "one": (one, flags),
        "two": (two, flags),
        "numbers": (numbers, true),
    }
    found = {key: ours(key[0], *data[key[1]]) for key in expected}

    assert {name for name, _ in expected} == METRICS.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-12, abs=1e-12), key


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n_outputs", [1, 2, 3])
def test_a_metric_of_outputs_that_are_not_finite_is_not_finite(
    name: str, bad: float, n_outputs: int
) -> None:
    if n_outputs == 1 and bad == np.inf and name in OF_CLASSES - {"log_loss"}:
        return  # a logit of infinity is the probability 1
    rng = np.random.default_rng(3)
    outputs = rng.normal(size=(36, n_outputs))
    y = rng.normal(size=(36, n_outputs)) if name not in OF_CLASSES else np.arange(36) % 2
    one_row = outputs.copy()
    one_row[7, 0] = bad
    metric = jax.jit(METRICS[name])
    for found in (np.full_like(outputs, bad), one_row):
        assert not np.isfinite(metric(found, y))
        assert not np.isfinite(metric(found, y, np.ones(36)))
    counted = np.arange(36) != 7
    kept = metric(one_row, y, counted * 1.0)
    assert float(kept) == pytest.approx(float(metric(outputs[counted], y[counted])))


def test_logits_of_minus_infinity_rule_a_class_out() -> None:
    logits = jnp.array([[0.0, -jnp.inf, 1.0], [2.0, 1.0, -jnp.inf]])
    assert METRICS["accuracy"](logits, jnp.array([2, 0])) == 1
    assert METRICS["f1"](logits, jnp.array([2, 0])) == 1
    assert np.isnan(METRICS["accuracy"](jnp.full((2, 3), -jnp.inf), jnp.array([2, 0])))


@pytest.mark.parametrize("name", ["accuracy", "f1", "auroc"])
def test_studies_of_earlier_editions_keep_their_metrics(
    name: str, bench: Callable[..., Bench]
) -> None:
    study = bench("edition=3")
    settings, data = study.config.settings_of({}), data_spec(study.config, study.data)
    assert np.isfinite(metric_of(name, settings, data)(jnp.full((6, 1), np.nan), np.arange(6) % 2))


def perfect(n_rows: int) -> tuple[Any, Any, Any]:
    """Outputs that are all right, with a large margin; targets; weights of the rows."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3, n_rows)
    noise = rng.normal(size=(n_rows, 3))
    return np.float32(9 * np.eye(3)[y] + noise), y, np.float32(rng.uniform(0.01, 3, n_rows))


SIZES = (20, 27, 41, 55, 300, 1000)


@pytest.mark.parametrize("name", ["accuracy", "f1", pytest.param("auroc", marks=pytest.mark.slow)])
def test_no_share_is_above_1(name: str) -> None:
    metric = jax.jit(METRICS[name])
    for n_rows in SIZES:
        outputs, y, weights = perfect(n_rows)
        assert metric(outputs, y) <= 1
        assert 1 - 1e-6 < metric(outputs, y, weights) <= 1
        outputs[0], weights[0] = -outputs[0], 1e-9
        assert 1 - 1e-6 < metric(outputs, y, weights) <= 1


@pytest.mark.parametrize("n_rows", SIZES)
def test_the_accuracy_of_a_model_that_is_always_right_is_exactly_1(n_rows: int) -> None:
    accuracy = jax.jit(METRICS["accuracy"])
    outputs, y, weights = perfect(n_rows)
    assert accuracy(outputs, y) == 1
    assert accuracy(outputs, y, weights) == 1
    assert accuracy(outputs, y, 0 * weights) == 0
    wrong = np.concatenate([-outputs[:1], outputs[1:]])
    assert accuracy(wrong, y) == pytest.approx(1 - 1 / n_rows)
    assert accuracy(wrong, y, np.float32(np.arange(n_rows) > 0)) == 1


@pytest.mark.parametrize("edition", [5, 6])
def test_studies_of_edition_5_keep_rounded_shares(
    edition: int, bench: Callable[..., Bench]
) -> None:
    study = bench(f"edition={edition}")
    settings, data = study.config.settings_of({}), data_spec(study.config, study.data)
    outputs, y, weights = perfect(41)
    accuracy, rounded = (
        jax.jit(one) for one in (metric_of("accuracy", settings, data), rounded_accuracy)
    )
    assert accuracy(outputs, y) == (rounded(outputs, y) if edition == 5 else 1)
    assert accuracy(outputs, y, weights) == (rounded(outputs, y, weights) if edition == 5 else 1)
    assert np.isnan(accuracy(outputs * np.float32(np.nan), y))


def test_a_class_that_does_not_occur_is_left_out_of_the_ranking() -> None:
    rng = np.random.default_rng(2)
    logits, y = rng.normal(size=(40, 4)), rng.integers(0, 3, 40)
    chances = np.asarray(jax.nn.softmax(logits))

    areas = [sk.roc_auc_score(y == c, chances[:, c]) for c in range(3)]

    auroc = jax.jit(METRICS["auroc"])
    assert float(auroc(logits, y)) == pytest.approx(np.mean(areas), rel=1e-12)
    assert np.isnan(auroc(logits[:, :1], np.ones(40, np.int32)))


def test_two_classes_train_with_one_logit(bench: Callable[..., Bench]) -> None:
    study = bench(*BINARY)

    def auroc(outputs: Any, y: Any) -> float:
        return sk.roc_auc_score(y, np.asarray(outputs)[:, 0])

    assert study.data.out_size == 1
    expected = plain.train(study, TRIAL, ADAM, one_logit, scores=[auroc])
    same_in_every_way(study, expected, "padded")


@pytest.mark.slow
def test_several_classes_are_ranked_one_against_the_rest(bench: Callable[..., Bench]) -> None:
    study = bench("train.metrics=['auroc','f1','log_loss']")
    scores = [
        lambda outputs, y: sk.roc_auc_score(
            y, np.asarray(jax.nn.softmax(outputs)), multi_class="ovr"
        ),
        lambda outputs, y: sk.f1_score(y, np.argmax(outputs, 1), average="macro", zero_division=0),
        lambda outputs, y: sk.log_loss(y, np.asarray(jax.nn.softmax(outputs))),
    ]

    expected = plain.train(study, TRIAL, ADAM, softmax_loss, scores=scores)
    same_in_every_way(study, expected)


@pytest.mark.parametrize(
    ("loss", "way"),
    [
        ("mae", "exact"),
        ("huber", "padded"),
        pytest.param("mae", "padded", marks=pytest.mark.slow),
        pytest.param("huber", "exact", marks=pytest.mark.slow),
    ],
)
def test_losses_of_regression_are_reported_in_the_unit_of_the_target(
    loss: str, way: str, bench: Callable[..., Bench]
) -> None:
    overrides = ("train.huber_delta=0.3",) if loss == "huber" else ()
    study = bench(*NUMBERS, f"train.loss={loss}", "train.metrics=['rmse','mae','r2']", *overrides)
    (scale,), (mean,) = study.data.y_scale, study.data.y_mean
    losses = {
        "mae": (lambda outputs, y: jnp.abs(outputs - y).mean(), scale),
        "huber": (lambda outputs, y: optax.huber_loss(outputs, y, delta=0.3).mean(), scale**2),
    }
    measure, unit = losses[loss]
    scores = [
        scored(function, scale, mean)
        for function in (sk.root_mean_squared_error, sk.mean_absolute_error, sk.r2_score)
    ]

    expected = plain.train(study, TRIAL, ADAM, measure, scores=scores, units=(unit, unit))
    same_in_every_way(study, expected, way)


@pytest.mark.parametrize(
    ("loss", "way"),
    [
        ("cross_entropy", "padded"),
        ("binary_cross_entropy", "exact"),
        pytest.param("cross_entropy", "exact", marks=pytest.mark.slow),
        pytest.param("binary_cross_entropy", "padded", marks=pytest.mark.slow),
    ],
)
def test_labels_are_only_smoothed_in_training(
    loss: str, way: str, bench: Callable[..., Bench]
) -> None:
    name = "digits" if loss == "cross_entropy" else "breast_cancer"
    searched = "search.train.label_smoothing={type='float',low=0.0,high=0.5}"
    study = bench(f"data.name={name}", f"train.loss={loss}", "train.metrics=[]", searched)
    trial = spec(5, **TRIAL.params, label_smoothing=0.2)

    def smoothed(outputs: Any, y: Any) -> Any:
        if loss == "binary_cross_entropy":
            return optax.sigmoid_binary_cross_entropy(outputs[:, 0], 0.8 * y + 0.1).mean()
        labels = optax.smooth_labels(jax.nn.one_hot(y, 10), 0.2)
        return optax.softmax_cross_entropy(outputs, labels).mean()

    others = [spec(1, **TRIAL.params, label_smoothing=0.0)]
    curves = study.curves([*others, trial], **WAYS[way])

    plain_loss = one_logit if loss == "binary_cross_entropy" else softmax_loss
    expected = plain.train(study, trial, ADAM, smoothed, plain_loss)
    np.testing.assert_allclose(curves[5], expected.rows, rtol=RELATIVE)
    without = plain.train(study, others[0], ADAM, plain_loss)
    np.testing.assert_allclose(curves[1], without.rows, rtol=RELATIVE)


OWN = """\
import jax.numpy as jnp


def quartic(outputs, y):
    return jnp.mean((outputs - y) ** 4)


def worst(outputs, y):
    return jnp.max(jnp.abs(outputs - y))


def margin(outputs, y):
    best = jnp.take_along_axis(outputs, y[:, None], axis=1)
    return jnp.mean(jnp.maximum(0, 1 + outputs - best))


def least(outputs, y):
    return jnp.min(jnp.take_along_axis(outputs, y[:, None], axis=1))
"""


@pytest.mark.parametrize("way", ["padded"])
@pytest.mark.parametrize("task", ["numbers", "classes"])
def test_a_loss_and_a_metric_can_be_user_defined(task: str, way: str, tmp_path: Path) -> None:
    (tmp_path / "own_losses.py").write_text(OWN, encoding="utf-8")
    loss, metric = ("quartic", "worst") if task == "numbers" else ("margin", "least")
    overrides = [
        *(NUMBERS if task == "numbers" else ()),
        f"train.loss=own_losses:{loss}",
        f"train.task={task}",
        f"train.metrics=['own_losses:{metric}']",
    ]
    study = Bench(parse(STUDY, tmp_path / "study.toml", overrides), tmp_path)
    (scale,), (mean,) = study.data.y_scale, study.data.y_mean
    names: dict[str, Any] = {}
    exec(OWN, names)
    scores = {
        "worst": scored(lambda y, outputs: np.abs(outputs - y).max(), scale, mean),
        "least": lambda outputs, y: np.take_along_axis(np.asarray(outputs), y[:, None], 1).min(),
    }

    curve = study.curves([TRIAL], **WAYS[way])[5]

    assert study.config.train.metric_names == ("train_loss", "val_loss", f"val_{metric}")
    expected = plain.train(study, TRIAL, ADAM, names[loss], scores=[scores[metric]])
    np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)
