"""`sweeper init` writes study files that run unchanged, and overwrites nothing."""

from __future__ import annotations

import json
import shlex
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweeper.cli.new_study import Template, begin, study_text, table_study_text
from sweeper.config import load, parse
from sweeper.config.json_schema import study_schema
from sweeper.data.guess import Guess, guess
from sweeper.data.lint import data_warnings
from sweeper.data.prepare import prepare
from sweeper.data.transform import Transform
from sweeper.errors import DataError
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
    dropout = set() if template is Template.DIGITS else {"model.dropout"}
    assert set(config.search) == {
        *("model.depth", "model.width", "optimizer.lr", "optimizer.weight_decay"),
        *dropout,
    }


def test_the_digits_run_as_they_are_written(command: CommandLine) -> None:
    done = command("init")
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads((command.directory / "study.schema.json").read_text(encoding="utf-8"))
    assert schema == json.loads(json.dumps(study_schema()))
    assert load(command.directory / "study.toml").study.n_trials == 128
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
        ({"class": NAMES, "survived": NUMBERS}, "survived", LAST, False, 60),
        ({"price": NUMBERS, "class": NAMES}, "class", LAST, True, 3),
        ({"Survived": NAMES, "size": NUMBERS}, "Survived", "by its name", True, 3),
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
        commonest=60 // values,
        numbers=int(NUMBERS in columns.values() and columns[target] is not NUMBERS),
        is_text=columns[target] is NAMES,
        codes="3 integers from 0 to 2" if target == "digit" else "",
        rarest_value=str(columns[target][0]),
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
            "country": ["CH"] * 300,
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
        "country": "has the same value in every row",
    }
    assert found == Guess(
        *("parquet", "price", LAST, False, 300, 2, drop, 300, 1, 1, 1),
        hints=found.hints,
        time="sold_at",
        has_gaps=True,
        rarest_value="0.0",
    )

    text = table_study_text(
        Template.REGRESSION,
        tmp_path / "houses.parquet",
        found,
        tmp_path / "study.toml",
    )
    config = parse(text, tmp_path / "study.toml")
    assert config.canonical()["data"]["drop"] == ["sold_at", "code", "empty", "country"]
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
    assert done.stderr.splitlines()[:-1] == [
        "houses.csv: the target is 'ward', the last column, as 3 classes; "
        "choose another with --target NAME",
        "houses.csv: to learn from the dates in 'day', count days with pandas: "
        "df['day'] = (pd.to_datetime(df['day'], utc=True) - pd.Timestamp(0, tz=\"UTC\")) / "
        "pd.Timedelta(days=1), and remove 'day' from data.drop",
        "houses.csv: rows are split at random; if they are a series in time, test on the latest: "
        'split = { val = 0.2, test = 0.1, time = "day" } instead of split in [data]',
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
    study = command.directory / "study.toml"
    config = load(study)
    assert config.canonical()["data"]["drop"] == ["patient", "name", "day", "age", "cost"]
    assert prepare(config).n_features == 2
    random, comment = (line for line in study.read_text().splitlines() if "split" in line[:10])
    assert comment.endswith("# instead, for a series in time")
    study.write_text(study.read_text().replace(f"{random}\n# ", "", 1))
    assert load(study).data.split.time == "day"
    assert prepare(load(study)).n_features == 2

    done = command("init", "--data", "houses.csv", "--target", "stay", "-o", "other.toml")
    assert done.returncode == 0
    assert done.stderr.startswith("houses.csv: the target is 'stay', as asked, as 11 classes\n")
    assert load(command.directory / "other.toml").canonical()["data"]["target"] == ["stay"]
    done = command("init", "--data", "houses.csv", "--target", "age", "-o", "third.toml")
    assert done.stderr.splitlines()[:2] == [
        "houses.csv: the target is 'age', as asked, as numbers",
        "houses.csv: fix the target before you run the study: 'about 90' in line 7 is not a number",
    ]


def test_init_shows_how_to_read_a_few_words_among_numbers_as_missing(command: CommandLine) -> None:
    n = pd.Series(range(100))
    table = pd.DataFrame(
        {
            "year": (1950 + n % 60).astype(str).mask(n % 17 == 3, "k.A.").mask(n == 5, "NA"),
            "size": n % 7 / 2,
            "price": (n * 3.5).astype(str).mask(n % 13 == 2, "on request"),
        }
    )
    table.to_csv(command.directory / "houses.csv", index=False)
    done = command("init", "--data", "houses.csv")
    words = '["", "NA", "k.A."]'
    assert (
        f"'k.A.' in line 5 is not a number, nor are 5 more; write missing_values = {words} in "
        "[data] if that means a missing value, or fix that, and remove 'year' from data.drop"
    ) in done.stderr
    assert (
        "fix the target before you run the study: 'on request' in line 4 is not a number, nor are "
        '7 more; write missing_values = ["", "NA", "on request"] and missing_target = "drop" in '
        "[data] if that means a missing value\n"
    ) in done.stderr

    study = command.directory / "study.toml"
    settings = 'missing_values = ["", "NA", "k.A.", "on request"]\nmissing_target = "drop"\n'
    study.write_text(study.read_text().replace('drop   = ["year"]', f"{settings}drop = []"))
    data = prepare(load(study))
    assert (data.n_features, data.feature_names) == (2, ("year", "size"))


@pytest.mark.parametrize(("name", "least", "noted"), [("Weight", 0, True), ("fnlwgt", -1, False)])
def test_init_comments_the_setting_that_weights_rows(
    name: str, least: int, noted: bool, command: CommandLine
) -> None:
    """Of a column that could be meant so; it is a feature until the user says so."""
    table = pd.DataFrame({"size": np.arange(100) % 7, name: np.arange(100) % 9 + least})
    table.assign(kind=["a", "b"] * 50).to_csv(command.directory / "rows.csv", index=False)
    done = command("init", "--data", "rows.csv")
    note = f"rows.csv: '{name}' is a feature; if it says how much a row counts, write weight = "
    assert (note in done.stderr) is noted
    study = command.directory / "study.toml"
    assert prepare(load(study)).n_features == 2
    if noted:
        comment = f'# weight = "{name}"  # '
        assert comment in study.read_text()
        study.write_text(study.read_text().replace("# weight =", "weight ="))
        assert prepare(load(study)).n_features == 1


def test_init_comments_the_setting_that_splits_rows_as_a_column_says(command: CommandLine) -> None:
    part = np.array(["train", "train", "train", "val", "test"])[np.arange(100) % 5]
    table = pd.DataFrame({"size": np.arange(100) % 7, "part": part, "kind": ["a", "b"] * 50})
    table.to_csv(command.directory / "rows.csv", index=False)
    done = command("init", "--data", "rows.csv")
    given = 'split = { column = "part" }'
    note = f"rows.csv: 'part' is a feature; if it says how to split the rows, write {given} instead"
    assert note in done.stderr
    study = command.directory / "study.toml"
    lines = study.read_text().splitlines(keepends=True)
    (comment,) = [line for line in lines if line.startswith(f"# {given}  # ")]
    text = "".join(line for line in lines if not line.startswith("split "))
    study.write_text(text.replace(comment, comment[2:]))
    data = prepare(load(study))
    assert (data.n_features, len(data.x_train), len(data.y_test)) == (1, 60, 20)


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
    assert [warning[:15] for warning in data_warnings(load(file), prepare(load(file)))] == [
        "column 'region'"
    ]
    file.write_text(file.read_text(encoding="utf-8").replace(f"# {setting}", setting), "utf-8")
    config = load(file)
    assert data_warnings(config, prepare(config)) == ()
    assert prepare(config).transform["categories"][0]["values"] == ("EU", "NA")


def test_a_table_is_read_as_it_is_written(command: CommandLine) -> None:
    table = pd.DataFrame({"größe": np.arange(60) / 4, "kind": ["fig", "pear"] * 30})
    how = {"sep": ";", "decimal": ",", "encoding": "latin-1", "index": False}
    table.to_csv(command.directory / "fruit.csv", **how)

    done = command("init", "--data", "fruit.csv")

    assert done.returncode == 0
    assert done.stderr.splitlines()[:-1] == [
        'fruit.csv: it is read with separator = ";", decimal = "," and encoding = "latin-1"',
        "fruit.csv: the target is 'kind', the last column, as 2 classes; "
        "choose another with --target NAME",
        'fruit.csv: 1 column to learn from; impute = "median" fills gaps in numbers',
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
    assert done.stderr.splitlines()[-2].startswith("my table.csv: 1 column to learn from")
    assert done.stderr.splitlines()[-1].startswith("it takes about 0:")
    assert told in done.stderr
    config = load(command.directory / "study.toml")
    named = "my-table-numbers" if arguments else "my-table"
    assert (config.study.name, config.train.loss) == (named, loss)
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
            "table.xlsx: unknown file type; save it as CSV in the spreadsheet program, or use "
            'pandas: pandas.read_excel("table.xlsx").to_csv("table.csv", index=False)\n',
        ),
        (
            ("--data", "table.npz"),
            3,
            'table.npz: unknown file type; write source = "npz" and path = "table.npz" in [data] '
            "of a file that `sweeper init` wrote; its arrays are x and y\n",
        ),
        (
            ("--data", "table.json"),
            3,
            "table.json: unknown file type; name a file in .csv, .tsv, .txt or .parquet\n",
        ),
        (
            ("--data", "absent.xlsx"),
            3,
            "absent.xlsx: no such file; check the path\n",
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
            "names.csv: the target 'day' holds dates or times as text, such as '2026-01-01'; "
            "count days with pandas: df['day'] = (pd.to_datetime(df['day'], utc=True) - "
            'pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1), or name another with --target\n',
        ),
        (
            ("regression", "--data", "few.csv", "--target", "kind"),
            3,
            "few.csv: the target 'kind' is text, not numbers; "
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
            "times as text, such as '2026-01-01'); count days with pandas: df['day'] = "
            "(pd.to_datetime(df['day'], utc=True) - pd.Timestamp(0, tz=\"UTC\")) / "
            "pd.Timedelta(days=1), or use a table with numbers or categories\n",
        ),
        (
            ("--data", "blank.csv"),
            3,
            "blank.csv: the target 'kind' has no value in any row; "
            "fill it in, or name another with --target\n",
        ),
        (
            ("--data", "same.csv"),
            3,
            "same.csv: the target 'kind' has the same value in all rows, '4'; "
            "choose another column with --target\n",
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
    for name in ("table.txt", "table.xlsx", "table.npz", "table.json"):
        (command.directory / name).write_text("a b\n", encoding="utf-8")
    (command.directory / "one.csv").write_text("a\n1\n2\n", encoding="utf-8")
    (command.directory / "few.csv").write_text("a,kind\n1,x\n2,y\n", encoding="utf-8")
    (command.directory / "nameless.csv").write_text("a,,kind\n1,1,x\n2,2,y\n", encoding="utf-8")
    (command.directory / "blank.csv").write_text("a,kind\n1,\n2,NA\n", encoding="utf-8")
    same = "a,kind\n" + "".join(f"{n / 7},4\n" for n in range(12))
    (command.directory / "same.csv").write_text(same, encoding="utf-8")
    dates = "day,kind\n2026-01-01,x\n2026-01-02,y\n"
    (command.directory / "names.csv").write_text(dates, encoding="utf-8")
    done = command("init", *arguments)
    assert done.returncode == code
    assert expected in done.stderr
    assert not (command.directory / "study.toml").exists()


def test_init_says_how_to_take_a_target_the_other_way(tmp_path: Path) -> None:
    rows = "".join(f"{n / 7},{n % 5 + 1},{n % 2}.0,{n}.5\n" for n in range(100))
    (tmp_path / "my table.csv").write_text(f"size,stars,won,price\n{rows}", encoding="utf-8")
    ways = (  # template, target, is taken as, its values, the other way
        (None, "stars", "classes", "5 integers from 1 to 5", "numbers"),
        ("regression", "stars", "numbers", "5 integers from 1 to 5", "classes"),
        (None, "won", "classes", "the numbers 0 and 1", "numbers"),
        ("csv", "price", "classes", "", "numbers"),
        (None, "price", "numbers", "", ""),
    )
    for number, (template, target, taken, values, other) in enumerate(ways):
        file = tmp_path / f"study{number}.toml"
        first, second, *_ = begin(template, file, tmp_path / "my table.csv", target)
        assert f"'{target}', as asked, as " in first and taken in first
        assert (
            values in second and f"to predict {'them as ' if values else ''}{other}" in second
        ) or (not other)
        assert ("`sweeper init" in second) is bool(other)
        if other:
            arguments = shlex.split(second.split("`")[1])[2:]
            kind, table, name, output = arguments[0], *arguments[2::2]
            begin(kind, Path(output), Path(table), name)
            loss = "mse" if other == "numbers" else "cross_entropy"
            assert (load(Path(output)).train.loss, prepare(load(Path(output))).n_features) == (
                loss,
                3,
            )


def test_each_target_of_a_table_has_a_study_name(tmp_path: Path) -> None:
    rows = "".join(f"{n / 7},{n % 5 + 1},{n % 2}\n" for n in range(100))
    (tmp_path / "rows.csv").write_text(f"size,stars (1-5),won\n{rows}", encoding="utf-8")
    asked = [(None, None), (None, "won"), (None, "stars (1-5)"), ("regression", "stars (1-5)")]
    names: list[str] = []
    for number, (template, target) in enumerate(asked):
        (tmp_path / str(number)).mkdir()
        file = tmp_path / str(number) / "study.toml"
        begin(template, file, tmp_path / "rows.csv", target)
        names.append(load(file).study.name)
    assert names == ["rows", "rows-won", "rows-stars-1-5", "rows-stars-1-5-numbers"]
    long = pd.DataFrame({"size": NUMBERS, "b" * 300: NUMBERS})
    long.to_csv(tmp_path / "long.csv", index=False)
    begin(None, tmp_path / "study.toml", tmp_path / "long.csv", "b" * 300)
    assert load(tmp_path / "study.toml").study.name == "long-" + "b" * 95


@pytest.mark.parametrize("data", [None, "rows.csv"])
def test_a_file_with_a_name_of_its_own_names_its_study(data: str | None, tmp_path: Path) -> None:
    rows = "".join(f"{n / 7},{n % 2}\n" for n in range(100))
    (tmp_path / "rows.csv").write_text(f"size,won\n{rows}", encoding="utf-8")
    begin(None, tmp_path / "my first.toml", None if data is None else tmp_path / data)
    assert load(tmp_path / "my first.toml").study.name == "my-first"


def test_a_model_accepts_gaps_that_its_study_did_not_have(tmp_path: Path) -> None:
    frame = pd.DataFrame({"size": NUMBERS, "ward": NAMES, "cost": NUMBERS[::-1]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    begin(None, tmp_path / "study.toml", tmp_path / "rows.csv")
    data = prepare(load(tmp_path / "study.toml"))
    transform = Transform.from_dict(data.transform, ())
    new = pd.DataFrame({"size": [None, data.transform["fills"][0]], "ward": ["a", "a"]})
    first, second = transform.of(new)
    assert np.array_equal(first, second)
    noted: list[str] = []
    gap = transform.of(new.assign(ward=[None, "a"]), doubt=lambda told, _: noted.append(told))
    assert np.isfinite(gap).all()
    assert ["column 'ward'" in one for one in noted] == [True]


DAYS = pd.date_range("2026-01-01 00:00", periods=300, freq="h")


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%a %b %d %Y", "%m/%d/%y", None]
)
def test_a_date_is_neither_guessed_nor_taken_as_target(form: str | None, tmp_path: Path) -> None:
    days = DAYS if form is None else DAYS.strftime(form)
    frame = pd.DataFrame({"size": np.arange(300) % 9, "cost": np.arange(300) / 4, "day": days})
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    found = guess(path)
    assert (found.target, found.because) == ("cost", "the last column that can be predicted")
    assert [*found.drop] == ["day"]
    with pytest.raises(DataError, match=r"target 'day' holds .*times.* count days") as refusal:
        guess(path, "day")
    code = str(refusal.value).split("pandas: ")[1].split(", or name")[0]
    scope = {"df": frame, "pd": pd}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the order of day and month
        exec(code, scope)
    scope["df"].to_parquet(path)
    assert guess(path, "day").because == "as asked"


def test_text_that_differs_in_most_rows_is_refused_as_target(tmp_path: Path) -> None:
    names = [f"name {number}" for number in range(300)]
    path = tmp_path / "rows.csv"
    sizes = np.arange(300) % 9
    pd.DataFrame({"width": sizes + 0.5, "size": sizes, "name": names}).to_csv(path, index=False)
    with pytest.raises(
        DataError, match=r"target 'name' is text with 300 different values; name an"
    ):
        guess(path, "name")
    assert guess(path).target == "size"


def test_names_of_columns_and_files_become_valid_names_of_studies(tmp_path: Path) -> None:
    frame = pd.DataFrame({"size": NUMBERS, "price/m²": NUMBERS})
    for name, expected in (("flats", "flats-price-m"), ("²³", "price-m"), ("日本", "日本-price-m")):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        (tmp_path / name).mkdir()
        file = tmp_path / name / "study.toml"
        begin(None, file, tmp_path / f"{name}.csv", "price/m²")
        assert load(file).study.name == expected


def test_all_rows_of_a_long_file_are_looked_at(tmp_path: Path) -> None:
    n = 100_050
    late = ["", *[""] * (n - 60), *map(str, range(59))]
    kinds = np.sort(np.arange(n) % 4)
    pd.DataFrame({"size": np.arange(n) % 97, "late": late, "kind": kinds}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    guessed = guess(tmp_path / "rows.csv")
    assert (guessed.rows, guessed.values, guessed.drop) == (n, 4, {})


@pytest.mark.parametrize("days", ["%d.%m.%Y", "%d/%m/%Y"])
def test_dates_with_dots_begin_with_the_day(days: str, tmp_path: Path) -> None:
    begins = pd.Series(pd.date_range("2018-01-01", periods=60, freq="MS" if "." in days else "D"))
    frame = pd.DataFrame({"day": begins.dt.strftime(days), "size": range(60), "cost": range(60)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    (hint,) = [one for one in guess(tmp_path / "rows.csv").hints if "count days" in one]
    code = hint.partition("pandas: ")[2].partition(", and remove")[0]
    df = frame.copy()
    exec(code, {"df": df, "pd": pd})
    assert df["day"].tolist() == [(day - pd.Timestamp(0)).days for day in begins]


def test_columns_that_a_study_would_refuse_are_left_out(tmp_path: Path) -> None:
    numbers = np.arange(60.0)
    frame = pd.DataFrame(
        {
            "size": numbers,
            "inf": np.where(numbers == 7, np.inf, numbers % 9),
            "huge": (numbers % 9) * 1e300,
            "hash": [2**60 + i for i in range(60)],
            "gaps": pd.array([2**60 + i if i % 3 else None for i in range(60)], "Int64"),
            "few": [1.0, 2.0, *[None] * 58],
            "cost": numbers**2,
        }
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    messages = begin(None, tmp_path / "study.toml", tmp_path / "rows.parquet")
    config = load(tmp_path / "study.toml")
    assert config.data.drop == ("inf", "huge", "hash", "gaps", "few")
    assert prepare(config).feature_names == ("size",)
    assert not any("dates" in message for message in messages)
    said = "\n".join(messages)
    assert "'inf' is left out: it is infinite or too large for float32 in row 8" in said
    assert "'few' is left out: it has a value in only 2 rows" in said


def test_a_class_too_rare_for_every_part_is_not_judged_by_auroc(tmp_path: Path) -> None:
    kinds = ["a"] * 98 + ["b"] * 2
    pd.DataFrame({"size": range(100), "kind": kinds}).to_csv(tmp_path / "rows.csv", index=False)
    begin(None, tmp_path / "study.toml", tmp_path / "rows.csv")
    config = load(tmp_path / "study.toml")
    assert (config.study.metric, config.data.class_weights) == ("val_accuracy", "none")
    prepare(config)


def test_numbers_that_hardly_repeat_are_not_classes(tmp_path: Path) -> None:
    prices = [79563 + 1000 * i for i in range(11)]
    for repeats, is_classes in ((1, False), (2, True)):
        frame = pd.DataFrame({"size": range(11 * repeats), "price": prices * repeats})
        frame.to_csv(tmp_path / "rows.csv", index=False)
        assert guess(tmp_path / "rows.csv").is_classes is is_classes


def test_a_row_of_ids_dates_and_numbers_is_not_a_header(tmp_path: Path) -> None:
    rows = "".join(
        f"H{i:05},{'Bonn' if i % 2 else 'Kiel'},2022-01-{1 + i % 28:02},{i * 7.5 + 100}\n"
        for i in range(60)
    )
    (tmp_path / "rows.csv").write_text(rows, encoding="utf-8")
    with pytest.raises(DataError, match="line 1 looks like data, not like column names"):
        guess(tmp_path / "rows.csv")


def test_a_target_of_numbers_as_text_is_refused_with_the_code_that_reads_it(
    command: CommandLine,
) -> None:
    lines = [f'{size},"${size * 1001:,}"' for size in range(1, 61)]
    (command.directory / "homes.csv").write_text("\n".join(["size,price", *lines]))
    refused = command("init", "regression", "--data", "homes.csv")
    assert refused.returncode == 3
    found = "homes.csv: the target 'price' holds numbers written as text, such as '$1,001': "
    assert refused.stderr.startswith(f"{found}read them with pandas: df = pd.read_csv(")
    assert "init csv" not in refused.stderr
