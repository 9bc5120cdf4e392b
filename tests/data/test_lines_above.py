"""Lines above the column names are found by init, refused by a study, and skipped on demand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.data.guess import guess
from sweeper.data.preparation import prepare
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
def test_they_are_skipped(above: str, make_study, tmp_path: Path) -> None:
    expected = prepare(make_study(CSV, TABLE)).digest
    lines = above.count("\n")
    study = make_study(CSV, above + TABLE)
    with pytest.raises(DataError, match=rf"above its column names; write skip_rows = {lines}$"):
        prepare(study)
    assert guess(tmp_path / "rows.csv").settings == {"separator": ";", "skip_rows": lines}
    skipping = CSV + f"skip_rows = {lines}\n"
    assert prepare(make_study(skipping)).digest == expected
    gap = above + TABLE.replace("3.5;", ";", 1)
    with pytest.raises(DataError, match=rf"1 value is missing \(line {lines + 5}\)"):
        prepare(make_study(skipping, gap))


@pytest.mark.parametrize("above", ["", "\n\n"])
def test_nothing_is_above(above: str, make_study, tmp_path: Path) -> None:
    prepare(make_study(CSV, above + TABLE))
    assert guess(tmp_path / "rows.csv").settings == {"separator": ";"}
    prepare(make_study(CSV, above + TABLE.replace("size;", "# size;")))
    assert guess(tmp_path / "rows.csv").settings == {"separator": ";"}


def test_data_in_place_of_column_names_are_noticed(make_study, tmp_path: Path) -> None:
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


def test_a_whole_number_of_lines_is_skipped(make_study) -> None:
    with pytest.raises(StudyError, match=r"data.skip_rows: "):
        make_study(CSV + "skip_rows = -1\n", TABLE)


def test_units_below_the_column_names_are_left_out_with_their_row(make_study) -> None:
    units = TABLE.replace("kind\n", "kind\nkg;m;\n")
    data = prepare(make_study(CSV + 'missing_target = "drop"\n', units))
    assert data.digest == prepare(make_study(CSV, TABLE)).digest
    assert data.notes == ("1 of 41 rows has no value of the target 'kind': left out",)
