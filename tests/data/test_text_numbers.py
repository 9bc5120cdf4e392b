"""Numbers written as text are recognised, and the line of pandas in the hint reads them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from sweeper.cli.new_study import begin
from sweeper.config import load
from sweeper.data.csv_file import USUAL, CsvFile, Dialect
from sweeper.data.prepare import prepare
from sweeper.data.text_numbers import text_numbers
from sweeper.errors import DataError
from tests.data.conftest import MakeStudy

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        ("$1,200.50|$5|US$120", [1200.5, 5, 120]),
        ("-$5|$-6.5|($1,200.50)", [-5, -6.5, -1200.5]),
        ("1.200,50 EUR|3,20 EUR|15 EUR", [1200.5, 3.2, 15]),
        ("€ 12|€ 13|€ 14", [12, 13, 14]),
        ("Rs. 500|Rs. 1,23,456|Rs. 30", [500, 123456, 30]),
        ("12%|5 %|7.5%", [12, 5, 7.5]),
        ("12,5 %|3,25 %|4 %", [12.5, 3.25, 4]),
        ("1,234|5|12,345", [1234, 5, 12345]),
        ("1 234|5|12\u00a0345", [1234, 5, 12345]),
        ("1'234|5|12'345.5", [1234, 5, 12345.5]),
        ("1.234.567|2.345|12", [1234567, 2345, 12]),
        ("5 kg|70kg|8.5 kg", [5, 70, 8.5]),
        ("36 months|60 months", [36, 60]),
        ("10+ years|< 1 year|2 years", [10, 1, 2]),
        ("5 km/h|6 km/h|-7 km/h", [5, 6, -7]),
        ("3 m|4 m|5 m", [3, 4, 5]),
        ("5k|2.5M|300", [5000, 2.5e6, 300]),
        ("<1.0|2.0|>3.5", [1, 2, 3.5]),
        ("(3.5)|4|\u22125", [-3.5, 4, -5]),
        (" (259.25)| 12.5 |(1)", [-259.25, 12.5, -1]),
        ("250.00K |3.5M|4K", [250000, 3.5e6, 4000]),
        ("1,5|2,25|3,0", [1.5, 2.25, 3]),
        ("1/2|3/4|1 1/2", [0.5, 0.75, 1.5]),
        ("Yes|No", [1, 0]),
        ("ja|nein", [1, 0]),
    ],
)
def test_the_suggested_line_of_pandas_reads_the_numbers(texts: str, numbers: list[float]) -> None:
    df = pd.DataFrame({"the price": pd.Series(texts.split("|"), dtype="str")})
    found = text_numbers(df["the price"])
    assert found is not None
    exec(found.code, {"df": df, "pd": pd})
    assert df["the price"].tolist() == pytest.approx(numbers)


@pytest.mark.parametrize(
    ("texts", "decimal", "numbers"),
    [
        ("5 075,80|12 000,00|1 999,99", ".", [5075.8, 12000, 1999.99]),
        ("5\u202f075,8|1\u202f234,5 €|3\u202f111,1", ".", [5075.8, 1234.5, 3111.1]),
        ("5\u00a0075,80 zł|1\u00a0234,50 zł|3\u00a0111,10 zł", ".", [5075.8, 1234.5, 3111.1]),
        ("5'075,80|1'234,50|3\u2019111,10", ".", [5075.8, 1234.5, 3111.1]),
        ("5_075,80|1_234,50|3_111,10", ".", [5075.8, 1234.5, 3111.1]),
        ("5 075.80 kg|1 234.50 kg|33.10 kg", ",", [5075.8, 1234.5, 33.1]),
        ("0,500 kg|1,250 kg|2,375 kg", ".", [0.5, 1.25, 2.375]),
        ("0.500 kg|1.250 kg|2.375 kg", ",", [0.5, 1.25, 2.375]),
        ("1,500 kg|1,250 kg|2,375 kg", ".", [1500, 1250, 2375]),
        ("1.500 kg|1.250 kg|2.375 kg", ",", [1500, 1250, 2375]),
        ("$1,234.50|$2,000.00|$33.10", ",", [1234.5, 2000, 33.1]),
        ("1.234,50 €|2.000,00 €|33,10 €", ".", [1234.5, 2000, 33.1]),
        ("1,5 kg|2.5 kg|3,5 kg", ".", None),
        ("1.234.567 €|1.5 €|7 €", ".", None),
        ("$1,234.50|$1.234,50|$7", ",", None),
    ],
)
def test_the_decimal_separator_is_one_with_which_all_numbers_can_be_read(
    texts: str, decimal: str, numbers: list[float] | None
) -> None:
    df = pd.DataFrame({"x": pd.Series(texts.split("|"), dtype="str")})
    found = text_numbers(df["x"], decimal)
    assert (found is None) == (numbers is None)
    if found is not None:
        exec(found.code, {"df": df, "pd": pd})
        assert df["x"].tolist() == pytest.approx(numbers)


@pytest.mark.parametrize("has_index", [False, True])
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
@pytest.mark.parametrize(
    "dialect", [USUAL, Dialect(";", ",", "latin-1", 2)], ids=["usual", "of Europe"]
)
@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["$1,000", "", "NA", "$5", "$6"], ["1000.0", "", "", "5.0", "6.0"]),
        (["1/2", "", "NA", "3/4", "2 1/4"], ["0.5", "", "", "0.75", "2.25"]),
    ],
)
def test_the_suggested_code_leaves_other_text_unchanged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[str],
    numbers: list[str],
    dialect: Dialect,
    name: str,
    has_index: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    others = {"ort": ["NA", "", "None", "Köln", " "], "code": ["01", "1.0", "true", "1,5", "nan"]}
    table = pd.DataFrame({"the cost": texts, **others})
    open_file = gzip.open if name.endswith(".gz") else open
    with open_file(name, "wt", encoding=dialect.encoding, newline="") as file:
        file.write("above\n" * dialect.skip_rows)
        table.to_csv(file, sep=dialect.separator, index=has_index)
    found = text_numbers(table["the cost"].replace({"": None, "NA": None}).astype("str"))
    assert found is not None

    code = found.fix(CsvFile(tmp_path / name, dialect), ["NA"]).partition(": ")[2]
    exec(code.removesuffix(", and remove skip_rows from [data]"), {"pd": pd})

    with CsvFile(tmp_path / name, replace(dialect, skip_rows=0)).open_text() as file:
        rows = pd.read_csv(file, sep=dialect.separator, dtype=str, keep_default_na=False)
    assert [*rows.columns] == [*(["Unnamed: 0"] if has_index else []), *table.columns]
    pd.testing.assert_frame_equal(rows[[*others]], table[[*others]])
    assert rows["the cost"].str.replace(",", ".").tolist() == numbers
    assert code.endswith("remove skip_rows from [data]") == bool(dialect.skip_rows)


def test_a_few_other_words_become_missing() -> None:
    df = pd.DataFrame({"x": [*(f"${i}" for i in range(40)), "unknown"]}).astype("str")
    found = text_numbers(df["x"])
    assert found is not None
    exec(found.code, {"df": df, "pd": pd})
    assert df["x"].isna().tolist() == [False] * 40 + [True]


@pytest.mark.parametrize(
    "texts",
    [
        *("A1|B2|C3", "01234|00123|99999", "1.2.3|1.10.0|2.0.1", "10.0.0.1|10.0.0.2|1.1.1.1"),
        *("555-1234|555-9999|555-0000", "+1 555 123 4567|+1 555 123 9999|+1 555 333 1111"),
        *(
            "18-24|25-34|65+",
            "<=50K|>50K",
            "<5|5|>5",
            "<30|>=30|30",
            "1st|2nd|3rd",
            "2D|3D",
            "1A|1B|2C",
            "110 001|560 034",
        ),
        *("120/80|130/85|110/70", "12/31|1/5|6/7", "12:30|13:30|1:00", "2024-01-01|2024-01-02"),
        *("red|green|blue", "1f|2e|3a", "12345-6789|12345-6788", "yes|no|maybe", "M|F", "A|B+|C-"),
        *("5 kg|3 lb|4 m", "A/5 21171|PC 17599|113803", "1|2|3", "Mr. 1|Mr. 2|Mr. 3"),
    ],
)
def test_other_text_is_left_alone(texts: str) -> None:
    assert text_numbers(pd.Series(texts.split("|"), dtype="str", name="x")) is None


def test_numbers_as_text_are_reported_for_features_and_targets(make_study) -> None:
    rows = "".join(f"${i % 4}0,{'yes' if i % 2 else 'no'},{i % 3 * 10}%\n" for i in range(30))
    notes = prepare(make_study(CSV, "price,sold,kind\n" + rows)).notes
    assert [note.partition(": ")[0] for note in notes] == [
        "column 'price' holds numbers written as text, such as '$00', and is read as 4 categories",
        "column 'kind' holds numbers written as text, such as '0%', and is read as 3 classes",
    ]
    assert "; df['price'] = pd.to_numeric(df['price'].str" in notes[0]
    meant = make_study(CSV + 'categorical_columns = ["price"]\n')
    assert [note[:13] for note in prepare(meant).notes] == ["column 'kind'"]


def test_a_decimal_comma_has_a_setting(make_study) -> None:
    rows = "".join(f"{i % 9},5;{i % 2}\n" for i in range(30))
    semicolons = CSV + 'separator = ";"\n'
    (note,) = prepare(make_study(semicolons, "size;kind\n" + rows)).notes
    assert note.endswith('write decimal = "," in [data]')
    assert prepare(make_study(semicolons + 'decimal = ","\n')).notes == ()


def test_errors_about_text_name_the_fix(make_study) -> None:
    rows = "".join(f"{i}kg,{i % 7},{i % 2}\n" for i in range(199))
    table = f'weight,cost,kind\n{rows}199kg,"1,234",0\n'
    with pytest.raises(DataError) as caught:
        prepare(make_study(CSV, table))
    weight, cost = str(caught.value).splitlines()
    assert "200 different values; it holds numbers written as text, such as '0kg'" in weight
    assert "; df['cost'] = pd.to_numeric(" in cost


def test_words_for_booleans_are_valid_categories_and_classes(make_study, tmp_path: Path) -> None:
    rows = "".join(f"{'NY'[i % 3 > 0]},{i % 7},{'yes' if i % 2 else 'no'}\n" for i in range(60))
    assert prepare(make_study(CSV, "sold,size,kind\n" + rows)).notes == ()
    lines = begin(None, tmp_path / "new.toml", tmp_path / "rows.csv")
    assert not any("boolean" in line or "sold" in line for line in lines)


def test_words_for_booleans_do_not_train_a_loss_for_numbers(make_study: MakeStudy) -> None:
    config = make_study(CSV, "size,kind\n" + "1,yes\n2,no\n" * 30, loss="mse")
    with pytest.raises(DataError, match=r"needs numbers.*map\({'yes': 1, 'no': 0}\)"):
        prepare(config)


@pytest.mark.parametrize("word", ["?", "-", " ", "unknown", "n.a.", "#DIV/0!"])
@pytest.mark.parametrize("every", [2, 9], ids=["in most rows", "in some rows"])
def test_words_among_numbers_have_a_setting(
    make_study: MakeStudy, tmp_path: Path, word: str, every: int
) -> None:
    sizes = [word if every == 2 or i % every == 1 else f"{i % 7}" for i in range(60)]
    sizes[:7] = map(str, range(7))
    rows = "".join(f"{size},{'NA' if i % 8 else 1},{i % 2}\n" for i, size in enumerate(sizes))
    config = make_study(CSV + 'impute = "median"\n', "size,other,kind\n" + rows)
    fix = f'missing_values = ["", "NA", "{word}"]'
    if every == 2:
        (found,) = prepare(config).notes
    else:
        with pytest.raises(DataError) as caught:
            prepare(config)
        found = str(caught.value)
    assert f"write {fix} in [data]" in found
    told = begin(None, tmp_path / "new.toml", tmp_path / "rows.csv", "kind")
    assert any(f"write {fix} in [data]" in line for line in told)

    fixed = prepare(make_study(f'{CSV}impute = "median"\n{fix}\n'))
    assert [(one.kind, one.missing) for one in fixed.columns[:1]] == [("number", sizes.count(word))]
    assert fixed.notes == ()


def test_init_reports_numbers_as_text(tmp_path: Path) -> None:
    rows = "".join(f"{i * 37:,}|{i % 7} kg|${i % 5}0\n" for i in range(300))
    (tmp_path / "rows.csv").write_text("cost|weight|price\n" + rows)
    told = begin(None, tmp_path / "study.toml", tmp_path / "rows.csv")
    assert [line.partition(": ")[2].partition(": ")[0] for line in told[2:5]] == [
        "'price' is taken as classes, but it holds numbers written as text, such as '$00'",
        "'weight' is taken as categories, but it holds numbers written as text, such as '0 kg'",
        "'cost' is left out",
    ]
    assert load(tmp_path / "study.toml").canonical()["data"]["drop"] == ["cost"]
    assert "\n# 'cost' holds numbers written" in (tmp_path / "study.toml").read_text()


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        ([f"{n}.5" for n in range(30)], [n + 0.5 for n in range(30)]),
        ([str(n * 7) for n in range(30)], [n * 7 for n in range(30)]),
        (["-1", "2", "3"], [-1, 2, 3]),
        ([str(n) for n in range(10)], None),
        ([f"{n:03}" for n in range(30)], None),
        ([*(str(n) for n in range(30)), "K1A", "K2B"], None),
    ],
)
def test_plain_numbers_in_a_column_of_text_are_found(
    texts: list[str], numbers: list[float] | None
) -> None:
    df = pd.DataFrame({"x": pd.Series(texts, dtype="str")})
    found = text_numbers(df["x"], has_strays=True)
    assert (found is None) == (numbers is None)
    if found is not None:
        exec(found.code, {"df": df, "pd": pd})
        assert df["x"].tolist() == numbers


@pytest.mark.parametrize("dtype", ["str", "string", pd.ArrowDtype(pa.string()), object])
def test_numbers_that_parquet_has_as_text_are_named(make_study, tmp_path: Path, dtype: Any) -> None:
    sizes = [*(f"{n % 20}.5" for n in range(59)), "much"]
    rows = pd.DataFrame({"size": sizes, "kind": ["a", "a", "b"] * 20})
    rows.astype({"size": dtype}).to_parquet(tmp_path / "rows.parquet")
    config = make_study('source = "parquet"\npath = "rows.parquet"\ntarget = "kind"\n')
    told = begin(None, tmp_path / "new.toml", tmp_path / "rows.parquet")
    fix = "read them with pandas: df['size'] = pd.to_numeric(df['size'], errors=\"coerce\"); or"
    assert sum(fix in line for line in (*told, *prepare(config).notes)) == 2
    as_codes = make_study(
        'source = "parquet"\npath = "rows.parquet"\ntarget = "kind"\ncategorical_columns=["size"]\n'
    )
    assert prepare(as_codes).notes == ()
