"""Constant and linear models equal those of scikit-learn with default settings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from sweeper.data.dataset import Dataset
from sweeper.data.simple_models import _one_thread, boosted_trees, constant_model, linear_model
from sweeper.data.target import transformed

DRAW = np.random.default_rng(3)
X = DRAW.normal(size=(160, 5))
SLOPES = DRAW.normal(size=(5, 3))
NEW = DRAW.normal(size=(40, 5))


def data_of(y: NDArray[Any], **others: Any) -> Dataset:
    return Dataset(X, y, X[:0], y[:0], X[:0], y[:0], tuple("abcde"), **others)


def test_two_classes_get_the_log_odds_of_logistic_regression_with_class_weights() -> None:
    y = (X @ SLOPES[:, 0] > 0.8).astype(np.int32)
    data = data_of(y, class_names=("no", "yes"), class_weights=(1.0, 3.0), one_logit=True)
    plain = LogisticRegression(class_weight={0: 1.0, 1: 3.0}).fit(X, y)
    outputs = linear_model(data, X, y)(NEW)
    np.testing.assert_allclose(outputs[:, 0], plain.decision_function(NEW), rtol=1e-9)
    shares = np.asarray(DummyClassifier(strategy="prior").fit(X, y).predict_log_proba(NEW))
    constant = constant_model(data, y)(NEW)
    np.testing.assert_allclose(constant[:, 0], shares[:, 1] - shares[:, 0], rtol=1e-9)


def test_several_classes_get_the_log_probabilities_of_logistic_regression() -> None:
    y = np.argmax(X @ SLOPES, axis=1).astype(np.int32)
    data = data_of(y, class_names=("a", "b", "c"))
    plain = LogisticRegression().fit(X, y)
    outputs = linear_model(data, X, y)(NEW)
    np.testing.assert_allclose(outputs, plain.predict_log_proba(NEW), rtol=1e-6, atol=1e-6)


def test_a_class_without_training_rows_is_never_predicted() -> None:
    y = np.where(X[:, 0] > 0, 2, 0).astype(np.int32)
    data = data_of(y, class_names=("a", "none", "c"))
    plain = LogisticRegression().fit(X, y)
    for model in (linear_model, lambda data, x, y: constant_model(data, y)):
        outputs = model(data, X, y)(NEW)
        assert np.isfinite(outputs).all()
        assert (outputs[:, 1] < outputs[:, [0, 2]].min(axis=1)).all()
    predicted = np.argmax(linear_model(data, X, y)(NEW), axis=1)
    assert predicted.tolist() == plain.predict(NEW).tolist()


@pytest.mark.parametrize(
    ("rows", "targets"), [(160, 3), (4, 3), (160, 1)], ids=["tall", "wide", "one target"]
)
def test_targets_get_the_numbers_of_ridge(rows: int, targets: int) -> None:
    x, y = X[:rows], (X @ SLOPES + 2.0)[:rows, :targets]
    data = data_of(y)
    plain, mean = Ridge().fit(x, y), DummyRegressor().fit(x, y)
    found, constant = linear_model(data, x, y)(NEW), constant_model(data, y)(NEW)
    assert found.shape == constant.shape == (len(NEW), targets)
    np.testing.assert_allclose(found, plain.predict(NEW).reshape(found.shape), rtol=1e-9)
    np.testing.assert_allclose(constant, mean.predict(NEW).reshape(found.shape), rtol=1e-9)


@pytest.mark.parametrize("transform", ["log", "log1p"])
@pytest.mark.parametrize("weights", [None, np.linspace(0.0, 2.0, len(X))])
def test_the_constant_of_transformed_targets_is_the_mean_in_their_own_unit(
    transform: str, weights: NDArray[Any] | None
) -> None:
    targets = np.exp(X @ SLOPES)
    mean, scale = (0.5, -1.0, 0.0), (2.0, 3.0, 1.0)
    y = (transformed(targets, transform) - mean) / scale
    data = data_of(y, y_transform=transform, y_mean=mean, y_scale=scale)
    found = data.targets_in_unit(constant_model(data, y, weights)(NEW))
    expected = np.average(targets, axis=0, weights=weights)
    np.testing.assert_allclose(found, np.tile(expected, (len(NEW), 1)), rtol=1e-9)


@pytest.mark.parametrize(
    ("rows", "rare"), [(200, 0), (10_100, 1)], ids=["one class", "a class of one row"]
)
def test_rows_that_boosted_trees_cannot_be_fitted_to_have_none(rows: int, rare: int) -> None:
    x, y = DRAW.normal(size=(rows, 2)), np.zeros(rows, np.int32)
    y[:rare] = 1
    data = Dataset(x, y, x[:0], y[:0], x[:0], y[:0], ("a", "b"), class_names=("no", "yes"))
    assert boosted_trees(data, 0) is None


def test_threads_that_fit_at_a_time_keep_their_own_limits() -> None:
    from threadpoolctl import threadpool_info

    def limits() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]

    before, both_in, first_out = limits(), Barrier(2, timeout=60), Event()
    found: dict[str, list[int]] = {}

    def first() -> None:
        with _one_thread():
            both_in.wait()
        found["first, after"] = limits()
        first_out.set()

    def second() -> None:
        with _one_thread():
            both_in.wait()
            assert first_out.wait(60)
            found["second, in"] = limits()
        found["second, after"] = limits()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result()
    ones = [1] * len(before)
    assert found == {"first, after": before, "second, in": ones, "second, after": before}
    assert limits() == before
