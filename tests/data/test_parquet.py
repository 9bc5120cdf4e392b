"""Parquet tables of several files: directories, patterns and partitions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sweeper.cli.new_study import begin
from sweeper.config import load
from sweeper.data.dataset import Dataset
from sweeper.data.guess import guess
from sweeper.data.new_rows import read_rows
from sweeper.data.parquet import other_values
from sweeper.data.prepare import prepare
from sweeper.data.transform import Transform
from sweeper.errors import DataError

PARQUET = 'source = "parquet"\npath = "PATH"\ntarget = "price"\n'
ROWS = pd.DataFrame(
    {
        "year": [2023, 2024, 2025] * 10,
        "size": [float(i % 7) for i in range(30)],
        "price": [float(i) for i in range(30)],
    }
)


def prepared(make_study, path: str, **changes: object) -> Dataset:
    config = make_study(PARQUET.replace("PATH", path), loss="mse")
    return prepare(config.model_copy(update=changes))


def refused(make_study, path: str) -> str:
    with pytest.raises(DataError) as caught:
        prepared(make_study, path)
    return str(caught.value)


def features(data: Dataset) -> list[tuple[str, str]]:
    return [(one.name, one.kind) for one in data.columns if one.role == "feature"]


@pytest.fixture
def partitioned(tmp_path: Path) -> Path:
    ROWS.to_parquet(tmp_path / "rows", partition_cols=["year"])
    return tmp_path / "rows"


@pytest.mark.parametrize("path", ["rows", "rows/", "rows/**/*.parquet", "rows/year=*/*.parquet"])
def test_partition_directories_are_columns(path: str, make_study, partitioned: Path) -> None:
    data = prepared(make_study, path)
    assert features(data) == [("size", "number"), ("year", "number")]
    frame = pd.read_parquet(partitioned)
    frame.assign(year=frame["year"].astype(int)).to_parquet(partitioned.parent / "flat.parquet")
    assert data.digest == prepared(make_study, "flat.parquet").digest


def test_a_named_index_gets_a_note(make_study, tmp_path: Path) -> None:
    ROWS.set_index("year").to_parquet(tmp_path / "rows.parquet")
    data = prepared(make_study, "rows.parquet")
    assert features(data) == [("size", "number")]
    assert (
        "the index 'year' of rows.parquet is not read as a column: "
        "write the table after df.reset_index() if the model should learn from it"
    ) in data.notes
    ROWS.set_index("price").to_parquet(tmp_path / "rows.parquet")
    assert guess(tmp_path / "rows.parquet", "price").target == "price"


def test_partition_columns_can_be_targets(make_study, partitioned: Path) -> None:
    config = make_study(PARQUET.replace("PATH", "rows").replace("price", "year"))
    assert prepare(config).class_names == ("2023", "2024", "2025")


def test_studies_of_edition_1_resume_without_partition_columns(
    make_study, partitioned: Path
) -> None:
    data = prepared(make_study, "rows/**/*.parquet", edition=1)
    assert features(data) == [("size", "number")]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "02", "10"], "number"),
        (["0.5", "1e-3", "__HIVE_DEFAULT_PARTITION__"], "number"),
        (["1", "2", "none"], "category"),
        (["a%20b", "c", "d"], "category"),
        (["2024-01-01", "2024-01-02", "2024-01-03"], "category"),
        (["12345678901234567890", "1", "2"], "category"),
    ],
)
def test_partition_columns_have_one_type_for_all_directories(
    values: list[str], kind: str, make_study, tmp_path: Path
) -> None:
    for value in values:
        (tmp_path / "rows" / f"key={value}").mkdir(parents=True)
        ROWS[["size", "price"]].to_parquet(tmp_path / "rows" / f"key={value}" / "a.parquet")
    config = make_study(PARQUET.replace("PATH", "rows") + 'impute = "median"\n', loss="mse")
    data = prepare(config)
    assert features(data)[1] == ("key", kind)
    assert ("key_a b" in data.feature_names) == ("a%20b" in values)


def test_a_single_partition_gets_a_note(make_study, partitioned: Path) -> None:
    data = prepared(make_study, "rows/year=2024/*.parquet")
    assert features(data) == [("size", "number")]
    assert data.notes == ("all rows come from year=2024, which is not read as a column",)


def test_files_of_other_partitions_are_refused(make_study, partitioned: Path) -> None:
    ROWS[["size", "price"]].to_parquet(partitioned / "more.parquet")
    assert "are not both below a directory year=..." in refused(make_study, "rows")


def test_hidden_files_of_a_directory_are_not_read(make_study, partitioned: Path) -> None:
    before = prepared(make_study, "rows").digest
    (partitioned / "_delta_log").mkdir()
    for name in ("_metadata.parquet", ".part.parquet", "_delta_log/1.parquet"):
        (partitioned / name).write_text("")
    (partitioned / "_SUCCESS").write_text("")
    assert prepared(make_study, "rows").digest == before


def test_a_directory_without_tables_is_refused(make_study, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    assert "rows is a directory without .parquet files" in refused(make_study, "rows")
    with pytest.raises(DataError, match=r"rows: a directory without .parquet files"):
        guess(tmp_path / "rows")


@pytest.mark.parametrize("name", ["a[1].parquet", "a*.parquet", "what?.parquet", "[x]/a.parquet"])
def test_a_name_with_wildcards_is_a_file_first(name: str, make_study, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    ROWS.to_parquet(tmp_path / name)
    for other in ("a1.parquet", "ab.parquet", "whats.parquet"):
        ROWS.assign(other=1.0).to_parquet(tmp_path / other)
    assert ("other", "number") not in features(prepared(make_study, name))
    begin("regression", tmp_path / "new.toml", tmp_path / name, "price")
    assert prepare(load(tmp_path / "new.toml")).n_features == 2


def test_a_pattern_below_a_directory_with_wildcards(make_study, tmp_path: Path) -> None:
    (tmp_path / "data [v2]").mkdir()
    ROWS.to_parquet(tmp_path / "data [v2]" / "a.parquet")
    assert features(prepared(make_study, "data [v2]/*.parquet"))[1] == ("size", "number")


def test_a_type_that_differs_between_files_is_refused(make_study, tmp_path: Path) -> None:
    ROWS.to_parquet(tmp_path / "a.parquet")
    for changed, kind in ((ROWS["size"].map(str), "text"), (ROWS["size"] > 1, "booleans")):
        ROWS.assign(size=changed).to_parquet(tmp_path / "b.parquet")
        found = f"column 'size' holds numbers in a.parquet and {kind} in b.parquet"
        assert found in refused(make_study, "*.parquet")
    ROWS.assign(size=None)[["price", "size", "year"]].to_parquet(tmp_path / "b.parquet")
    assert "1 value" not in refused(make_study, "*.parquet")  # 30 gaps, and no clash of types


@pytest.mark.parametrize("path", ["rows", "rows/**/*.parquet"])
def test_init_takes_a_directory_or_a_pattern(
    path: str, partitioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(partitioned.parent)
    begin(None, Path("study.toml"), Path(path), "price")
    config = load(Path("study.toml"))
    assert (config.study.name, config.canonical()["data"]["path"]) == ("rows-price", path)
    assert prepare(config).n_features == 2


def test_a_malformed_pattern_is_refused_wherever_a_table_is_named(
    make_study, partitioned: Path
) -> None:
    found = r"not a valid file pattern \('\*\*' stands for whole folders\); write e.g. rows/\*"
    pattern, transform = partitioned / "**.parquet", prepared(make_study, "rows").transform
    with pytest.raises(DataError, match=found):
        begin(None, Path("study.toml"), pattern, "price")
    with pytest.raises(DataError, match=found):
        read_rows(pattern, Transform.from_dict(transform), {"price"})
    assert "is not a valid file pattern" in refused(make_study, "rows/**.parquet")


def test_predict_reads_a_partitioned_table(make_study, partitioned: Path) -> None:
    transform = Transform.from_dict(prepared(make_study, "rows").transform)
    assert read_rows(partitioned, transform, {"price"}).frame["year"].nunique() == 3
    (file,) = (partitioned / "year=2024").iterdir()
    rows = read_rows(file, transform, {"price"}, keep=["year"])
    assert rows.frame["year"].tolist() == rows.kept["year"].tolist() == [2024] * 10
    with pytest.raises(DataError, match=r"nothing.parquet: cannot be read: no such file"):
        read_rows(partitioned / "nothing.parquet", transform, {"price"})


def test_a_column_that_contradicts_its_directory_is_refused(make_study, partitioned: Path) -> None:
    years = {file: int(file.parent.name[-4:]) for file in partitioned.glob("*/*.parquet")}
    for file, year in years.items():
        pd.read_parquet(file, partitioning=None).assign(year=year).to_parquet(file)
    assert ("year", "number") in features(prepared(make_study, "rows"))
    transform = Transform.from_dict(prepared(make_study, "rows").transform)

    file, year = next(iter(years.items()))
    pd.read_parquet(file, partitioning=None).assign(year=1999).to_parquet(file)
    found = rf"column 'year' of .*{file.name} has 1999, but its directory year={year}; remove the"
    assert re.search(found, refused(make_study, "rows"))
    for read in (guess, lambda path: read_rows(path, transform, {"price"})):
        with pytest.raises(DataError, match=found):
            read(partitioned)
    (note,) = prepared(make_study, f"rows/year={year}").notes
    assert note == (f"all rows come from year={year}, but column 'year' has 1999; the column wins")


def test_a_column_of_the_files_is_preferred_to_a_directory_of_all(
    make_study, tmp_path: Path
) -> None:
    path = tmp_path / "size=9" / "year=2024"
    path.mkdir(parents=True)
    ROWS.to_parquet(path / "rows.parquet")
    data = prepared(make_study, "size=9/year=2024/rows.parquet")
    assert [note.partition(", but ")[2] for note in data.notes] == [
        "column 'size' has 0; the column wins",
        "column 'year' has 2023; the column wins",
    ]
    transform = Transform.from_dict(data.transform)
    for table in (path / "rows.parquet", path, path.parent):
        found = read_rows(table, transform, {"price"}).frame
        pd.testing.assert_frame_equal(found, ROWS[["year", "size"]])
    ROWS.drop(columns="size").to_parquet(path / "rows.parquet")
    assert read_rows(path, transform, {"price"}).frame["size"].tolist() == [9] * len(ROWS)


def test_all_columns_include_those_of_directories_below_the_path(
    make_study, partitioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ROWS.drop(columns="year").to_parquet(partitioned.parent / "flat.parquet")
    transform = Transform.from_dict(prepared(make_study, "flat.parquet").transform)
    monkeypatch.chdir(partitioned.parent)
    for path in (partitioned, partitioned / "year=*" / "*.parquet", Path("rows"), Path("r*/*/*")):
        kept = read_rows(path, transform, {"price"}, keep=["all"]).kept
        assert [*kept] == ["size", "price", "year"]
        assert kept["year"].tolist() == sorted(ROWS["year"])
    (file,) = (partitioned / "year=2024").iterdir()
    assert [*read_rows(file, transform, {"price"}, keep=["all"]).kept] == ["size", "price"]


@pytest.mark.parametrize(
    ("values", "directory", "others"),
    [
        ([2024, 2024], "2024", ""),
        (["01", "01"], "01", ""),
        (["1", "1"], "01", "1"),
        ([1, 1], "01", ""),
        ([True], "true", ""),
        ([pd.Timestamp("2024-01-31")], "2024-01-31", ""),
        ([None, "a"], "a", "missing values"),
        ([None, None], None, ""),
        (["a"], None, "a"),
    ],
)
def test_a_column_is_compared_with_the_name_of_its_directory(
    values: list[Any], directory: str | None, others: str
) -> None:
    assert other_values(pd.Series(values), directory) == others


def test_a_path_that_is_not_utf_8_is_named_as_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "h\udce9.parquet"
    ROWS.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "rows.parquet").rename(path)
    with pytest.raises(DataError, match="because its path is not UTF-8; rename the file or its"):
        guess(path)
