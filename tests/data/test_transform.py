"""A saved model treats a row as its study did, without scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from sweeper.data.prepare import prepare
from sweeper.data.transform import Category, Transform
from sweeper.errors import UnfitRowsError
from tests.data.conftest import MakeStudy
from tests.data.test_encoding import CSV, DROP, FRAME, PARTS, TABLE, x_of

ROWS = FRAME.iloc[np.concatenate(PARTS)]


def transform(make_study: MakeStudy, data: str, table: str = TABLE) -> Transform:
    """The transform that a study of this data saves, read from JSON."""
    return Transform.from_dict(json.loads(json.dumps(prepare(make_study(data, table)).transform)))


@pytest.mark.parametrize("scale", ["standard", "minmax", "robust", "quantile", "none"])
@pytest.mark.parametrize("categorical", ["onehot", "ordinal"])
@pytest.mark.parametrize("impute", ['"median"', '"most_frequent"', "{ constant = -9 }"])
def test_rows_are_transformed_as_in_the_study(
    scale: str, categorical: str, impute: str, make_study: MakeStudy
) -> None:
    data = f'{CSV}{DROP}scale = "{scale}"\nimpute = {impute}\ncategorical = "{categorical}"\n'
    data += 'categorical_columns = ["month"]\n'

    x = transform(make_study, data).of(ROWS)

    np.testing.assert_array_equal(x, x_of(prepare(make_study(data, TABLE))))


def test_rows_may_be_an_array_or_a_mapping_and_have_more_columns(make_study: MakeStudy) -> None:
    learnt = transform(make_study, f'{CSV}{DROP}impute = "median"\n')
    rows = ROWS.assign(other=1)[[*reversed(ROWS.columns), "other"]]

    expected = learnt.of(ROWS)

    assert learnt.columns == ("size", "month", "colour")
    np.testing.assert_array_equal(learnt.of(rows), expected)
    np.testing.assert_array_equal(learnt.of(ROWS[list(learnt.columns)].to_numpy()), expected)
    np.testing.assert_array_equal(learnt.of(rows.to_dict("list")), expected)


def test_no_rows_give_an_empty_result(make_study: MakeStudy) -> None:
    learnt = transform(make_study, f'{CSV}{DROP}impute = "median"\n')
    width = learnt.of(ROWS).shape[1]

    assert learnt.of(np.zeros((0, len(learnt.columns)))).shape == (0, width)
    assert learnt.of(ROWS[:0]).shape == (0, width)


def test_classes_have_their_names_in_the_data(make_study: MakeStudy) -> None:
    text = transform(make_study, f'{CSV}{DROP}impute = "median"\n')
    numbers = pd.DataFrame({"a": np.arange(40.0), "kind": np.arange(40) % 3 + 7})

    assert text.classes == ("apple", "fig", "pear")
    assert transform(make_study, CSV, numbers.to_csv(index=False)).classes == (7, 8, 9)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.drop(columns="month"), "no column 'month'; the model needs it"),
        (
            ROWS.rename(columns={"month": "Monht"}),
            "no column 'month'; is 'Monht' the same as 'month'?",
        ),
        (
            ROWS.rename(columns=str.upper),
            "no column 'size', 'month', 'colour'; is 'SIZE' the same as 'size'? 2 more columns may "
            "have other names, too",
        ),
        ({"size": 1.0}, "no column 'month', 'colour'; the model needs it"),
        (ROWS["size"], "no column 'size', "),
        ("new.csv", "'new.csv' is text, not rows; read it first: pandas.read_csv"),
        (np.zeros((4, 2)), "an array shaped (4, 2); give one row per example, with 3 columns"),
        (ROWS.assign(size="large"), "column 'size' has non-numbers"),
        (
            ROWS.assign(size=0.0, month=np.nan),
            "60 values of column 'month' are missing or infinite; fill them",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    rows: object, message: str, make_study: MakeStudy
) -> None:
    whole = FRAME.fillna({"size": 0.0, "colour": "red"}).to_csv(index=False)
    learnt = transform(make_study, CSV + DROP, whole)

    with pytest.raises(UnfitRowsError) as refusal:
        learnt.of(rows)

    assert message in str(refusal.value)


def test_gaps_are_those_that_are_filled() -> None:
    learnt = Transform(
        columns=("size", "colour", "month"),
        numbers=("size",),
        fills=(0.0,),
        scaling=None,
        categories=(Category("colour", ("blue", "red"), "red"), Category("month", (1, 2, None))),
        one_hot=True,
        place_scaling=None,
        classes=(),
        edition=6,
        words=("", "NA", "-999"),
    )
    rows = pd.DataFrame(
        {
            "size": ["1.5", "  ", "-999", "NA", ""],
            "colour": ["red", "NA", None, "green", "blue"],
            "month": [1, None, 2, 2, 2],
        }
    )
    found = {name: gaps.tolist() for name, gaps in learnt.gaps(rows).items()}
    assert found == {
        "size": [False, True, True, True, True],
        "colour": [False, True, True, False, False],
    }
