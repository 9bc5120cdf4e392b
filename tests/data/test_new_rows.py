"""New rows to predict from arrays, which are called as in the study or have all columns in `x`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweeper.data.csv_file import Dialect
from sweeper.data.new_rows import NewRows, read_rows
from sweeper.data.prepare import prepare
from sweeper.data.transform import Transform
from sweeper.errors import DataError, UnfitRowsError

ROWS = np.random.default_rng(0).normal(size=(20, 3))
FEATURES = 'source = "npz"\npath = "rows.npz"\nx = "features"\n'
NPZ = FEATURES.replace('x = "features"\n', "")
CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "t"\n'
NEW = ROWS[:4] + 1
OTHER = -NEW


@pytest.fixture
def transforms(make_study, tmp_path: Path) -> Mapping[str, Transform]:
    """What the studies of a CSV file, of `x`, and of the array `features` do with new rows."""
    np.savez(tmp_path / "rows.npz", x=ROWS, features=ROWS, y=ROWS[:, 0])
    table = pd.DataFrame(ROWS, columns=[*"xyz"]).assign(t=ROWS[:, 0]).to_csv(index=False)
    studies = {"csv": make_study(CSV, table, loss="mse")}
    studies |= {"x": make_study(NPZ, loss="mse"), "features": make_study(FEATURES, loss="mse")}
    made = {name: prepare(one).transform for name, one in studies.items()}
    return {name: Transform.from_dict(one) for name, one in made.items()}


def read(transform: Transform, path: Path, keep: tuple[str, ...] = (), **arrays: Any) -> NewRows:
    np.savez(path / "new.npz", **arrays)
    return read_rows(path / "new.npz", transform, {"y", "t"}, keep)


@pytest.mark.parametrize(
    ("study", "arrays"),
    [
        ("features", {"features": NEW}),
        ("features", {"features": NEW, "prices": NEW[:, 0]}),
        ("features", {"x": NEW}),
        ("features", {"x": NEW, "y": NEW[:, 0]}),
        ("features", {"x": OTHER, "features": NEW}),
        ("x", {"x": NEW}),
        ("x", {"x": NEW.reshape(4, 3, 1), "y": NEW[:, 0], "map": np.zeros((2, 2))}),
        ("csv", {"x": NEW[:, 0], "y": NEW[:, 1], "z": NEW[:, 2]}),
        ("csv", {"x": NEW, "y": NEW[:, 0]}),
    ],
)
def test_arrays_of_the_study_are_preferred_to_x(
    study: str, arrays: Mapping[str, Any], transforms: Mapping[str, Transform], tmp_path: Path
) -> None:
    found = read(transforms[study], tmp_path, **arrays)
    np.testing.assert_array_equal(found.frame.to_numpy(), NEW)


def test_an_x_that_is_not_used_is_named(
    transforms: Mapping[str, Transform], tmp_path: Path
) -> None:
    found = read(transforms["features"], tmp_path, x=OTHER, features=NEW)
    assert found.unused == ["x_0", "x_1", "x_2"]


@pytest.mark.parametrize("array", ["features", "x"])
def test_arrays_are_kept_next_to_those_of_the_study(
    array: str, transforms: Mapping[str, Transform], tmp_path: Path
) -> None:
    arrays = {array: NEW, "id": np.arange(4), "more": np.zeros(9)}
    found = read(transforms["features"], tmp_path, ("id",), **arrays)
    assert found.kept.to_dict("list") == {"id": [0, 1, 2, 3]}


@pytest.mark.parametrize(
    ("study", "arrays", "problem"),
    [
        (
            "features",
            {"features": NEW, "features_1": NEW[:, 0]},
            "the arrays 'features' and 'features_1' both have a column 'features_1'; leave one",
        ),
        (
            "csv",
            {"x": NEW[:, 0], "y": NEW[:2, 1], "z": NEW[:, 2]},
            "'x' has 4 rows, 'y' has 2 rows and 'z' has 4 rows; give each array one element",
        ),
        ("csv", {"x": NEW[:, 0], "y": NEW[:, 1]}, "no column 'z'"),
        ("features", {"x": NEW[:, :2]}, "rows of 2 numbers, but the model needs 3"),
        ("features", {"inputs": NEW, "more": np.zeros(2)}, "no column 'features_0'"),
    ],
)
def test_arrays_that_do_not_fit_the_study_are_refused(
    study: str,
    arrays: Mapping[str, Any],
    problem: str,
    transforms: Mapping[str, Transform],
    tmp_path: Path,
) -> None:
    with pytest.raises(DataError) as caught:
        read(transforms[study], tmp_path, **arrays)
    assert problem in str(caught.value)


@pytest.fixture
def of_commas(make_study) -> Transform:
    """What a study of a CSV file with decimal commas does with new rows."""
    table = pd.DataFrame(ROWS, columns=[*"xyz"]).assign(t=ROWS[:, 0])
    text = table.to_csv(index=False, sep=";", decimal=",")
    study = make_study(CSV + 'separator = ";"\ndecimal = ","\n', text, loss="mse")
    return Transform.from_dict(prepare(study).transform, decimal=",")


def test_a_text_among_decimal_commas_is_the_only_cell_that_is_refused(
    of_commas: Transform, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text("x;y;z\n1,5;2,5;3,5\n1,5;heavy;3,5\n1,5;2,25;3,5\n")
    found = read_rows(tmp_path / "new.csv", of_commas, {"t"}, (), Dialect(";", ","))
    assert found.frame["y"].tolist() == ["2,5", "heavy", "2,25"]
    with pytest.raises(UnfitRowsError, match="column 'y' has non-numbers in 1 row: 'heavy'"):
        of_commas.of(found.frame)


def test_points_among_decimal_commas_are_refused(of_commas: Transform, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("x;y;z\n1,5;2,5;3,5\n1,5;1.234;3,5\n1,5;2,25;3,5\n")
    with pytest.raises(DataError, match=r"has '1\.234' in column 'y', though decimals are ','"):
        read_rows(tmp_path / "new.csv", of_commas, {"t"}, (), Dialect(";", ","))


def test_a_file_with_decimal_points_is_read_with_them(of_commas: Transform, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("x;y;z\n1.5;2.5;3.5\n1.5;1.25;3.5\n")
    found = read_rows(tmp_path / "new.csv", of_commas, {"t"}, (), Dialect(";", ","))
    assert found.frame["y"].tolist() == [2.5, 1.25]
    (tmp_path / "new.csv").write_text("x;y;z\n1.5;2.5;3.5\n1.5; ;3.5\n")
    found = read_rows(tmp_path / "new.csv", of_commas, {"t"}, (), Dialect(";", ","))
    assert found.frame["y"].tolist() == ["2,5", " "]


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({"source": "csv", "missing_values": []}, "NA"),
        ({"source": "csv", "missing_values": ["-"]}, "NA"),
        ({"source": "csv", "missing_values": ["NA"]}, None),
        ({"source": "csv", "missing_values": None}, None),
        ({"source": "csv"}, None),
        ({"source": "parquet"}, None),
    ],
)
def test_words_mean_missing_values_as_in_the_study(
    table: Mapping[str, Any],
    found: str | None,
    transforms: Mapping[str, Transform],
    tmp_path: Path,
) -> None:
    record = {"data": {"transform": transforms["csv"].body}, "settings": {"data": table}}
    (tmp_path / "new.csv").write_text("x,y,z\n1.5,NA,3.5\n1.5,2.5,3.5\n")
    (first, other) = read_rows(tmp_path / "new.csv", Transform.of_record(record), {"t"}).frame["y"]
    assert first == found or (pd.isna(first) and found is None)
    assert float(other) == 2.5


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_file_with_decimal_commas_is_read_with_them(
    separator: str, transforms: Mapping[str, Transform], tmp_path: Path
) -> None:
    def read(text: str) -> NewRows:
        (tmp_path / "new.csv").write_text(text.replace(";", separator))
        return read_rows(tmp_path / "new.csv", transforms["csv"], {"t"}, (), Dialect(separator))

    found = read("x;y;z\n1,5;2,5;3,5\n1,5;1,25;3\n")
    assert found.frame["y"].tolist() == [2.5, 1.25]
    assert found.table.csv is not None
    assert found.table.csv.dialect == Dialect(separator, ",")
    assert read("x;y;z\n1,5;2,5;3\n1,5;heavy;3\n").frame["y"].tolist() == ["2.5", "heavy"]
    assert read("x;y;z\n1.5;big, red;3\n").frame["y"].tolist() == ["big, red"]


@pytest.mark.parametrize("n_rows", [1, 2, 8])
@pytest.mark.parametrize("above", ["", "# a\n", "# a\n# b\n# c\n"])
def test_a_file_with_other_lines_above_the_names_than_that_of_the_study_is_read(
    above: str, n_rows: int, transforms: Mapping[str, Transform], tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text(above + "x,y,z\n" + "1.5,2.5,3.5\n" * n_rows)
    found = read_rows(tmp_path / "new.csv", transforms["csv"], {"t"}, (), Dialect(skip_rows=3))
    assert found.frame["y"].tolist() == [2.5] * n_rows
    assert found.table.csv is not None
    assert found.table.csv.dialect.skip_rows == above.count("\n")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".npy", ".npz"])
def test_a_pointer_of_git_lfs_is_named(
    suffix: str, transforms: Mapping[str, Transform], tmp_path: Path
) -> None:
    path = tmp_path / f"new{suffix}"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(DataError, match="is a pointer of Git LFS, not the file itself; run `git"):
        read_rows(path, transforms["csv"], {"t"})


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (("id",), {"id": [5, 6]}),
        (("id", "n"), {"id": [5, 6], "n": [1, 2]}),
        (("all",), {"x": [0.0, 1.0], "y": [0.0, 1.0], "z": [0.0, 1.0], "n": [1, 2]}),
    ],
)
def test_an_index_of_a_parquet_file_is_kept_if_it_is_named(
    keep: tuple[str, ...],
    kept: Mapping[str, list[float]],
    transforms: Mapping[str, Transform],
    tmp_path: Path,
) -> None:
    rows = pd.DataFrame({key: [0.0, 1.0] for key in "xyz"} | {"n": [1, 2]})
    rows.set_index(pd.Index([5, 6], name="id")).to_parquet(tmp_path / "new.parquet")
    found = read_rows(tmp_path / "new.parquet", transforms["csv"], {"t"}, keep).kept
    assert found.to_dict("list") == kept


@pytest.mark.parametrize("keep", ["__index_level_0__", "ids"])
def test_an_index_without_the_name_to_keep_is_refused(
    keep: str, transforms: Mapping[str, Transform], tmp_path: Path
) -> None:
    rows = pd.DataFrame({key: [0.0, 1.0] for key in "xyz"}, index=[5, 6])
    rows.to_parquet(tmp_path / "new.parquet")
    with pytest.raises(DataError, match=f"no column '{keep}'"):
        read_rows(tmp_path / "new.parquet", transforms["csv"], {"t"}, [keep])


@pytest.mark.parametrize(
    ("others", "kept"),
    [([1.5, 2.5], [1.0, None, 1.5, 2.5]), ([3.0, 4.0], [1.0, None, 3.0, 4.0])],
)
def test_a_column_stays_integer_only_if_every_file_has_integers(
    others: list[float],
    kept: list[float | None],
    transforms: Mapping[str, Transform],
    tmp_path: Path,
) -> None:
    (tmp_path / "new").mkdir()
    rows = pd.DataFrame(NEW[:2], columns=[*"xyz"])
    codes = pd.array([1, None], dtype="Int64")
    for name, n in (("p0", codes), ("p1", others)):
        rows.assign(n=n, code=codes).to_parquet(tmp_path / "new" / f"{name}.parquet")
    found = read_rows(tmp_path / "new", transforms["csv"], {"t"}, ("n", "code")).kept
    assert [str(dtype) for dtype in found.dtypes] == ["Float64", "Int64"]
    assert found["n"].astype(object).where(found["n"].notna(), None).tolist() == kept
