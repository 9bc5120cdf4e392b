"""Numbers that stand for missing values are named, and can be read as such."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeper.cli.new_study import begin
from sweeper.config import load
from sweeper.data.prepare import prepare
from sweeper.data.remarks import sentinels
from sweeper.data.transform import Transform

MONTHS = [float(i % 12) for i in range(40)]


@pytest.mark.parametrize(
    ("others", "codes", "found"),
    [
        (MONTHS, [-999, -999], (-999,)),
        (MONTHS, [-999], (-999,)),
        (MONTHS, [99, 99, 98], (98, 99)),
        (MONTHS, [9999], (9999,)),
        (MONTHS, [-9, -9], ()),
        (MONTHS, [-1] * 9, (-1,)),
        (MONTHS, [-1, -1], ()),
        (MONTHS, [-2, -1, -1, -1, -1, -1], ()),
        ([100.0 * n for n in MONTHS], [-99, 9999, 9999], (-99, 9999)),
        ([50.0 * n for n in range(18)], [999], ()),
        ([10.0 * n for n in range(100)], [999, 999], ()),
        ([1.0, 2.0, 3.0] * 9, [99, 99], ()),
        (MONTHS, [-32768.0], (-32768,)),
        (MONTHS, [1e20, np.nan], (1e20,)),
    ],
)
def test_numbers_far_from_the_others_are_found(
    others: list[float], codes: list[float], found: tuple[float, ...]
) -> None:
    one = sentinels(pd.Series([*others, *codes], name="x"))
    assert (one.values if one else ()) == found


def test_the_suggested_setting_reads_sentinels_as_missing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(20, 80, 60), "pay": rng.normal(3, 1, 60).round(2)})
    rows = rows.assign(price=rng.normal(size=60).round(3))
    rows.loc[[4, 9], "age"], rows.loc[[5, 6], "pay"], rows.loc[7, "price"] = -999, 9999, -99999
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = 'missing_values = ["", "-999", "-99999", "9999"]'

    told = begin(None, tmp_path / "study.toml", tmp_path / "rows.csv")
    hint = f"if it means a missing value, write {words} in [data]"
    assert sum(hint in line for line in told) == 2
    config = load(tmp_path / "study.toml")
    assert sum(hint in note for note in prepare(config).notes) == 2

    unfilled = load(tmp_path / "study.toml", ["data.impute=none"])
    hint = hint.replace(" in [data]", ' and impute = "median" in [data]')
    assert sum(hint in note for note in prepare(unfilled).notes) == 2

    settings = f'[data]\nmissing_target = "drop"\n{words}'
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    (tmp_path / "study.toml").write_text(text.replace("[data]", settings), encoding="utf-8")
    data = prepare(load(tmp_path / "study.toml"))
    assert data.notes[0].startswith("left out 1 of 60 rows")
    assert [column.missing for column in data.columns] == [2, 2, 0]

    words_read = ("", "-999", "9999")
    transform = Transform.from_dict(data.transform, words_read)
    given = pd.DataFrame({"age": [-999, 30], "pay": [9999.0, np.nan]})
    gaps = pd.DataFrame({"age": [np.nan, 30], "pay": [np.nan, np.nan]})
    assert np.array_equal(transform.of(given), transform.of(gaps))


def test_other_tables_get_a_line_of_pandas() -> None:
    column = pd.Series([*MONTHS, -999.0], name="x")
    found = sentinels(column)
    assert found is not None
    told = found.warning(None)
    df = pd.DataFrame({"x": column})
    exec(told.partition("use pandas: ")[2], {"df": df})
    assert df["x"].isna().sum() == 1
