"""Scaling by ranks and by quartiles is that of scikit-learn, fitted on the training rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import QuantileTransformer, RobustScaler

from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare
from sweeper.data.transform import BEYOND, DEVIATE, Quantiles, Transform
from tests.data.conftest import MakeStudy

N_ROWS = 700
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "skewed": RNG.lognormal(0, 3, N_ROWS),
        "small": 1e-12 * RNG.standard_normal(N_ROWS),
        "zeros": np.where(RNG.random(N_ROWS) < 0.6, 0.0, RNG.random(N_ROWS)),
        "grades": RNG.integers(1, 4, N_ROWS),
        "constant": 7.0,
        "target": RNG.standard_normal(N_ROWS),
    }
)
NAMES = [*FRAME][:-1]
DATA = 'source = "csv"\npath = "rows.csv"\ntarget = "target"\n'


@pytest.fixture
def rows(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "rows.csv", index=False)


def prepared(make_study: MakeStudy, scale: str, more: str = "") -> Dataset:
    data = f'{DATA}scale = "{scale}"\n{more}'
    return prepare(make_study(data, loss="mse", precision="float64"))


def training(data: Dataset) -> pd.DataFrame:
    """The training rows as in the table, found by their target."""
    y = data.y_train * data.y_scale + data.y_mean
    order = np.argsort(FRAME["target"].to_numpy())
    places = np.searchsorted(FRAME["target"].to_numpy()[order], y[:, 0] - 1e-9)
    return FRAME.iloc[order[places]]


def test_robust_is_scikit_learns(rows: None, make_study: MakeStudy) -> None:
    data = prepared(make_study, "robust")
    expected = RobustScaler().fit_transform(training(data)[NAMES])
    np.testing.assert_allclose(data.x_train, expected, rtol=1e-9, atol=1e-12)


def test_quantile_is_scikit_learns(rows: None, make_study: MakeStudy) -> None:
    data = prepared(make_study, "quantile")
    own = training(data)[["skewed"]].to_numpy()
    fitted = QuantileTransformer(
        n_quantiles=len(own) // 30, output_distribution="normal", subsample=None
    ).fit(own)
    for x, name in ((data.x_train, "training"), (data.x_val, "validation")):
        shown = fitted.inverse_transform(x[:, :1])
        inside = np.abs(x[:, 0]) < DEVIATE
        expected = fitted.transform(shown)[inside, 0]
        np.testing.assert_allclose(x[inside, 0], expected, atol=1e-7, err_msg=name)
    np.testing.assert_allclose(data.x_train[:, 0], fitted.transform(own)[:, 0], atol=1e-9)


def test_ranks_do_not_depend_on_the_unit(rows: None, make_study: MakeStudy) -> None:
    x = prepared(make_study, "quantile").x_train
    assert np.unique(x[:, 1]).size > 0.9 * len(x)
    np.testing.assert_allclose(x[:, 1].std(), 1, atol=0.2)


def test_equal_numbers_have_the_middle_of_their_ranks(rows: None, make_study: MakeStudy) -> None:
    data = prepared(make_study, "quantile")
    table = training(data)
    zeros = data.x_train[table["zeros"].to_numpy() == 0, 2]
    assert np.unique(zeros).size == 1
    assert -1 < zeros[0] < 0  # 0.3 of the rows are below the middle of 0.6
    grades = [data.x_train[table["grades"].to_numpy() == g, 3][0] for g in (1, 2, 3)]
    np.testing.assert_allclose(grades, [-0.97, 0, 0.97], atol=0.2)
    np.testing.assert_array_equal(data.x_train[:, 4], 0)


def test_numbers_beyond_the_training_range_are_told_apart(
    rows: None, make_study: MakeStudy
) -> None:
    learnt = Transform.from_dict(prepared(make_study, "quantile").transform)
    new = FRAME.head(2).assign(skewed=[-1.0, 1e300])
    np.testing.assert_array_equal(learnt.of(new)[:, 0], [-BEYOND, BEYOND])


def test_ranks_are_undone(rows: None, make_study: MakeStudy) -> None:
    learnt = Transform.from_dict(prepared(make_study, "quantile").transform)
    assert isinstance(learnt.scaling, Quantiles)
    x = FRAME[NAMES].to_numpy()[:50]
    back = learnt.scaling.undo(learnt.scaling.of(x))
    within = np.abs(learnt.scaling.of(x)[:, 0]) < DEVIATE
    np.testing.assert_allclose(back[within, 0], x[within, 0], rtol=1e-6)


def test_many_columns_have_fewer_quantiles(
    rows: None, make_study: MakeStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeper.data.encode._MOST_STORED", 60)
    found = prepared(make_study, "quantile").transform["scaling"]["quantiles"]
    assert {len(of) for of in found} == {60 // len(NAMES)}


@pytest.mark.parametrize(("trained", "new"), [("float64", "float32"), ("float32", "float64")])
def test_new_numbers_in_another_precision_have_the_ranks_of_training_rows(
    trained: str, new: str, make_study: MakeStudy, tmp_path: Path
) -> None:
    grades = (np.arange(300) % 6 + 1) / 10
    frame = pd.DataFrame({"grade": grades, "year": 2.0**25 + np.arange(300) % 3})
    frame = frame.assign(target=np.arange(300.0)).astype({"grade": trained})
    frame.to_parquet(tmp_path / "rows.parquet")
    data = prepare(make_study(f'{DATA.replace("csv", "parquet")}scale = "quantile"\n', loss="mse"))
    learnt = Transform.from_dict(data.transform)

    found = learnt.of(frame.assign(grade=grades.astype(new)))

    np.testing.assert_allclose(found, learnt.of(frame), atol=1e-6)
    assert np.unique(found[:, 0].round(6)).size == 6
    assert np.abs(found).max() < BEYOND
