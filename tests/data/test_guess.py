"""How a table could be used, by the types that its columns have."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sweeper
from sweeper.data.guess import guess
from sweeper.data.prepare import prepare

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
