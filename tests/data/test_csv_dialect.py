"""CSV files with other separators than commas and other encodings than UTF-8."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeper.data.csv_dialect import likely_dialect
from sweeper.data.csv_file import Dialect
from sweeper.data.guess import guess
from sweeper.data.new_rows import read_rows
from sweeper.data.prepare import prepare
from sweeper.data.transform import Transform
from sweeper.errors import DataError

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
TABLE = 'source = "csv"\npath = "rows.csv"\n'
COMMAS = 'separator = ";"\ndecimal = ","\n'
ROWS = [
    ["größe", "colour", "kind"],
    *([f"{i}.5", "weiß" if i % 3 else "blue", "fig" if i % 2 else "pear"] for i in range(12)),
]


def written(dialect: Dialect, rows: list[list[str]] = ROWS) -> bytes:
    lines = [dialect.separator.join(row) for row in rows]
    text = "\n".join(line.replace(".5", f"{dialect.decimal}5") for line in lines)
    return f"{text}\n".encode(dialect.encoding)


@pytest.mark.parametrize(
    "dialect",
    [
        Dialect(),
        Dialect(";"),
        Dialect(";", ","),
        Dialect("\t", ",", "utf-16"),
        Dialect(",", ".", "utf-16-le"),
        Dialect(";", ",", "utf-16-be"),
        Dialect("\t", ".", "utf-32"),
        Dialect("|", ".", "latin-1"),
        Dialect(";", ",", "latin-1"),
    ],
    ids=str,
)
def test_the_dialect_of_a_file_is_detected(make_study, tmp_path: Path, dialect: Dialect) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_bytes(written(Dialect()))
    expected = prepare(make_study(CSV))

    rows.write_bytes(written(dialect))
    likely = likely_dialect(rows)
    if dialect.encoding != "utf-8" and dialect.encoding != "latin-1":
        with pytest.raises(DataError, match=f"is text in {dialect.encoding.upper()}"):
            prepare(make_study(CSV))
    settings = "".join(
        f'{key} = "{value}"\n' for key, value in likely.instead_of(Dialect()).items()
    )
    found = prepare(make_study(CSV + settings.replace("\t", "\\t")))

    assert likely == dialect
    assert found.feature_names == expected.feature_names
    for name in ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_letters_only_in_windows_encodings_identify_them(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_bytes("name;price\ncoffee;2,50 €\n".encode("cp1252"))

    assert likely_dialect(path).encoding == "cp1252"


def test_letters_of_latin_1_do_not_hide_those_of_windows_encodings(tmp_path: Path) -> None:
    path, many = tmp_path / "prices.csv", "Käse;2,50\n" * 200_000
    for first, last, expected in (
        ("Käse", "", "latin-1"),
        ("Käse 5 €", "", "cp1252"),
        ("Käse", "„Brie“;7,50\n", "cp1252"),
    ):
        path.write_bytes(f"name;price\n{first};2,50\n{many}{last}".encode("cp1252"))
        assert likely_dialect(path) == Dialect(";", ",", expected)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "iso-8859-15"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_new_rows_in_utf_8_fit_a_study_in_an_encoding_that_reads_any_bytes(
    encoding: str, mark: str, make_study, tmp_path: Path
) -> None:
    file, of_study = tmp_path / "rows.csv", Dialect(encoding=encoding)
    file.write_bytes(written(of_study))
    learnt = Transform.from_dict(prepare(make_study(f'{CSV}encoding = "{encoding}"\n')).transform)
    expected = read_rows(file, learnt, {"kind"}, dialect=of_study)
    file.write_text(mark + written(Dialect()).decode(), encoding="utf-8")
    found = read_rows(file, learnt, {"kind"}, dialect=of_study)
    pd.testing.assert_frame_equal(found.frame, expected.frame)
    assert found.table.csv and found.table.csv.dialect == Dialect()


def test_a_study_of_utf_8_read_as_latin_1_is_named_and_predicts_rows_like_its_own(
    make_study, tmp_path: Path
) -> None:
    text = written(Dialect()).decode()
    file = tmp_path / "rows.csv"
    data = prepare(make_study(f'{CSV}encoding = "latin-1"\n', text))
    (note,) = (note for note in data.notes if "UTF-8" in note)
    assert note.startswith("rows.csv is valid UTF-8, but read as LATIN-1: write")
    learnt, of_study = Transform.from_dict(data.transform), Dialect(encoding="latin-1")
    found = read_rows(file, learnt, {"kind"}, dialect=of_study)
    assert found.table.csv and found.table.csv.dialect == of_study
    assert not [note for note in prepare(make_study(CSV, text)).notes if "UTF-8" in note]


def test_text_of_dos_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(
        written(Dialect(encoding="cp850")) + "1.5,grün".encode("cp850")
    )
    with pytest.raises(
        DataError, match=r"is neither UTF-8 nor CP1252 \(byte 0x81 in line 14\); save it as UTF-8"
    ):
        guess(tmp_path / "rows.csv")


def test_rows_are_reported_by_their_lines(make_study, tmp_path: Path) -> None:
    rows = [row.copy() for row in ROWS]
    rows[2][1] = '"light\nblue"'  # lines 3 and 4
    rows[5][0] = ""  # line 7
    (tmp_path / "rows.csv").write_bytes(written(Dialect(";", ",", "latin-1"), rows))

    with pytest.raises(DataError, match=r"column 'größe' .*: 1 value is missing \(line 7\)"):
        prepare(make_study(CSV + 'separator = ";"\ndecimal = ","\nencoding = "latin-1"\n'))


@pytest.mark.parametrize("header", ["Temperatur, °C;Druck, bar;Typ", "Temperatur, °C;Druck;Typ"])
def test_commas_in_names_and_numbers_do_not_separate_fields(header: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    lines = [
        header,
        *(f"{i % 9},{i % 7};{i % 5},25;{'rot' if i % 2 else 'blau'}" for i in range(60)),
    ]
    rows.write_text("\n".join(lines), encoding="utf-8")
    assert likely_dialect(rows) == Dialect(";", ",")
    guessed = guess(rows)
    assert (guessed.target, guessed.values, guessed.numbers) == ("Typ", 2, 2)


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize(
    ("above", "found"),
    [("", "line 1 looks like data"), ("a;b;y\nkg;m;s\n", "line 2 looks like units")],
)
def test_rows_that_are_not_data_are_found_with_either_decimal_separator(
    above: str, found: str, decimal: str, tmp_path: Path
) -> None:
    numbers = [f"{i % 7}.5;{i % 5}.25;{i}.125" for i in range(60)]
    text = f"{above}{chr(10).join(numbers)}\n".replace(".", decimal)
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=found):
        guess(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("x", "1 value is text among numbers \\(line 19\\); fix the file"),
        (
            "?",
            r"1 value is text among numbers \(line 19\); write missing_values = \[\"\", \"\?\"\]",
        ),
    ],
)
@pytest.mark.parametrize("decimal", [".", ","])
def test_text_among_numbers_is_refused_with_either_decimal_separator(
    cell: str, found: str, decimal: str, make_study
) -> None:
    lines = [f"{i / 4:.2f};{'fig' if i % 2 else 'pear'}".replace(".", decimal) for i in range(60)]
    lines[17] = f"{cell};fig"
    text = "\n".join(["size;kind", *lines])
    dialect = f'separator = ";"\ndecimal = "{decimal}"\n'
    with pytest.raises(DataError, match=found):
        prepare(make_study(CSV + dialect, text))
    earlier = make_study(CSV + dialect, text).with_edition(3)
    if decimal == ",":  # studies that began with it as categories go on
        assert prepare(earlier).n_features > 10


@pytest.mark.parametrize("edition", [3, 6])
@pytest.mark.parametrize(
    ("cells", "lines"),
    [
        (["950", "1.250", "12.300"], "lines 3, 4"),  # 1.25 was read as a decimal, next to 950
        (["12,5", "1.250", "3"], "line 3"),
        (["12,5", "3.75", "4"], "line 3"),
    ],
)
@pytest.mark.parametrize("role", ["target", "weight"])
def test_points_among_decimal_commas_are_refused_where_numbers_are_needed(
    role: str, cells: list[str], lines: str, edition: int, make_study
) -> None:
    rows = "".join(f"{i},5;{i % 9},25;{cell}\n" for i, cell in enumerate([*cells, *["7"] * 30]))
    of_role = {"target": 'target = "y"\n', "weight": 'target = "x"\nweight = "y"\n'}[role]
    study = make_study(f"{TABLE}{of_role}{COMMAS}", f"x;z;y\n{rows}", loss="mse")
    with pytest.raises(DataError) as refused:
        prepare(study.with_edition(edition))
    found = f"written with a point, though decimals are ',' ({lines}); write numbers without a"
    if (edition, cells[0]) == (3, "12,5"):
        found = f"1 value is text, but {'mse needs' if role == 'target' else 'weights are'} numbers"
    assert found in str(refused.value)
    if edition == 6 and cells[1] == "1.250":
        (code,) = re.findall(r"(df\['y'\] = .*?); df\.to_csv", str(refused.value))
        df = pd.DataFrame({"y": pd.Series(cells, dtype="str")})
        exec(code, {"df": df, "pd": pd})
        expected = [float(cell.replace(".", "").replace(",", ".")) for cell in cells]
        assert df["y"].tolist() == expected


def test_decimal_points_in_spite_of_the_setting_are_read_as_such(make_study) -> None:
    rows = "".join(f"{i},5;{i % 5}.75\n{i},5;1.250\n" for i in range(20))
    settings = f'{TABLE}target = "y"\ntarget_scale = "none"\n{COMMAS}'
    data = prepare(make_study(settings, f"x;y\n{rows}", loss="mse"))
    assert {*data.y_train.ravel().tolist()} == {0.75, 1.25, 1.75, 2.75, 3.75, 4.75}


def test_numbers_that_pandas_leaves_as_text_have_decimal_commas(make_study) -> None:
    """A number of more than 64 bits makes its column text."""
    large = f"1{'0' * 22}"
    rows = "".join(f"{i},5;{large if i == 0 else f'{i},25'}\n" for i in range(40))
    settings = f'{TABLE}target = "y"\ntarget_scale = "none"\n{COMMAS}'
    data = prepare(make_study(settings, f"x;y\n{rows}", loss="mse"))
    every = np.concatenate([data.y_train, data.y_val, data.y_test]).ravel()
    assert sorted(every.tolist()) == [*(i + 0.25 for i in range(1, 40)), 1e22]


def test_a_model_knows_categories_with_a_decimal_comma(make_study, tmp_path: Path) -> None:
    rows = [
        f"{('0,5', '1', '2,25', '-1.0')[i % 4]};{i};{'fig' if i % 2 else 'pear'}" for i in range(60)
    ]
    text = "\n".join(["dose;size;kind", *rows]).replace("-1.0", "-1,0")
    settings = 'separator = ";"\ndecimal = ","\ncategorical_columns = ["dose"]\n'
    settings += 'missing_values = ["", "-1"]\nimpute = "median"\n'
    data = prepare(make_study(CSV + settings, text))
    assert [name for name in data.feature_names if name.startswith("dose")] == [
        "dose_0.5",
        "dose_1",
        "dose_2.25",
        "dose_nan",
    ]
    transform = Transform.from_dict(data.transform, ("", "-1"))
    new = read_rows(tmp_path / "rows.csv", transform, {"kind"}, dialect=Dialect(";", ","))
    features = transform.of(new.frame)
    assert features[:, 1:].sum(axis=1).tolist() == [1.0] * 60
    assert features[:4, 1:].argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_thousands_are_not_read_as_the_decimals_of_the_study(tmp_path: Path) -> None:
    learnt = Transform(("size",), ("size",), (), None, (), True, None, (), 5, ("",), ",")
    (tmp_path / "rows.csv").write_text('size\n"1,234"\n33.1\n', encoding="utf-8")
    found = "has '1,234' in column 'size', though decimals are '.'; write numbers without"
    with pytest.raises(DataError, match=re.escape(found)):
        read_rows(tmp_path / "rows.csv", learnt, {"kind"}, dialect=Dialect())


@pytest.mark.parametrize("least", [900, 1000])
def test_the_code_for_single_quotes_keeps_all_rows(
    least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sales = [f"{least + n * 37:,}" for n in range(200)]
    lines = [f"'{'north' if n % 3 else 'south'}','{n % 7}','{one}'" for n, one in enumerate(sales)]
    text = "\n".join(["'region','orders','sales'", *lines]) + "\n"
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="has fields in single quotes that contain ','") as caught:
        guess(tmp_path / "rows.csv")
    _, _, code = str(caught.value).partition("use pandas: ")

    exec(code, {"pd": pd})

    rows = pd.read_csv(tmp_path / "rows.csv", dtype=str)
    assert (rows.columns.tolist(), rows["sales"].tolist()) == (["region", "orders", "sales"], sales)


@pytest.mark.parametrize(
    "text",
    [
        "region,sales\n'north',$900\n" + "north,$1,234 $\nsouth,$2,234 $\n" * 30,
        "'region','sales'\n'north','900'\n" + "'north','1,234'\n'south','2,345'\n" * 30,
    ],
)
def test_a_row_of_data_is_not_taken_for_the_header(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    assert likely_dialect(tmp_path / "rows.csv").skip_rows == 0


def test_a_header_may_have_a_word_that_is_a_value_below_it(tmp_path: Path) -> None:
    rows = "".join(f"{30 + n},{'smoker' if n % 2 else 'never'}\n" for n in range(20))
    (tmp_path / "rows.csv").write_text(f"# survey\nage,smoker\n{rows}", encoding="utf-8")
    assert likely_dialect(tmp_path / "rows.csv").skip_rows == 1
