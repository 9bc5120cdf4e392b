"""How a table could be used, by the types that its columns have."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sweeper
from sweeper.data.guess import guess
from sweeper.data.prepare import prepare
from sweeper.errors import DataError
from sweeper.sweep.session.reconcile import reconcile

RNG = np.random.default_rng(0)
PRICES = pd.Series([Decimal(int(cents)) / 100 for cents in RNG.integers(0, 9_000, 200)])
RATINGS = pd.Series([Decimal(int(stars)) for stars in RNG.integers(1, 6, 200)])


@pytest.mark.parametrize(
    ("target", "is_classes"),
    [
        (PRICES, False),
        (PRICES.mask(PRICES.index % 9 == 0), False),
        (RATINGS, True),
        (PRICES.round(-1).astype("category"), True),
        (RATINGS.astype("category"), True),
        (RATINGS.astype(float).astype("category"), True),
    ],
)
def test_a_target_of_decimals_is_numbers_unless_they_are_categories(
    target: pd.Series, is_classes: bool, tmp_path: Path
) -> None:
    frame = pd.DataFrame({"area": RNG.normal(size=200), "price": target})
    frame.to_parquet(tmp_path / "rows.parquet")
    guessed = guess(tmp_path / "rows.parquet")
    assert (guessed.is_classes, guessed.is_text) == (is_classes, False)
    study = sweeper.load_study(
        {"study.name": "decimals", "data.missing_target": "drop"}, data=frame, target="price"
    )
    assert study.train.target == ("classes" if is_classes else "numbers")
    prepare(study)


def test_features_that_are_all_categories_of_numbers_are_not_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "zone": pd.Series(RNG.integers(1, 6, 200)).astype("category"),
            "vip": pd.Series(RNG.random(200) > 0.5).astype("category"),
            "text": RNG.choice([*"abc"], 200),
            "kind": RNG.choice(["yes", "no"], 200),
        }
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    guessed = guess(tmp_path / "rows.parquet")
    assert (guessed.features, guessed.numbers) == (3, 0)
    study = sweeper.load_study({"study": {"name": "zones"}}, data=frame, target="kind")
    assert len(prepare(study).feature_names) == 5 + 2 + 3


@pytest.mark.parametrize("gap", ["", "NA"])
@pytest.mark.parametrize(
    ("codes", "n_classes"), [(["01", "1"], 2), (["01", "1", "02"], 3), (["1", "2"], 2)]
)
def test_classes_of_a_csv_file_are_counted_as_they_are_written(
    codes: list[str], n_classes: int, gap: str, make_study, tmp_path: Path
) -> None:
    kinds = [codes[i % len(codes)] for i in range(60)] + [gap]
    table = "size,kind\n" + "".join(f"{i % 7}.5,{kind}\n" for i, kind in enumerate(kinds))
    data = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\nmissing_target = "drop"\n'
    study = make_study(data, table)
    guessed = guess(tmp_path / "rows.csv")
    assert (guessed.is_classes, guessed.values, guessed.rows) == (True, n_classes, 60)
    assert (guessed.rarest, guessed.commonest) == (60 // n_classes, 60 // n_classes)
    assert len(prepare(study).class_names) == n_classes


def test_days_before_months_are_dates_and_cause_no_warning(tmp_path: Path) -> None:
    days = pd.date_range("2025-03-27", periods=200).strftime("%d.%m.%Y")
    frame = pd.DataFrame({"area": RNG.normal(size=200), "day": days, "price": RNG.random(200)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    guessed = guess(tmp_path / "rows.csv")
    assert [*guessed.drop] == ["day"]
    assert any("dayfirst=True" in hint for hint in guessed.hints)


@pytest.mark.parametrize("is_file", [True, False])
def test_only_categories_that_occur_are_classes(tmp_path: Path, is_file: bool) -> None:
    kinds = pd.Categorical(["fraud", *["ok"] * 9] * 20, categories=["fraud", "ok", "test"])
    frame = pd.DataFrame({"area": RNG.normal(size=200), "kind": kinds})
    if is_file:
        frame.to_parquet(tmp_path / "rows.parquet")
        guessed = guess(tmp_path / "rows.parquet")
        assert (guessed.values, guessed.rarest, guessed.unused) == (2, 20, 1)
        frame[kinds == "ok"].to_parquet(tmp_path / "rows.parquet")
    else:
        study = sweeper.load_study({}, data=frame, target="kind")
        assert (study.study.metric, study.data.split.stratify) == ("val_auroc", True)
    with pytest.raises(DataError, match="the target 'kind' has the same value in all rows, 'ok'"):
        if is_file:
            guess(tmp_path / "rows.parquet")
        else:
            sweeper.load_study({}, data=frame[kinds == "ok"], target="kind")


def test_a_study_that_counted_unused_categories_resumes_as_it_began() -> None:
    kinds = pd.Categorical(["fraud", *["ok"] * 9] * 20, categories=["fraud", "ok", "test"])
    frame = pd.DataFrame({"area": RNG.normal(size=200), "kind": kinds})
    now = sweeper.load_study({}, data=frame, target="kind")
    earlier = {"study.metric": "val_accuracy", "train.metrics": ["accuracy"]}
    earlier |= {"data.class_weights": None, "data.split": {"val": 0.2, "test": 0.1}}
    began = sweeper.load_study(
        {**earlier, "data.split.stratify": False}, data=frame, target="kind"
    ).canonical()
    began["schedule"]["parallel"] = 8
    other = {**now.canonical(), "schedule": began["schedule"]}

    assert now.as_begun(began).study.metric == "val_accuracy"
    assert reconcile(began, now.as_begun(began).canonical()).refused == ()
    assert reconcile(other, now.as_begun(other).canonical()).refused == ()


@pytest.mark.parametrize("numbers", [RNG.normal(size=60), RNG.integers(0, 40, 60)])
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "file"])
def test_floats_of_16_bits_can_be_predicted(kind: str, numbers: np.ndarray, tmp_path: Path) -> None:
    frame = pd.DataFrame({"area": RNG.normal(size=60), "y": numbers.astype(np.float16)})
    of_arrow = frame.astype({"y": pd.ArrowDtype(pa.float16())})
    settings = {"train.loss": "mse", "study.name": "halves"}
    if kind == "file":
        of_arrow.to_parquet(tmp_path / "rows.parquet")
        file = {"source": "parquet", "path": str(tmp_path / "rows.parquet"), "target": "y"}
        study = sweeper.load_study({**settings, "data": file})
    else:
        rows = {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": of_arrow}[kind]
        study = sweeper.load_study(settings, data=rows, target="y")
    found = prepare(study)
    assert study.train.target == "numbers"
    assert len(found.x_train) == 42


@pytest.mark.parametrize(
    ("dates", "days"),
    [
        (["01 May 2020", "02 Jun 2020", "03 Jul 2020"], ["2020-05-01", "2020-06-02", "2020-07-03"]),
        (["20 Feb 2020", "1 March 2020", "1 May 2020"], ["2020-02-20", "2020-03-01", "2020-05-01"]),
        (["Jan-15", "Feb-15", "Apr-16"], ["2015-01-01", "2015-02-01", "2016-04-01"]),
        (["Jan/15", "Feb/15", "Apr/16"], ["2015-01-01", "2015-02-01", "2016-04-01"]),
        (["13/02/2020", "01/03/2020", "31/5/2020"], ["2020-02-13", "2020-03-01", "2020-05-31"]),
        (["01 May 2020", "02 Jun 2020", "31 Jun 2020"], None),
    ],
)
def test_days_are_counted_by_code_that_reads_all_dates(
    dates: list[str], days: list[str] | None, tmp_path: Path
) -> None:
    df = pd.DataFrame({"day": dates * 20, "area": RNG.normal(size=60), "y": RNG.normal(size=60)})
    df.to_csv(tmp_path / "rows.csv", index=False)
    hints = [hint for hint in guess(tmp_path / "rows.csv").hints if "count days" in hint]
    assert len(hints) == (days is not None)
    if days is not None:
        code = hints[0].partition("count days with pandas: ")[2].partition(", and remove")[0]
        exec(code, {"df": df, "pd": pd})
        expected = pd.to_datetime(pd.Series(days * 20))
        assert (pd.Timestamp(0) + pd.to_timedelta(df["day"], "D")).tolist() == expected.tolist()


@pytest.mark.parametrize("texts", [["2020-01-01", "2021-01-01"], ["10:00", "11:00"]])
def test_dates_as_text_may_be_classes(texts: list[str]) -> None:
    frame = pd.DataFrame({"area": RNG.normal(size=60), "day": texts * 30})
    with pytest.raises(DataError, match="holds dates or times as text"):
        sweeper.load_study({}, data=frame, target="day")
    study = sweeper.load_study({"train.loss": "cross_entropy"}, data=frame, target="day")
    assert prepare(study).class_names == tuple(texts)
