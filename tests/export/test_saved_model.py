"""How a saved model interprets a network's outputs: as classes of the data, or as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest

from sweeper.config import parse
from sweeper.data.transform import Category, Scaling, Transform
from sweeper.errors import UnfitRowsError
from sweeper.export.saved_model import SavedModel
from sweeper.programs.saved_file import PlainState, content_of
from tests.command_line import STUDY

ROWS = np.array([[1.0, 2.0], [3.0, -4.0], [-5.0, 0.5]])


def saved(
    classes: Sequence[Any] = (),
    y_scale: Sequence[float] = (1.0,),
    y_mean: Sequence[float] = (0.0,),
    one_logit: bool = False,
    scaling: Scaling | None = None,
    fold: Mapping[str, Sequence[float]] | None = None,
    keeps: int = 2,
) -> SavedModel:
    """A model that returns the first `keeps` of its features, and its file's data description."""
    transform = Transform(("a", "b"), ("a", "b"), (), scaling, (), True, None, tuple(classes))
    data = {
        "spec": {"dtype": "float32", "y_scale": y_scale, "y_mean": y_mean},
        "feature_names": ["a", "b"],
        "class_names": [str(name) for name in classes],
        "one_logit": one_logit,
        "transform": asdict(transform),
        "fold": fold,
    }
    settings = parse(STUDY, Path("study.toml")).settings_of({})
    model: Any = lambda x: x[:keeps]  # noqa: E731
    optimizer: Any = None
    return SavedModel(PlainState(model, model, optimizer, None), settings, {"data": data}, "")


def test_the_largest_of_the_outputs_is_the_class() -> None:
    model = saved(classes=("fig", "pear"))

    assert model.predict(ROWS).tolist() == ["pear", "fig", "pear"]
    odds = np.exp(ROWS)
    np.testing.assert_allclose(
        model.probabilities(ROWS), odds / odds.sum(axis=1, keepdims=True), rtol=1e-6
    )


def test_one_output_is_the_log_odds_of_the_second_class() -> None:
    model = saved(classes=(7, 9), one_logit=True, keeps=1)

    assert model.predict(ROWS).tolist() == [9, 9, 7]
    of_second = 1 / (1 + np.exp(-ROWS[:, 0]))
    expected = np.stack([1 - of_second, of_second], axis=1)
    np.testing.assert_allclose(model.probabilities(ROWS), expected, rtol=1e-5)


def test_numbers_are_in_their_own_unit() -> None:
    several = saved(y_scale=(2.0, 10.0), y_mean=(1.0, -1.0))
    one = saved(y_scale=(2.0,), y_mean=(1.0,), keeps=1)

    np.testing.assert_allclose(several.predict(ROWS), ROWS * [2, 10] + [1, -1])
    np.testing.assert_allclose(one.predict(ROWS), ROWS[:, 0] * 2 + 1)
    with pytest.raises(ValueError, match="which have no probabilities; use predict"):
        one.probabilities(ROWS)


def test_predicting_no_rows_returns_an_empty_array() -> None:
    classes = saved(classes=("fig", "pear"))

    assert classes.predict(ROWS[:0]).shape == (0,)
    assert classes.probabilities(ROWS[:0]).shape == (0, 2)
    assert saved(y_scale=(2.0, 10.0), y_mean=(1.0, -1.0)).predict(ROWS[:0]).shape == (0, 2)


def test_unknown_categories_are_reported_even_if_missing() -> None:
    colour = Category("a", ("blue", "red"))
    sometimes = Category("a", ("blue", None))
    rows = pd.DataFrame({"a": ["blue", None, "green", None]})

    def told(one: Category) -> list[str]:
        found: list[str] = []
        Transform(("a",), (), (), None, (one,), True, None, ()).of(
            rows, lambda told, _: found.append(told)
        )
        return found

    taken = "which no training row had; it is taken as none of the known categories"
    green = f"column 'a' has 'green' in 1 row, {taken}"
    missing = f"column 'a' has a missing value in 2 rows, {taken}"
    assert told(colour) == [green, missing]
    assert told(Category("a", ("NA", "blue"))) == [
        green,
        f"{missing}; pandas.read_csv reads 'NA' as missing unless keep_default_na=False",
    ]
    assert told(sometimes) == [green]


def test_many_rows_are_predicted_like_single_ones() -> None:
    rows = np.random.default_rng(3).normal(size=(2500, 2))

    found = saved(y_scale=(2.0, 10.0), y_mean=(1.0, -1.0)).predict(rows)

    np.testing.assert_allclose(found, rows * [2, 10] + [1, -1], rtol=1e-6, atol=1e-6)


class Chosen(eqx.Module):
    """A model whose static field is not hashable, which training does not need."""

    places: list[int] = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        return x[jax.numpy.array(self.places)]


def test_a_model_with_unhashable_fields_predicts() -> None:
    model = replace(saved(keeps=1), state=PlainState(*[Chosen([1])] * 2, None, None))  # type: ignore[arg-type]

    np.testing.assert_allclose(model.predict(ROWS), ROWS[:, 1])


def test_features_are_scaled_as_the_fold_of_the_member_was() -> None:
    scaling = Scaling(to_range=False, scale=(2.0, 4.0), shift=(1.0, 0.0))
    fold = {"scale": [3.0, 1.0], "shift": [0.5, -0.5]}

    x = saved(scaling=scaling, fold=fold).features(ROWS)

    np.testing.assert_allclose(x, (ROWS - [1, 0]) / [2, 4] * [3, 1] + [0.5, -0.5], rtol=1e-6)
    assert x.dtype == np.float32


def test_saving_twice_writes_the_same_bytes() -> None:
    tensors = {"model/b": ROWS, "model/a": ROWS[0]}

    assert len({content_of(tensors, {"trial": 3}) for _ in range(16)}) == 1


def test_large_integers_that_are_classes_stay_different() -> None:
    for classes in ((1, 2**63 + 1, 2**63 + 3), (-1, 2**63 + 1, 2**63 + 3)):
        found = saved(classes=classes, keeps=2).predict(np.array([[1.0, 2.0], [2.0, 1.0]]))
        assert found.tolist() == [2**63 + 1, classes[0]]
        assert found.dtype == (np.uint64 if classes[0] > 0 else object)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ({"a": [1, 2], "b": [1]}, "column 'a' has 2 rows, but column 'b' has 1 row; give each"),
        ({"a": [1, 2], "b": 1}, "column 'a' has 2 rows, but column 'b' is a single value; give"),
        ({"a": 1, "b": [1]}, "column 'a' is a single value, but column 'b' has 1 row; give each"),
    ],
)
def test_columns_of_different_lengths_are_refused(rows: Any, found: str) -> None:
    with pytest.raises(UnfitRowsError, match=found):
        saved().predict(rows)
