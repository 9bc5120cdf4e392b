"""`sweeper init` writes study files that run unchanged, and overwrites nothing."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweeper.cli.new_study import Template, begin, filled_in, study_text
from sweeper.config import load, parse
from sweeper.config.json_schema import study_schema
from sweeper.data.guess import Guess, guess
from sweeper.data.lint import data_doubts
from sweeper.data.prepare import prepare
from tests.command_line import CommandLine, settings
from tests.config.schema_checker import faults

SMALL = settings("study.n_trials=2", "train.epochs=1", "schedule.parallel=2")
NUMBERS = [0.5 * i for i in range(60)]
NAMES = ["a", "b", "c"] * 20
LAST = "the last column"


@pytest.mark.parametrize("template", Template)
def test_each_template_is_a_valid_study(template: Template) -> None:
    text = study_text(template, Path("study.toml"))
    config = parse(text, Path("study.toml"))
    assert list(faults(tomllib.loads(text), study_schema())) == []
    assert text.startswith("#:schema ./study.schema.json\n")
    assert set(config.search) == {
        *("model.depth", "model.width", "optimizer.lr", "optimizer.weight_decay")
    }


def test_the_digits_run_as_they_are_written(command: CommandLine) -> None:
    done = command("init")
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads((command.directory / "study.schema.json").read_text(encoding="utf-8"))
    assert schema == json.loads(json.dumps(study_schema()))
    assert load(command.directory / "study.toml").study.n_trials == 64
    assert command("run", "study.toml", "--quiet", *SMALL).returncode == 0


def test_nothing_is_overwritten(command: CommandLine) -> None:
    (command.directory / "study.schema.json").write_text("{}", encoding="utf-8")
    assert command("init", "-o", "mine.toml").returncode == 0
    written = (command.directory / "mine.toml").read_text(encoding="utf-8")
    assert "python -m sweeper run mine.toml\n" in written

    done = command("init", "csv", "-o", "mine.toml")

    hint = "choose another name with -o, or remove it"
    assert (done.returncode, done.stderr) == (
        2,
        f"mine.toml: this file already exists; {hint}\n",
    )
    assert (command.directory / "mine.toml").read_text(encoding="utf-8") == written
    assert (command.directory / "study.schema.json").read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("template", ["csv", "regression"])
def test_problems_with_data_name_the_line_of_its_path(template: str, command: CommandLine) -> None:
    assert command("init", template).returncode == 0
    text = (command.directory / "study.toml").read_text(encoding="utf-8")
    line = next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith("path "))
    done = command("validate", "study.toml")
    assert done.returncode == 3
    assert done.stderr.startswith(f"study.toml:{line}: data.path: no file 'your-data.csv' in ")


@pytest.mark.parametrize(
    ("columns", "target", "because", "is_classes", "values"),
    [
        ({"size": NUMBERS, "price": NUMBERS[::-1]}, "price", LAST, False, 60),
        ({"Label": NAMES, "size": NUMBERS}, "Label", "by its name", True, 3),
        ({"size": NUMBERS, "kind": NAMES}, "kind", LAST, True, 3),
        ({"size": NUMBERS, "digit": [0, 1, 2] * 20}, "digit", LAST, True, 3),
        ({"size": NUMBERS, "count": [*range(60)]}, "count", LAST, False, 60),
        ({"size": NUMBERS, "is_large": [True, False] * 30}, "is_large", LAST, True, 2),
    ],
)
def test_the_column_to_predict_is_guessed(
    columns: dict[str, Any],
    target: str,
    because: str,
    is_classes: bool,
    values: int,
    tmp_path: Path,
) -> None:
    path = tmp_path / "table.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    expected = replace(
        Guess("csv", target, because, is_classes, 60, 1, values=values, rarest=60 // values),
        is_text=columns[target] is NAMES,
    )
    assert guess(path) == expected
    pd.DataFrame(columns).to_parquet(path.with_suffix(".parquet"))
    assert guess(path.with_suffix(".parquet")) == replace(expected, source="parquet")


def test_unusable_columns_are_dropped_and_gaps_are_filled(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "sold_at": pd.date_range("2026-01-01", periods=300),
            "code": [f"row {index}" for index in range(300)],
            "empty": [None] * 300,
            "size": [None, *range(299)],
            "kind": ["a", None, "b"] * 100,
            "price": [0.5 * index for index in range(300)],
        }
    )
    table.to_parquet(tmp_path / "houses.parquet")
    found = guess(tmp_path / "houses.parquet")
    drop = {
        "sold_at": "holds times",
        "code": "is text with 300 different values",
        "empty": "has no value in any row",
    }
    assert found == Guess("parquet", "price", LAST, False, 300, 2, drop, True, 300, 1)

    text = filled_in(
        study_text(Template.REGRESSION, tmp_path / "study.toml"),
        tmp_path / "houses.parquet",
        found,
        tmp_path / "study.toml",
    )
    config = parse(text, tmp_path / "study.toml")
    assert config.canonical()["data"]["drop"] == ["sold_at", "code", "empty"]
    assert config.canonical()["data"]["impute"] == "median"
    assert prepare(config).n_features == 1 + 3


def test_init_reports_what_it_guessed(command: CommandLine) -> None:
    table = pd.DataFrame(
        {
            "patient": range(1, 301),
            "name": [f"row {index}" for index in range(300)],
            "day": [f"2026-01-{index % 28 + 1:02}" for index in range(300)],
            "age": ["about 90" if index == 5 else str(index % 7) for index in range(300)],
            "stay": [index % 11 for index in range(300)],
            "size": [None, *range(299)],
            "cost": [f"{index * 37:,}" for index in range(300)],
            "ward": ["a", "b", "c"] * 100,
        }
    )
    table.to_csv(command.directory / "houses.csv")  # with an index, which is not a column

    done = command("init", "csv", "--data", "houses.csv")

    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "houses.csv: the target is 'ward', the last column, as 3 classes; "
        "choose another with --target NAME",
        "houses.csv: 'patient' is left out: it counts the rows",
        "houses.csv: 'name' is left out: it is text with 300 different values",
        "houses.csv: 'day' is left out: it holds dates or times as text, such as '2026-01-01'",
        "houses.csv: 'age' is left out: it would be numbers, but 'about 90' in line 7 is not a "
        "number; fix that, and remove 'age' from data.drop",
        "houses.csv: 'cost' is left out: it holds numbers written as text, such as '1,036'; read "
        'them with pandas: df = pd.read_csv("houses.csv", index_col=0, dtype=str, '
        "keep_default_na=False, na_values={'cost': ['']}); df['cost'] = "
        'pd.to_numeric(df[\'cost\'].str.replace(r"[^\\d.-]", "", regex=True)); '
        'df.to_csv("houses.csv")',
        'houses.csv: 2 columns to learn from; impute = "median" fills gaps in numbers',
    ]
    config = load(command.directory / "study.toml")
    assert config.canonical()["data"]["drop"] == ["patient", "name", "day", "age", "cost"]
    assert prepare(config).n_features == 2

    done = command("init", "--data", "houses.csv", "--target", "stay", "-o", "other.toml")
    assert done.returncode == 0
    assert done.stderr.startswith("houses.csv: the target is 'stay', as asked, as 11 classes\n")
    assert load(command.directory / "other.toml").canonical()["data"]["target"] == ["stay"]
    done = command("init", "--data", "houses.csv", "--target", "age", "-o", "third.toml")
    assert done.stderr.splitlines()[:2] == [
        "houses.csv: the target is 'age', as asked, as numbers",
        "houses.csv: fix the target before you run the study: 'about 90' in line 7 is not a number",
    ]


def test_init_comments_the_setting_that_keeps_words_as_categories(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"size": np.arange(60.0), "region": ["NA", "EU"] * 30, "y": ["a", "a", "b"] * 20}
    )
    rows.astype({"size": object}).replace({"size": {3.0: "null"}}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    file = tmp_path / "study.toml"

    told = begin(None, file, tmp_path / "rows.csv")

    setting = 'missing_values = ["", "null"]'
    assert f"data.{setting} keeps them as text" in told[1]
    line = f"# {setting}  # so that words such as NA in 'region' stay text\n"
    assert line in file.read_text(encoding="utf-8")
    assert [doubt[:15] for doubt in data_doubts(load(file), prepare(load(file)))] == [
        "column 'region'"
    ]
    file.write_text(file.read_text(encoding="utf-8").replace(f"# {setting}", setting), "utf-8")
    config = load(file)
    assert data_doubts(config, prepare(config)) == ()
    assert prepare(config).transform["categories"][0]["values"] == ("EU", "NA")


def test_a_table_is_read_as_it_is_written(command: CommandLine) -> None:
    table = pd.DataFrame({"größe": np.arange(60) / 4, "kind": ["fig", "pear"] * 30})
    how = {"sep": ";", "decimal": ",", "encoding": "latin-1", "index": False}
    table.to_csv(command.directory / "fruit.csv", **how)

    done = command("init", "--data", "fruit.csv")

    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        'fruit.csv: it is read with separator = ";", decimal = "," and encoding = "latin-1"',
        "fruit.csv: the target is 'kind', the last column, as 2 classes; "
        "choose another with --target NAME",
        "fruit.csv: 1 column to learn from",
    ]
    lines = (command.directory / "study.toml").read_text(encoding="utf-8").splitlines()
    begin = next(index for index, line in enumerate(lines) if line.startswith("path "))
    settings = ['separator = ";"', 'decimal = ","', 'encoding = "latin-1"']
    assert lines[begin + 1 : begin + 4] == settings
    assert prepare(load(command.directory / "study.toml")).feature_names == ("größe",)


@pytest.mark.parametrize("name", ["fruit.tsv", "FRUIT.TXT"])
def test_a_tab_separated_table_may_have_the_suffix_tsv(name: str, command: CommandLine) -> None:
    table = pd.DataFrame({"size": np.arange(60) / 4, "kind": ["fig", "pear"] * 30})
    table.to_csv(command.directory / name, sep="\t", index=False)

    done = command("init", "--data", name)

    assert done.returncode == 0
    assert done.stderr.startswith(f'{name}: it is read with separator = "\\t"\n')
    assert prepare(load(command.directory / "study.toml")).feature_names == ("size",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "arguments", "loss", "target", "told"),
    [
        (
            {"size": NUMBERS, "kind": NAMES},
            (),
            "cross_entropy",
            "kind",
            "last column, as 3 classes",
        ),
        ({"price": NUMBERS, "kind": NAMES}, (), "mse", "price", "by its name, as numbers"),
        (
            {"size": NUMBERS, "digit": [0, 1, 2] * 20},
            ("regression",),
            "mse",
            "digit",
            "last column, as numbers",
        ),
    ],
)
def test_a_study_of_a_table_runs_as_it_is_written(
    columns: dict[str, Any],
    arguments: tuple[str, ...],
    loss: str,
    target: str,
    told: str,
    command: CommandLine,
) -> None:
    (command.directory / "tables").mkdir()
    pd.DataFrame(columns).to_csv(command.directory / "tables" / "my table.csv", index=False)

    done = command("init", *arguments, "--data", "tables/my table.csv")

    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == "my table.csv: 1 column to learn from"
    assert told in done.stderr
    config = load(command.directory / "study.toml")
    assert (config.study.name, config.train.loss) == ("my-table", loss)
    assert config.canonical()["data"]["target"] == [target]
    text = (command.directory / "study.toml").read_text(encoding="utf-8")
    assert 'path   = "tables/my table.csv"' in text
    assert "  # the column to predict" in text
    ran = command("run", "study.toml", "--quiet", *SMALL)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("kinds", "stratify"),
    [(["a", "b"] * 10, True), (["a", "b"] * 5, False), (["a", "b"] * 20 + ["c"], False)],
)
def test_classes_are_stratified_if_possible(
    kinds: list[str], stratify: bool, tmp_path: Path
) -> None:
    table = tmp_path / "table.csv"
    pd.DataFrame({"size": range(len(kinds)), "kind": kinds}).to_csv(table, index=False)

    begin(None, tmp_path / "study.toml", table)

    config = load(tmp_path / "study.toml")
    assert config.data.split.stratify is stratify
    assert len(prepare(config).x_train) > 0


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("csb",), 2, "unknown template 'csb'; use one of digits, csv, regression\n"),
        (("table.txt",), 2, "unknown template 'table.txt'; use --data table.txt\n"),
        (
            ("digits", "--data", "table.txt"),
            2,
            "--data: the digits study takes no table; use csv or regression, or omit it\n",
        ),
        (
            ("--data", "table.xlsx"),
            3,
            "table.xlsx: unknown file type; name a file in .csv, .tsv, .txt or .parquet\n",
        ),
        (
            ("--data", "one.csv"),
            3,
            "one.csv: 2 rows and 1 column; use one with rows and at least two columns\n",
        ),
        (
            ("--data", "few.csv"),
            3,
            "few.csv: 2 rows are too few to train, validate and test on; "
            "use a table with more rows\n",
        ),
        (
            ("--data", "few.csv", "--target", "kin"),
            3,
            "few.csv: --target: no column 'kin'; did you mean 'kind'?\n",
        ),
        (
            ("regression", "--data", "names.csv", "--target", "day"),
            3,
            "names.csv: the target 'day' is text, not numbers; "
            "use `init csv` to predict it as classes, or choose another column with --target\n",
        ),
        (("--target", "kind"), 2, "--target: needs a table; add --data FILE\n"),
        (
            ("--data", "nameless.csv"),
            3,
            "nameless.csv: has no name for column 2; give each column a name; only a first "
            "column that numbers the rows, like pandas' index, needs none\n",
        ),
        (
            ("--data", "names.csv"),
            3,
            "names.csv: no column besides the target 'kind' to learn from: 'day' (holds dates or "
            "times as text, such as '2026-01-01'); use a table with numbers or categories\n",
        ),
        (
            ("--data", "blank.csv"),
            3,
            "blank.csv: the target 'kind' has no value in any row; "
            "fill it in, or name another with --target\n",
        ),
        (("--data", "o*.csv"), 3, "o*.csv: no such file; check the path\n"),
        (("--data", "rainfall.csv"), 3, "rainfall.csv: no such file; check the path\n"),
        (("--data", "ones.csv"), 3, "ones.csv: no such file; did you mean 'one.csv'?\n"),
        (("-o", "nowhere/study.toml"), 3, "No such file or directory"),
    ],
)
def test_init_refuses_unusable_tables(
    arguments: tuple[str, ...], code: int, expected: str, command: CommandLine
) -> None:
    for name in ("table.txt", "table.xlsx"):
        (command.directory / name).write_text("a b\n", encoding="utf-8")
    (command.directory / "one.csv").write_text("a\n1\n2\n", encoding="utf-8")
    (command.directory / "few.csv").write_text("a,kind\n1,x\n2,y\n", encoding="utf-8")
    (command.directory / "nameless.csv").write_text("a,,kind\n1,1,x\n2,2,y\n", encoding="utf-8")
    (command.directory / "blank.csv").write_text("a,kind\n1,\n2,NA\n", encoding="utf-8")
    dates = "day,kind\n2026-01-01,x\n2026-01-02,y\n"
    (command.directory / "names.csv").write_text(dates, encoding="utf-8")
    done = command("init", *arguments)
    assert done.returncode == code
    assert expected in done.stderr
    assert not (command.directory / "study.toml").exists()


def test_init_says_if_numbers_are_taken_as_classes(tmp_path: Path) -> None:
    rows = "".join(f"{number % 7},{number}.5\n" for number in range(100))
    (tmp_path / "table.csv").write_text(f"a,price\n{rows}", encoding="utf-8")
    told = begin("csv", tmp_path / "study.toml", tmp_path / "table.csv")
    assert any("use `init regression` to predict numbers" in one for one in told)
    told = begin(None, tmp_path / "other.toml", tmp_path / "table.csv")
    assert not any("init regression" in one for one in told)
