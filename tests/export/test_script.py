"""Exported `load.py` prepares rows as `sweeper.load` does, whatever the transformation."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from sweeper.data.new_rows import NewRows
from sweeper.data.raw import RawData
from sweeper.data.transform import Category, Quantiles, Scaling, Transform
from sweeper.export.predict import _notes_on_numbers
from sweeper.export.script import _FEATURES, _RANKED, _SCALED, _source_of

LEARNT = Transform(
    columns=("grade", "when"),
    numbers=("grade",),
    fills=(0.3,),
    scaling=Quantiles(((0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.6, 0.6),)),
    categories=(Category("when", ("2026-01-31 10:00:00", "2026-02-01 00:00:00")),),
    one_hot=True,
    place_scaling=None,
    classes=(),
    edition=6,
    words=("", "-99.9"),
)
ROWS = pd.DataFrame({"grade": [0.1, 0.2, 0.6], "when": ["2026-01-31 10:00:00"] * 3})


def alone(learnt: Transform, low: float = -2.0, high: float = 2.0) -> Callable[[Any], Any]:
    """The function `features` of `load.py` for a transformation of numbers from `low` to `high`."""
    more = {"dtype": "float32", "ranges": {"low": [low], "high": [high]}, "fold": None}
    data = json.loads(json.dumps({**asdict(learnt), **more}))
    names: dict[str, Any] = {"np": np, "warnings": warnings, "ndtri": ndtri, "DATA": data}
    scaled = _SCALED if isinstance(learnt.scaling, Scaling) else _RANKED
    exec("\n\n".join([_source_of("sweeper.data", "identity.py"), scaled, _FEATURES]), names)
    return names["features"]


def both(learnt: Transform) -> Mapping[str, Callable[[Any], Any]]:
    """The features of `sweeper.load` and of `load.py`."""
    return {"sweeper": lambda rows: learnt.of(rows, precision="float32"), "alone": alone(learnt)}


@pytest.mark.parametrize(("trained", "new"), [("float64", "float32"), ("float32", "float64")])
def test_numbers_in_another_precision_are_ranked_as_in_training(trained: str, new: str) -> None:
    (known,) = LEARNT.scaling.quantiles if isinstance(LEARNT.scaling, Quantiles) else ()
    scaling = Quantiles((tuple(np.array(known, trained).tolist()),))
    learnt = replace(LEARNT, scaling=scaling)
    expected = learnt.of(ROWS.astype({"grade": trained}), precision="float32")
    assert np.abs(expected[:, 0]).max() < 2
    for name, features in both(learnt).items():
        found = features(ROWS.astype({"grade": new}))
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_names_of_columns_may_be_integers_as_in_the_table_of_the_study() -> None:
    columns, categories = ("0", "1"), (replace(LEARNT.categories[0], name="1"),)
    learnt = replace(LEARNT, columns=columns, numbers=("0",), categories=categories)
    rows = ROWS.set_axis([0, 1], axis=1)
    expected = LEARNT.of(ROWS, precision="float32")
    for features in both(learnt).values():
        np.testing.assert_array_equal(features(rows), expected)
        np.testing.assert_array_equal(features(rows.iloc[0]), expected[:1])


def test_numbers_too_large_for_the_precision_are_refused_though_their_ranks_are_not() -> None:
    for features in both(LEARNT).values():
        with pytest.raises(ValueError, match="too large for float32"):
            features(ROWS.assign(grade=1e300))


@pytest.mark.filterwarnings("ignore:'grade' has missing values")
def test_a_gap_is_a_word_in_the_precision_of_the_column() -> None:
    rows = ROWS.assign(grade=np.array([0.1, -99.9, 0.6], np.float32))
    expected = LEARNT.of(ROWS.assign(grade=[0.1, np.nan, 0.6]), precision="float32")
    for name, features in both(LEARNT).items():
        np.testing.assert_array_equal(features(rows), expected, err_msg=name)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_times_are_the_categories_that_they_are_written_as(unit: str) -> None:
    rows = ROWS.assign(when=np.array(["2026-01-31T10:00"] * 3, f"datetime64[{unit}]"))
    for name, features in both(LEARNT).items():
        assert features(rows)[:, 1:].tolist() == [[1, 0]] * 3, name


@pytest.mark.parametrize("texts", [["1.250", "0,1", "0,2"], ["1.250"] * 3, ["0.1", "", "0,2"]])
def test_a_point_among_decimal_commas_is_refused(texts: list[str]) -> None:
    for features in both(replace(LEARNT, decimal=",")).values():
        with pytest.raises(ValueError, match="is not a number with the decimal separator ','"):
            features(ROWS.assign(grade=texts))
        assert features(ROWS.assign(grade=["0,1", "0,2", "0,6"])).shape == (3, 3)


@pytest.mark.parametrize("scaling", [None, Scaling(False, (0.02,), (10.3,)), LEARNT.scaling])
@pytest.mark.parametrize("ends", [(10.24, 10.31), (10.25, 10.37)])
def test_single_precision_is_not_beyond_the_training_range(
    scaling: Any, ends: tuple[float, float]
) -> None:
    if isinstance(scaling, Quantiles):
        scaling = Quantiles(((ends[0], 10.3, ends[1], ends[1]),))
    learnt = replace(LEARNT, scaling=scaling, words=())
    rows = pd.DataFrame({"grade": ends, "when": ROWS["when"][:2]})
    low, high = learnt.of(rows, precision="float32")[:, 0].tolist()
    of_model = {"spec": {"dtype": "float32"}, "ranges": {"low": [low], "high": [high]}}

    def notes(rows: pd.DataFrame) -> list[str]:
        new = NewRows(rows, rows, RawData("", "", rows, ()), ())
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            alone(learnt, low, high)(rows)
        found = [text.partition(",")[0] for text, _ in _notes_on_numbers(new, learnt, of_model)]
        return [*found, *(str(doubt.message) for doubt in doubts)]

    assert notes(rows.astype({"grade": "float32"})) == []
    assert notes(rows.assign(grade=[ends[0] - 0.001, ends[1] + 0.001])) == [
        "column 'grade': 2 rows beyond the training range",
        "'grade' has numbers beyond the training range in 2 of 2 rows",
    ]
