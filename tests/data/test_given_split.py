"""The split that a column of the data gives."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from sweeper.config.load import parse
from sweeper.data.given_split import splits_rows
from sweeper.data.guess import guess
from sweeper.data.prepare import prepare
from sweeper.errors import DataError

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\nscale = "none"\n'
COLUMN = 'split = { column = "part" }\n'
N = 60
PARTS = np.array(["train", "val", "train", "test", "train"] * 12)
TRAIN, VAL, TEST = (np.flatnonzero(part == PARTS) for part in ("train", "val", "test"))


def table(part: object) -> str:
    rows = pd.DataFrame({"row": np.arange(N), "part": part, "kind": ["a", "b", "c"] * 20})
    return rows.to_csv(index=False)


def rows_of(data) -> list[list[float]]:
    return [x[:, 0].tolist() for x in (data.x_train, data.x_val, data.x_test)]


def of(rows: np.ndarray) -> list[float]:
    return rows.astype(float).tolist()


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"train": "Training", "val": "validation", "test": "TESTING "},
        {"val": "dev"},
        {"val": "Valid"},
    ],
)
def test_each_row_is_where_the_column_says(make_study, names: dict) -> None:
    data = prepare(make_study(CSV + COLUMN, table([names.get(part, part) for part in PARTS])))
    assert rows_of(data) == [of(TRAIN), of(VAL), of(TEST)]
    assert data.feature_names == ("row",)


@pytest.mark.parametrize("even", [False, True])
def test_rows_for_validation_are_drawn_if_no_row_says_so(make_study, even: bool) -> None:
    """As scikit-learn draws them from the rows for training."""
    split = f'split = {{ column = "part", val = 0.25, seed = 3, stratify = {str(even).lower()} }}\n'
    config = make_study(CSV + split, table(np.where(PARTS == "test", "test", "train")))
    rest = np.flatnonzero(PARTS != "test")
    by = (rest % 3) if even else None
    train, val = train_test_split(rest, test_size=12, random_state=3, stratify=by)
    assert rows_of(prepare(config)) == [of(train), of(val), of(TEST)]
    assert not [said for said in prepare(config).notes if "changes nothing" in said]


def test_folds_contain_all_rows_that_are_not_for_testing(make_study) -> None:
    config = make_study(CSV + COLUMN, table(PARTS))
    text = Path(config.base_dir / "study.toml").read_text().replace("seed = 7", "folds = 4")
    data = prepare(parse(text, config.base_dir / "study.toml"))
    assert rows_of(data) == [of(np.flatnonzero(PARTS != "test")), [], of(TEST)]
    assert data.n_folds == 4


def test_a_table_may_have_no_rows_for_testing(make_study) -> None:
    data = prepare(make_study(CSV + COLUMN, table(np.where(PARTS == "val", "val", "train"))))
    assert rows_of(data) == [of(np.flatnonzero(PARTS != "val")), of(VAL), []]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            np.where(np.arange(N) == 8, "trian", PARTS),
            "column 'part' of rows.csv: 1 value does not name a split: 'trian' (line 10); "
            "write train, val or test in each row",
        ),
        (
            np.where(np.arange(N) == 8, None, PARTS),
            "column 'part' of rows.csv: 1 value missing (line 10); write train, val or test in "
            "each row",
        ),
        (
            np.where(PARTS == "train", "val", PARTS),
            "column 'part' of rows.csv has no row for training; write train, val or test in each "
            "row",
        ),
        (
            np.where(np.arange(N) == 8, "train", "test"),
            "column 'part' of rows.csv has 1 row for training, and validation takes it; mark more "
            "rows as train, or some as val",
        ),
    ],
)
def test_a_column_that_does_not_split_the_rows_is_refused(
    make_study, values: np.ndarray, problem: str
) -> None:
    with pytest.raises(DataError) as refused:
        prepare(make_study(CSV + COLUMN, table(values)))
    (found,) = refused.value.problems
    assert problem in str(found)


def test_a_share_that_leaves_no_row_to_train_on_is_refused(make_study) -> None:
    split = 'split = { column = "part", val = 0.9 }\n'
    config = make_study(CSV + split, table(np.where(np.arange(N) < 2, "train", "test")))
    with pytest.raises(DataError) as refused:
        prepare(config)
    assert str(refused.value).endswith(
        "column 'part' of rows.csv has 2 rows for training, and validation takes all of them; "
        "mark more rows as train, or some as val, or write a smaller data.split.val"
    )


def test_classes_of_test_rows_alone_do_not_count_for_rows_that_are_drawn(make_study) -> None:
    rows = pd.read_csv(StringIO(table(np.where(PARTS == "test", "test", "train"))))
    rows.loc[rows["part"] == "test", "kind"] = "d"
    split = 'split = { column = "part", stratify = true, val = 0.06 }\n'
    assert len(prepare(make_study(CSV + split, rows.to_csv(index=False))).y_val) == 3


def test_init_does_not_predict_how_rows_are_split(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": np.arange(N), "z": np.arange(N) % 7, "part": PARTS})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    found = guess(tmp_path / "rows.csv")
    assert (found.target, found.because) == ("z", "the last column that can be predicted")
    assert guess(tmp_path / "rows.csv", "part").target == "part"


def test_a_class_too_rare_for_rows_that_are_drawn_is_refused(make_study) -> None:
    rows = pd.read_csv(StringIO(table(np.where(PARTS == "test", "test", "train"))))
    rows.loc[[0, 3], "kind"] = ["d", "d"]
    text = rows.to_csv(index=False)
    split = 'split = { column = "part", stratify = true }\n'
    with pytest.raises(DataError, match=r"a class needs 2 rows .* class 'd' has 1 \(line 2\)"):
        prepare(make_study(CSV + split, text))


def test_settings_that_the_column_replaces_are_reported(make_study) -> None:
    split = 'split = { column = "part", val = 0.3, test = 0.2, stratify = true, seed = 3 }\n'
    study = make_study(CSV + split, table(PARTS))
    notes = prepare(study).notes
    use = {"test": "testing", **dict.fromkeys(("val", "stratify", "seed"), "validation")}
    values = {"test": "0.2", "val": "0.3", "stratify": "true", "seed": "3"}
    assert not any("seed" in said for said in prepare(study.with_repeated_split()).notes)
    assert [said for said in notes if "changes nothing" in said] == [
        f"data.split.{key} = {values[key]} changes nothing: column 'part' says which rows are for "
        f"{use[key]}; remove it"
        for key in use
    ]


def test_a_study_without_the_column_has_the_record_of_earlier_versions(make_study) -> None:
    without = make_study(CSV, table(PARTS)).canonical()["data"]["split"]
    with_column = make_study(CSV + COLUMN).canonical()["data"]["split"]
    assert ("column" in without, with_column["column"]) == (False, "part")


@pytest.mark.parametrize(
    ("values", "splits"),
    [
        (PARTS, True),
        (["train", "test"], True),
        (["train", "train"], False),
        (["train", "plane"], False),
        (["val", "test"], False),
        ([0, 1], False),
    ],
)
def test_columns_that_may_split_rows_are_recognised(values: object, splits: bool) -> None:
    assert splits_rows(pd.Series(values)) is splits


def test_a_column_that_may_split_rows_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(table(PARTS), encoding="utf-8")
    assert guess(tmp_path / "rows.csv", "kind").split_column == "part"
