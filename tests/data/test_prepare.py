"""Datasets compared with scikit-learn and pandas written out."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare

SEED = 7  # the studies of these tests use it


def parts_of(dataset: Dataset) -> list[np.ndarray]:
    return [
        *(dataset.x_train, dataset.x_val, dataset.x_test),
        *(dataset.y_train, dataset.y_val, dataset.y_test),
    ]


def assert_parts(actual: Dataset, *expected: np.ndarray) -> None:
    for a, b in zip(parts_of(actual), expected, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_classes_are_scaled_on_the_training_part_alone(make_study, precision: str) -> None:
    split = "split = { val = 0.2, test = 0.1, stratify = true }"
    config = make_study(f'source = "sklearn"\nname = "digits"\n{split}', precision=precision)

    bunch = load_digits(as_frame=True)
    x, y = bunch.data, bunch.target.to_numpy(np.int32)
    x_rest, x_test, y_rest, y_test = train_test_split(
        x, y, test_size=0.1, random_state=SEED, stratify=y
    )
    x_train, x_val, y_train, y_val = train_test_split(
        x_rest, y_rest, test_size=360, random_state=SEED, stratify=y_rest
    )
    scaler = StandardScaler().fit(x_train)
    x_parts = [scaler.transform(part).astype(precision) for part in (x_train, x_val, x_test)]

    dataset = prepare(config)
    assert_parts(dataset, *x_parts, y_train, y_val, y_test)
    assert dataset.feature_names == tuple(bunch.feature_names)
    assert dataset.class_names == tuple("0123456789")
    assert dataset.digest == prepare(config).digest


def test_a_regression_target_is_scaled_on_the_training_part_alone(make_study) -> None:
    config = make_study('source = "sklearn"\nname = "diabetes"\nscale = "minmax"', loss="mse")

    x, y = load_diabetes(return_X_y=True)
    x_rest, x_test, y_rest, y_test = train_test_split(
        x, y[:, None], test_size=0.1, random_state=SEED
    )
    x_train, x_val, y_train, y_val = train_test_split(
        x_rest, y_rest, test_size=89, random_state=SEED
    )
    x_scaler, y_scaler = MinMaxScaler().fit(x_train), StandardScaler().fit(y_train)

    dataset = prepare(config)
    assert_parts(
        dataset,
        *(x_scaler.transform(part) for part in (x_train, x_val, x_test)),
        *(y_scaler.transform(part) for part in (y_train, y_val, y_test)),
    )
    assert (dataset.y_mean, dataset.y_scale) == ((y_scaler.mean_[0],), (y_scaler.scale_[0],))
    np.testing.assert_allclose(
        dataset.y_test * dataset.y_scale + dataset.y_mean, y_test, rtol=1e-14
    )
    assert (dataset.out_size, dataset.class_names) == (1, ())


CARS = """\
id,colour,doors,electric,price
1,red,2,True,20.5
2,blue,4,False,18.0
3,"green, dark",5,True,30.25
4,red,3,False,9.0
5,blue,5,False,11.5
6,red,4,True,27.0
7,black,4,False,16.0
8,blue,2,True,21.0
"""


def test_text_columns_become_one_column_a_value_of_the_training_part(make_study) -> None:
    data = 'source = "csv"\npath = "rows.csv"\ntarget = "price"\ndrop = ["id"]\nscale = "none"'
    config = make_study(f"{data}\nsplit = {{ val = 0.3, test = 0 }}", CARS, loss="mse")

    table = pd.read_csv(StringIO(CARS))
    train, val = train_test_split(table, test_size=3, random_state=SEED)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(train[["colour"]])

    def encoded(part: pd.DataFrame) -> np.ndarray:
        numbers = part[["doors", "electric"]].to_numpy(np.float64)
        return np.hstack([numbers, encoder.transform(part[["colour"]])])

    dataset = prepare(config)
    assert_parts(
        dataset,
        *(encoded(train), encoded(val), np.empty((0, dataset.n_features))),
        *(train[["price"]].to_numpy(), val[["price"]].to_numpy(), np.empty((0, 1))),
    )
    colours = sorted(f"colour_{colour}" for colour in train["colour"].unique())
    assert dataset.feature_names == ("doors", "electric", *colours)
    # at least one colour is only in the validation part, or the test shows nothing
    assert len(colours) < table["colour"].nunique()


@pytest.mark.parametrize(
    ("values", "class_names"),
    [
        (["pear", "apple", "fig"], ("apple", "fig", "pear")),
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["True", "False"], ("False", "True")),
        (["1.0", "0.0", "2.5"], ("0", "1", "2.5")),
    ],
)
def test_classes_are_sorted_by_value(
    make_study, values: list[str], class_names: tuple[str, ...]
) -> None:
    rows = [(str(i), values[i % len(values)]) for i in range(12)]
    table = "x,y\n" + "".join(f"{x},{y}\n" for x, y in rows)
    data = 'source = "csv"\npath = "rows.csv"\ntarget = "y"\nscale = "none"'

    dataset = prepare(make_study(data, table))
    assert dataset.class_names == class_names
    x, y = np.vstack(parts_of(dataset)[:3])[:, 0], np.hstack(parts_of(dataset)[3:])
    spelled = {int(row): class_names[index] for row, index in zip(x, y, strict=True)}
    assert spelled == {int(x): y.removesuffix(".0") for x, y in rows}


def test_another_seed_draws_other_parts(make_study) -> None:
    config = make_study('source = "sklearn"\nname = "iris"')
    study = config.study.model_copy(update={"seed": 8})
    other = config.model_copy(update={"study": study})

    assert prepare(config).digest != prepare(other).digest
