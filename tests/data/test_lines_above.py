"""Lines above the column names are found by init, refused by a study, and skipped on demand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeper.data.guess import guess
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, StudyError

ROWS = "".join(f"{i % 7}.5;{i % 3};{i % 2}\n" for i in range(40))
TABLE = "size;weight;kind\n" + ROWS
CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\nseparator = ";"\n'


@pytest.mark.parametrize(
    "above",
    [
        *("sep=;\n", '"sep=;"\n', "\ufeffsep=;\n", "# made by a tool\n", "# a\n# b; c\n\n"),
        *("Report of 2024\n\n", "Report of 2024;;\n;;\n", "Report\nsource: a; b; c; d\n"),
        *("# one; two; three\n", '"A title; and more"\n'),
    ],
)
def test_lines_above_the_header_are_skipped(above: str, make_study, tmp_path: Path) -> None:
    expected = prepare(make_study(CSV, TABLE)).digest
    lines = above.count("\n")
    study = make_study(CSV, above + TABLE)
    excel = (
        rf" \(line 1 is Excel's {above.strip()}\)".replace("\ufeff", "") if "sep=" in above else ""
    )
    found = rf"above its column names{excel}; write skip_rows = {lines}$"
    with pytest.raises(DataError, match=found):
        prepare(study)
    assert guess(tmp_path / "rows.csv").settings == {"separator": ";", "skip_rows": lines}
    skipping = CSV + f"skip_rows = {lines}\n"
    assert prepare(make_study(skipping)).digest == expected
    gap = above + TABLE.replace("3.5;", ";", 1)
    with pytest.raises(DataError, match=rf"1 value is missing \(line {lines + 5}\)"):
        prepare(make_study(skipping, gap))


@pytest.mark.parametrize("above", ["", "\n\n"])
def test_a_file_without_lines_above_is_read(above: str, make_study, tmp_path: Path) -> None:
    prepare(make_study(CSV, above + TABLE))
    assert guess(tmp_path / "rows.csv").settings == {"separator": ";"}
    prepare(make_study(CSV, above + TABLE.replace("size;", "# size;")))
    assert guess(tmp_path / "rows.csv").settings == {"separator": ";"}


TEXTS = "".join(f"{'stu'[i % 3]};{'red' if i % 4 else 'blue'};{'ab'[i % 2]}\n" for i in range(40))


@pytest.mark.parametrize(
    "rows",
    [
        TEXTS,
        "fig;red;a\npear;blue;b\napple;green;a\nplum;black;b\n",
        *(f"v;{gap};c\n" + TEXTS.replace("red", "5").replace("blue", "3") for gap in ("", "NA")),
    ],
)
def test_a_column_whose_name_begins_with_a_hash_is_not_a_comment(
    rows: str, make_study, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("#sample;colour;kind\n" + rows)
    guessed = guess(tmp_path / "rows.csv", "kind")
    assert (guessed.settings, guessed.rows) == ({"separator": ";"}, rows.count("\n"))
    if rows == TEXTS:
        names = prepare(make_study(CSV)).feature_names
        assert names[:3] == ("#sample_s", "#sample_t", "#sample_u")


@pytest.mark.parametrize("above", ["# made; by; me\n", "# made; by; me\n# on; some; day\n"])
def test_a_comment_with_separators_is_above_the_header_of_texts(
    above: str, make_study, tmp_path: Path
) -> None:
    expected = prepare(make_study(CSV, "sample;colour;kind\n" + TEXTS)).digest
    (tmp_path / "rows.csv").write_text(f"{above}sample;colour;kind\n{TEXTS}")
    lines = above.count("\n")
    assert guess(tmp_path / "rows.csv").settings == {"separator": ";", "skip_rows": lines}
    assert prepare(make_study(f"{CSV}skip_rows = {lines}\n")).digest == expected


def test_data_in_place_of_column_names_is_reported(make_study, tmp_path: Path) -> None:
    rows = "".join(f"{i % 7}.5,{i % 3},{'ab'[i % 2]}\n" for i in range(40))
    commas = CSV.replace(";", ",")
    study = make_study(commas.replace("kind", "a"), rows)
    looks = "line 1 looks like data, not like column names (0.5, 0, a, ...)"
    assert looks in prepare(study).notes[0]
    with pytest.raises(DataError) as caught:
        guess(tmp_path / "rows.csv")
    assert f"{looks}; add a line of column names above it" in str(caught.value)
    numbered = "0,1,2\n" + "".join(f"{i % 7}.5,{i % 3},{i % 2}\n" for i in range(40))
    assert prepare(make_study(commas.replace("kind", "2"), numbered)).notes == ()


def test_skip_rows_must_be_an_integer(make_study) -> None:
    with pytest.raises(StudyError, match=r"data.skip_rows: "):
        make_study(CSV + "skip_rows = -1\n", TABLE)


def test_units_below_the_column_names_are_left_out_with_their_row(make_study) -> None:
    units = TABLE.replace("kind\n", "kind\nkg;m;\n")
    data = prepare(make_study(CSV + 'missing_target = "drop"\n', units))
    assert data.digest == prepare(make_study(CSV, TABLE)).digest
    assert data.notes == ("left out 1 of 41 rows, without a value for the target 'kind'",)


@pytest.mark.parametrize(
    ("units", "lines"),
    [
        ("kg;m;class\n", "line 2 of rows.csv looks like units"),
        ("kg;;\n", "line 2 of rows.csv looks like units"),
        ("(kg);(m);-\n", "line 2 of rows.csv looks like units"),
        ("kg;m;\nfloat;int;int\n", "lines 2, 3 of rows.csv look like descriptions"),
    ],
)
def test_units_below_the_column_names_are_refused(
    units: str, lines: str, make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = prepare(make_study(CSV, TABLE)).digest
    config = make_study(CSV, TABLE.replace("kind\n", f"kind\n{units}"))
    with pytest.raises(DataError) as caught:
        prepare(config)
    assert lines in str(caught.value)
    with pytest.raises(DataError, match=lines.replace(" of rows.csv", "")):
        guess(tmp_path / "rows.csv")
    exec(str(caught.value).partition("use pandas: ")[2], {"pd": pd})
    assert prepare(config).digest == expected


@pytest.mark.parametrize(
    ("places", "lines"),
    [
        ([1], "line 2 repeats"),
        ([20], "line 21 repeats"),
        ([11, 31], "lines 12, 33 repeat"),
    ],
)
def test_a_header_that_is_repeated_is_refused(
    places: list[int],
    lines: str,
    make_study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = prepare(make_study(CSV, TABLE)).digest
    header, *rows = TABLE.splitlines(keepends=True)
    for place in reversed(places):
        rows.insert(place - 1, header)
    config = make_study(CSV, "".join([header, *rows]))
    with pytest.raises(DataError) as caught:
        prepare(config)
    assert f"{lines} the column names of rows.csv; keep only the first" in str(caught.value)
    with pytest.raises(DataError, match=f"{lines} the column names; keep only"):
        guess(tmp_path / "rows.csv")
    exec(str(caught.value).partition("use pandas: ")[2], {"pd": pd})
    assert prepare(config).digest == expected


@pytest.mark.parametrize("n_parts", [2, 3])
def test_a_header_below_an_index_of_pandas_is_found(
    n_parts: int, make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    part = pd.DataFrame({"size": np.arange(20) % 7 + 0.5, "kind": np.arange(20) % 2})
    for _ in range(n_parts):
        part.to_csv("rows.csv", mode="a")
    config = make_study(CSV.replace('separator = ";"\n', ""))
    found = "repeats its column names in " + {2: "line 22", 3: "lines 22, 43"}[n_parts]
    with pytest.raises(DataError, match=f"rows.csv {found}") as caught:
        prepare(config)
    with pytest.raises(DataError, match=f"rows.csv: {found}"):
        guess(tmp_path / "rows.csv")
    exec(str(caught.value).partition("use pandas: ")[2], {"pd": pd})
    pd.testing.assert_frame_equal(
        pd.read_csv("rows.csv", index_col=0), pd.concat([part] * n_parts, ignore_index=True)
    )
    prepare(config)


def test_a_table_of_texts_may_contain_its_column_names(make_study) -> None:
    rows = "sample;colour;kind\n" + TEXTS + "sample;colour;kind\n" + TEXTS
    assert "kind" in prepare(make_study(CSV, rows)).class_names


@pytest.mark.parametrize("row", ["?;;1\n", "?;-;1\n", "abc;2;0\n"])
def test_a_text_in_the_first_row_is_not_a_unit(row: str, make_study) -> None:
    with pytest.raises(DataError, match="text among numbers"):
        prepare(make_study(CSV, TABLE.replace("kind\n", f"kind\n{row}")))


@pytest.mark.parametrize("is_header_quoted", [True, False])
def test_fields_in_single_quotes_are_reported(
    is_header_quoted: bool, make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = prepare(make_study(CSV, TABLE)).digest
    header, *rows = TABLE.splitlines()
    lines = [";".join(f"'{field}'" for field in row.split(";")) for row in (header, *rows)]
    quoted = "\n".join([lines[0] if is_header_quoted else header, *lines[1:]]) + "\n"
    config = make_study(CSV.replace("kind", "'kind'") if is_header_quoted else CSV, quoted)
    (note,) = [note for note in prepare(config).notes if "single quotes" in note]
    with pytest.raises(DataError, match="are in single quotes, such as '"):
        guess(tmp_path / "rows.csv")
    exec(note.partition("use pandas: ")[2], {"pd": pd})
    assert prepare(make_study(CSV)).digest == expected


def test_numbers_with_exponents_are_not_names(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    np.savetxt(tmp_path / "rows.csv", rows, "%.3e", ",", header="made by, me, today\na,b,y")
    guessed = guess(tmp_path / "rows.csv")
    assert (guessed.target, guessed.rows) == ("y", 60)
    (tmp_path / "rows.csv").write_text(
        "# made by, me, today\na,b,y\n" + "".join(f"{a:.3e},{b:.3e},{c:.3e}\n" for a, b, c in rows)
    )
    assert guess(tmp_path / "rows.csv").settings == {"skip_rows": 1}
