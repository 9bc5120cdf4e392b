"""Features that give the target away are named by `init` and before a study runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweeper.cli.new_study import begin
from sweeper.config import load
from sweeper.data.prepare import prepare
from sweeper.data.remarks import leak_reason

RNG = np.random.default_rng(0)
PRICE = RNG.normal(100.0, 20.0, 60).round(2)
KIND = np.array([["red", "blue"][i] for i in RNG.integers(0, 2, 60)])
IS_RED = KIND == "red"


def reason(values: Any, target: Any) -> str:
    column, of_target = pd.Series(values, name="x"), pd.Series(target, name="y")
    return leak_reason(column, of_target, is_classes=target is KIND)


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        (PRICE, PRICE, "is a copy of the target 'y'"),
        (PRICE * 1.08 + 3, PRICE, "is a linear function of the target 'y'"),
        (-PRICE.round(), PRICE, ""),
        (np.log(PRICE), PRICE, "always rises or always falls with the target 'y'"),
        (PRICE + RNG.normal(0, 1, 60), PRICE, ""),
        (np.arange(60.0), np.sort(PRICE), ""),
        ([f"{n % 12} EUR" for n in range(60)], np.arange(60.0) % 12, "has one text for each"),
        (KIND, KIND, "is a copy of the target 'y'"),
        (IS_RED, KIND, "has one value for each class of the target 'y'"),
        (np.where(IS_RED, 2, 1), KIND, "has one value for each class of the target 'y'"),
        (
            np.where(IS_RED, RNG.integers(0, 2, 60), 5),
            KIND,
            "takes values that each occur with only one",
        ),
        (np.where(IS_RED, PRICE, np.nan), KIND, "is missing exactly in the rows of some classes"),
        (np.where(IS_RED, 0, PRICE), KIND, "is in a different range for each class"),
        (np.where(IS_RED | (PRICE > 130), 0, PRICE), KIND, ""),
        (
            2**60 + np.where(IS_RED, -np.arange(60), 1 + np.arange(60)),
            KIND,
            "is in a different range for each class",
        ),
        (PRICE, KIND, ""),
        (RNG.integers(0, 2, 60), KIND, ""),
    ],
)
def test_features_that_reveal_the_target_are_found(values: Any, target: Any, expected: str) -> None:
    found = reason(values, target)
    assert found.startswith(expected) and bool(found) == bool(expected)


def test_gaps_in_a_copy_do_not_hide_it() -> None:
    assert (
        reason(np.where(np.arange(60) % 7, PRICE, np.nan), PRICE) == "is a copy of the target 'y'"
    )


def test_few_rows_may_agree_by_chance() -> None:
    assert leak_reason(pd.Series(PRICE[:10]), pd.Series(PRICE[:10]), is_classes=False) == ""


def test_rows_after_the_first_ones_are_compared_too() -> None:
    y = RNG.normal(size=5000)
    x = y.copy()
    x[4999] = 0.0
    assert leak_reason(pd.Series(y, name="x"), pd.Series(y, name="y"), is_classes=False)
    assert not leak_reason(pd.Series(x + 1e3 * (x == 0)), pd.Series(y), is_classes=False)


def test_init_and_plan_report_features_that_reveal_the_target(tmp_path: Path) -> None:
    rows = pd.DataFrame({"size": RNG.normal(size=60), "colour": KIND, "kind": KIND})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    hint = "is a copy of the target 'kind': add it to data.drop, unless it is known before"
    told = begin(None, tmp_path / "study.toml", tmp_path / "rows.csv")
    assert any(f"'colour' {hint}" in line for line in told)
    notes = prepare(load(tmp_path / "study.toml")).notes
    assert [note.startswith(f"column 'colour' {hint}") for note in notes] == [True]
