"""Rows are predicted the same in every type that a table can have, here and by `load.py`."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sweeper
from sweeper.data.csv_file import CsvFile
from sweeper.data.prepare import read
from sweeper.data.split import split_rows
from sweeper.errors import DataError, SetupError
from sweeper.export import export, predict
from sweeper.export.predict import classes_to_write, predict_table, written_range
from sweeper.export.saved_model import SavedModel, UnknownCategoryWarning
from sweeper.programs.saved_file import content_of, read_saved
from sweeper.results.formatting import number
from sweeper.results.predictions import Predictions
from tests.command_line import CommandLine

STUDY = """\
version = 1
study = { name = "codes", metric = "val_loss", direction = "minimize", n_trials = 1 }
model = { kind = "mlp", depth = 1, width = 4 }
optimizer = { name = "adam", lr = 1e-2 }
train = { loss = "cross_entropy", epochs = 3, batch_size = 16 }
search.optimizer.lr = { type = "float", low = 1e-2, high = 1e-1 }
execution = { threads = 1, workers = 0 }
results = { dir = "run", keep_models = 1 }
[data]
source = "csv"
path = "codes.csv"
target = "kind"
categorical_columns = ["zip", "dose"]
missing_values = [""]
impute = "median"
"""
CLEAN = pd.DataFrame(
    {
        "zip": [1234, 5678, 90210],
        "flag": ["True", "maybe", "False"],
        "dose": [0.1, 0.7, 0.2],
        "x": [0.5, 0.25, 1.0],
    }
)
TABLES: Mapping[str, pd.DataFrame | pl.DataFrame] = {
    "text": CLEAN.astype(str),
    "nullable": CLEAN.convert_dtypes(),
    "pyarrow": CLEAN.convert_dtypes(dtype_backend="pyarrow"),
    "category": CLEAN.astype("category"),
    "single precision": CLEAN.astype({"zip": "float32", "dose": "float32"}),
    "objects": CLEAN.astype(object),
    "Polars": pl.from_pandas(CLEAN),
}


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported model of a small study with three columns of categories."""
    directory = tmp_path_factory.mktemp("codes")
    rows = pd.concat([CLEAN] * 20, ignore_index=True)
    rows = rows.assign(kind=["None", "Yes", "No"] * 20, x=np.arange(60) / 60)
    rows.to_csv(directory / "codes.csv", index=False)
    (directory / "study.toml").write_text(STUDY, encoding="utf-8")
    run_dir = directory / "run"
    sweeper.run(sweeper.load_study(directory / "study.toml", [f"results.dir={run_dir}"]))
    export(run_dir, None, 0, directory / "best")
    return directory / "best"


@pytest.fixture(scope="module")
def saved(best: Path) -> SavedModel:
    return sweeper.load(best)


@pytest.fixture(scope="module")
def alone(best: Path) -> ModuleType:
    """The module `load.py` that was exported."""
    spec = importlib.util.spec_from_file_location("exported_load", best / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_words_may_be_classes(saved: SavedModel) -> None:
    assert saved.class_names == ("No", "None", "Yes")


@pytest.mark.filterwarnings("ignore:'x' has numbers beyond")
@pytest.mark.parametrize("table", TABLES)
def test_every_type_of_table_gives_the_same_features(
    table: str, saved: SavedModel, alone: ModuleType
) -> None:
    expected = saved.features(CLEAN)

    assert expected[:, 1:].sum() == 9
    np.testing.assert_array_equal(saved.features(TABLES[table]), expected)
    np.testing.assert_array_equal(alone.features(TABLES[table]), expected)


@pytest.mark.filterwarnings("ignore:'x' has missing values")
def test_empty_text_in_a_column_of_numbers_is_a_gap(saved: SavedModel, alone: ModuleType) -> None:
    rows, expected = CLEAN.assign(x=["0.5", "", "0.25"]), CLEAN.assign(x=[0.5, float("nan"), 0.25])
    for one in (saved, alone):
        np.testing.assert_array_equal(one.features(rows), one.features(expected))


def rows_of(*flags: str, zips: tuple[str, ...] = ("1234", "5678", "90210")) -> str:
    lines = [f"{z},{flag},0.1,0.5" for z, flag in zip(zips, flags, strict=True)]
    return "\n".join(["zip,flag,dose,x", *lines, ""])


def test_a_stray_value_in_a_file_only_changes_its_own_row(best: Path, tmp_path: Path) -> None:
    path, told = tmp_path / "new.csv", list[str]()

    def lines(text: str) -> list[str]:
        path.write_text(text, encoding="utf-8")
        return predict_table(best, path, told.append).as_csv().splitlines()[1:]

    clean = lines(rows_of("True", "maybe", "False"))
    assert told == []
    for odd in (
        rows_of("True", "maybe", "??"),
        rows_of("True", "maybe", "False", zips=("1234", "5678.0", "K1A")),
        rows_of("true", "maybe", "False", zips=("1234", "5678", "01234")),
    ):
        assert lines(odd)[1] == clean[1]
    assert lines(rows_of("True", "maybe", "??"))[:2] == clean[:2]
    taken = "it is taken as none of the known categories"
    hint = f"column 'zip' has 'K1A' in 1 row, which no training row had; {taken} (line 4)"
    assert f"new.csv: {hint}" in told


def test_a_column_without_a_known_category_is_refused_with_its_lines(
    best: Path, tmp_path: Path, alone: ModuleType
) -> None:
    path = tmp_path / "new.csv"
    path.write_text(rows_of("yes", "no", "NA"), encoding="utf-8")

    with pytest.raises(DataError) as refusal:
        predict_table(best, path, [].append)

    assert str(refusal.value) == (
        "new.csv: column 'flag' has only values that no training row had: 'yes', 'no', 'NA' "
        "(lines 2, 3, 4); write them as in training: 'False', 'True', 'maybe'"
    )
    with pytest.raises(ValueError, match="'flag' has no value that training rows had"):
        alone.features(pd.read_csv(path, keep_default_na=False))


def test_numbers_that_are_not_read_as_written_are_refused(
    best: Path, tmp_path: Path, saved: SavedModel
) -> None:
    path = tmp_path / "new.csv"
    for x, found in (
        ("$5", "column 'x' has non-numbers in 1 row: '$5' is not a number (line 3)"),
        (str(2**53 + 1), f"{2**53 + 1} has more digits than a float holds (line 3)"),
    ):
        path.write_text(
            rows_of("True", "maybe", "False").replace("maybe,0.1,0.5", f"maybe,0.1,{x}")
        )
        with pytest.raises(DataError) as refusal:
            predict_table(best, path, [].append)
        assert found in str(refusal.value)
    odd: Any
    for odd in (np.array([1j, 2, 3]), np.array([1, 2, 3], "m8[s]")):
        with pytest.raises(ValueError, match="column 'x' has non-numbers"):
            saved.features(CLEAN.assign(x=odd))


@pytest.mark.parametrize("name", ["new_row.csv", "new_rows.cvs", "new_row.parquet"])
def test_a_misspelt_table_is_refused_with_the_one_that_may_be_meant(
    name: str, best: Path, tmp_path: Path
) -> None:
    (tmp_path / "new_rows.csv").touch()
    with pytest.raises(DataError) as refused:
        predict_table(best, tmp_path / name, warnings.warn)
    assert "no such file" in str(refused.value).lower()
    assert str(refused.value).endswith(f"; did you mean '{tmp_path / 'new_rows.csv'}'?")


@pytest.mark.parametrize(
    ("file", "name"), [("model.onnx", "ONNX"), ("model.stablehlo", "StableHLO")]
)
def test_a_directory_of_another_format_is_refused_by_its_name(
    file: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / file).touch()
    with pytest.raises(SetupError, match=f"{tmp_path}: exported as {name}, without the model"):
        read_saved(tmp_path)


def test_one_unknown_value_gets_a_warning(saved: SavedModel) -> None:
    rows = CLEAN.assign(flag=["True", "maybe", "odd"])
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", UnknownCategoryWarning)
        found = saved.features(rows)
    assert [str(doubt.message) for doubt in doubts] == [
        "column 'flag' has 'odd' in 1 row, which no training row had; it is taken as none of the "
        "known categories"
    ]
    np.testing.assert_array_equal(found[:2], saved.features(CLEAN)[:2])


def test_filled_gaps_and_numbers_beyond_the_training_range_are_named(
    best: Path, tmp_path: Path
) -> None:
    path, told = tmp_path / "new.csv", list[str]()

    def predict(*x: str) -> list[str]:
        told.clear()
        rows = rows_of("True", "maybe", "False").splitlines()
        lines = (f"{row.rpartition(',')[0]},{one}" for row, one in zip(rows[1:], x, strict=True))
        path.write_text("\n".join([rows[0], *lines]), encoding="utf-8")
        return predict_table(best, path, told.append).as_csv().splitlines()

    raw = read(config := sweeper.load_study(best.parent / "study.toml"))
    x = raw.frame["x"].iloc[split_rows(config, raw).train]
    predict(str(x.min()), str(x.max()), "0.5")
    assert told == []
    for blank in ("", "  "):
        lines = predict(blank, "999999", "-3.5")
        assert told == [
            "new.csv: missing values are filled as in training: 1 of 'x'",
            "new.csv: column 'x': 2 rows beyond the training range, "
            f"{number(x.min())} to {number(x.max())}, such as 999999 (lines 3, 4)",
        ]
    assert all(len(field) <= 12 for line in lines[1:] for field in line.split(",")[1:])


def test_an_error_in_finding_lines_is_not_blamed_on_the_model(
    best: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: CsvFile) -> list[int]:
        raise LookupError("lines")

    monkeypatch.setattr(CsvFile, "row_lines", fail)
    for text in (rows_of("True", "maybe", "False").replace("0.5", "999"), rows_of("a", "b", "c")):
        (tmp_path / "new.csv").write_text(text, encoding="utf-8")
        with pytest.raises(LookupError, match=r"^lines$"):
            predict_table(best, tmp_path / "new.csv", lambda _: None)


def test_load_py_warns_of_what_predict_reports(alone: ModuleType) -> None:
    """Gaps that are filled, numbers beyond the training range, and new or missing categories."""
    rows = CLEAN.assign(x=[0.5, np.nan, 999999.0], flag=np.array(["True", "odd", None], object))
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        alone.features(rows)
    taken = "they are taken as none of the known categories"
    assert [str(doubt.message) for doubt in doubts] == [
        "'x' has missing values in 1 of 3 rows, filled as in training",
        "'x' has numbers beyond the training range in 1 of 3 rows",
        f"'flag' has values that no training row had; {taken}",
        f"'flag' has missing values, which no training row had; {taken}",
    ]


@pytest.mark.filterwarnings("ignore:'x' has numbers beyond")
@pytest.mark.parametrize("row", [CLEAN.iloc[0], CLEAN.iloc[0].to_dict()], ids=["Series", "dict"])
def test_a_single_row_may_have_single_values(
    row: Any, saved: SavedModel, alone: ModuleType
) -> None:
    expected = saved.predict(CLEAN.iloc[:1])
    assert saved.predict(row).tolist() == alone.predict(row).tolist() == expected.tolist()


def test_load_py_refuses_a_number_that_is_too_large_as_predict_does(
    saved: SavedModel, alone: ModuleType
) -> None:
    rows = CLEAN.assign(x=[0.5, 1e300, 0.5])
    for features in (saved.features, alone.features):
        with pytest.raises(ValueError, match="too large for float32"):
            features(rows)


def test_a_table_without_rows_has_no_features(saved: SavedModel, alone: ModuleType) -> None:
    for features in (saved.features, alone.features):
        assert features(CLEAN[:0]).shape == (0, saved.features(CLEAN).shape[1])


def test_a_model_of_an_earlier_version_has_no_training_range(
    best: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = tmp_path / "new.csv", list[str]()
    path.write_text(rows_of("True", "maybe", "False").replace("0.5", "999999"), encoding="utf-8")
    file = read_saved(best)
    del file.record["data"]["ranges"]
    (tmp_path / "old.safetensors").write_bytes(content_of(file.tensors, file.record))
    predict_table(tmp_path / "old.safetensors", path, told.append)
    assert told == []


def test_an_existing_output_is_refused_before_anything_is_read(
    command: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "out.csv").write_text("mine\n", encoding="utf-8")
    refused = command("predict", "no-model", "no-rows.csv", "-o", "out.csv")
    assert refused.returncode == 2
    assert "out.csv: this file already exists" in refused.stderr
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.5, 12.0, "0.5 to 12"),
        (1700000000.5, 1700086400.25, "1700000000.5 to 1700086400.25"),
    ],
)
def test_the_ends_of_a_range_are_told_apart(low: float, high: float, text: str) -> None:
    assert written_range(low, high) == text


OPEN = "import sys, sweeper\nsweeper.load(sys.argv[1])"


@pytest.mark.parametrize("how", ["predict", "load"])
def test_a_device_that_cannot_be_opened_is_not_blamed_on_the_model(
    how: str, best: Path, tmp_path: Path
) -> None:
    CLEAN.to_csv(tmp_path / "rows.csv", index=False)
    words = (
        ["-m", "sweeper", how, str(best), "rows.csv"] if how == "predict" else ["-c", OPEN, best]
    )
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "JAX_PLATFORMS": "elsewhere"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == (3 if how == "predict" else 1)
    *before, last = done.stderr.splitlines()
    assert last.removeprefix("sweeper.errors.SetupError: ").startswith(
        "JAX: no device can be opened: Unable to initialize backend 'elsewhere'"
    )
    assert how == "load" or not before


def test_rows_that_take_too_much_memory_are_not_blamed_on_the_model(
    best: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(SavedModel):
        def outputs(self, rows: Any) -> Any:
            raise MemoryError("Unable to allocate 81 GiB")

    def load(*given: Any, **named: Any) -> SavedModel:
        loaded = sweeper.load(*given, **named)
        return Full(loaded.state, loaded.settings, loaded.info, loaded.digest)

    CLEAN.to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr(predict, "load", load)
    with pytest.raises(DataError) as refused:
        predict_table(best, tmp_path / "rows.csv", lambda warning: None)
    assert str(refused.value) == (
        "rows.csv: too little memory for so many rows; "
        "split the table, and predict one part after the other"
    )


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("out.pq", ".pq files are not written, only CSV and Parquet; use out.csv or out.parquet"),
        ("out.CSV.gz", ".gz files are not written, only CSV and Parquet; use out.csv or out.p"),
        ("out.parquet.gz", ".gz files are not written, only CSV and Parquet; use out.csv or "),
        ("out.TSV", ".tsv files are not written, only CSV and Parquet; use out.csv or "),
        ("no/out.csv", "the directory no does not exist; create it, or choose another path with"),
    ],
)
def test_a_file_that_cannot_be_written_as_named_is_refused_before_the_prediction(
    output: str, found: str, command: CommandLine
) -> None:
    refused = command("predict", "no-model", "no-rows.csv", "-o", output)
    assert refused.returncode in (2, 3)
    assert refused.stderr.startswith(f"{output}: {found}")


def test_predictions_in_parquet_equal_those_in_csv_and_keep_the_types_of_the_table(
    best: Path, tmp_path: Path, command: CommandLine
) -> None:
    days = pd.to_datetime(["2024-01-01", None, "2024-01-03"]).as_unit("us")
    rows = CLEAN.assign(day=days, count=pd.array([1, None, 3], dtype="Int64"), kind=["a", "b", ""])
    table = pa.Table.from_pandas(rows, preserve_index=False)  # without what pandas adds:
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "rows.parquet")
    for name in ("new.csv", "new.parquet"):
        done = command("predict", str(best), "rows.parquet", "--keep", "all", "-o", name)
        assert done.stdout == f"written to {name}; 3 rows\n"
    text, table = (
        pd.read_csv(tmp_path / "new.csv", keep_default_na=False),
        pq.read_table(tmp_path / "new.parquet"),
    )
    assert table.column_names == [*text]
    stored = pq.read_schema(tmp_path / "rows.parquet")
    assert [table.schema.field(name) for name in rows] == [stored.field(name) for name in rows]
    found = table.to_pandas()
    assert found["count"].tolist()[::2] == [1, 3]
    assert text["count"].tolist() == ["1", "", "3"]
    others = [name for name in found if name not in rows]
    assert others == ["predicted kind", *(f"probability of {one}" for one in ("No", "None", "Yes"))]
    assert found[others[0]].tolist() == text[others[0]].tolist()
    np.testing.assert_array_equal(found[others[1:]], text[others[1:]])


def test_no_kept_column_is_replaced_by_a_prediction(best: Path, tmp_path: Path) -> None:
    path = tmp_path / "again.csv"
    CLEAN.assign(kind="a").to_csv(path, index=False)
    for _ in range(2):
        found = predict_table(best, path, [].append, ["all"])
        path.write_text(found.as_csv(), encoding="utf-8")
    columns = [*pd.read_csv(path)]
    assert columns[4:6] == ["kind", "predicted kind"]
    assert columns[-4:-2] == ["predicted predicted kind", "predicted probability of No"]
    assert [*pd.read_parquet(io.BytesIO(found.as_parquet()))] == columns


@pytest.mark.parametrize(
    ("values", "names", "expected"),
    [
        ((7, 8), ("7", "8"), [7, 8]),
        ((0, 2**63), ("0", "9223372036854775808"), [0, 2**63]),
        ((False, True), ("False", "True"), [False, True]),
        ((0, 1), ("setosa", "virginica"), ["setosa", "virginica"]),
        ((0.5, 2.0), ("0.5", "2"), ["0.5", "2"]),
        (("01", "1"), ("01", "1"), ["01", "1"]),
    ],
)
def test_predicted_classes_have_the_type_that_they_have_in_the_data(
    values: tuple[Any, ...], names: tuple[str, ...], expected: list[Any]
) -> None:
    found = Predictions(pd.DataFrame(index=[0, 1]), {"y": classes_to_write(names, values).tolist()})
    stored = pd.read_parquet(io.BytesIO(found.as_parquet()))["y"].tolist()
    assert ([*map(type, stored)], stored) == ([*map(type, expected)], expected)
    assert found.as_csv().splitlines() == ["y", *names]


def test_a_column_that_parquet_cannot_store_is_refused(best: Path, tmp_path: Path) -> None:
    table = pa.Table.from_pandas(CLEAN, preserve_index=False)
    maps = pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64()))
    pq.write_table(table.append_column("more", maps), tmp_path / "rows.parquet")
    found = predict_table(best, tmp_path / "rows.parquet", [].append, ["more"])
    assert found.as_csv()
    with pytest.raises(DataError, match=r"^--keep: a column cannot be written as Parquet: .*; do"):
        found.as_parquet()


def test_text_of_a_csv_file_is_kept_as_written_in_parquet(best: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    rows = rows_of("True", "maybe", "False").splitlines()
    lines = (f"{row},{one}" for row, one in zip(rows, ("id", "007", "NA", ""), strict=True))
    path.write_text("\n".join(lines), encoding="utf-8")
    found = predict_table(best, path, [].append, ["id"])
    stored = pd.read_parquet(io.BytesIO(found.as_parquet()))
    assert stored["id"].tolist() == ["007", "NA", ""]


def test_an_option_for_csv_is_refused_with_parquet(command: CommandLine) -> None:
    refused = command("predict", "no", "no.csv", "-o", "new.parquet", "--quote-formulas")
    assert refused.returncode == 2
    assert refused.stderr == "--quote-formulas: has no effect on a Parquet file; remove it\n"
