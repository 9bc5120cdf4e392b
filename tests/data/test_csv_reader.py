"""Rows, column names and separators of CSV files: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sweeper.data.csv_file import CsvFile, Dialect
from sweeper.data.csv_reader import read_csv_table
from sweeper.data.files import UnfitTableError
from sweeper.data.guess import guess
from sweeper.data.new_rows import read_rows
from sweeper.data.prepare import prepare
from sweeper.data.transform import Transform
from sweeper.errors import DataError

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
HEADER = "id,size,kind\n"
LONGER = "has more fields in its rows than in its header; name every column, also that of row names"
DECIMALS = ", and write decimal points if the numbers have decimal commas"


def numbered(end: str, n_rows: int = 60, start: int = 1) -> str:
    """Rows that begin with their number; each ends with its kind and `end`."""
    rows = range(start, start + n_rows)
    return "".join(f"{i},{i * i % 7}.5,{'pear' if i % 2 else 'fig'}{end}\n" for i in rows)


@pytest.mark.parametrize("start", [0, 1, 7])
@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (numbered(""), f"{LONGER}{DECIMALS}"),
        (
            numbered(","),
            "has more fields in its rows than in its header; remove the ',' at the end of each "
            "row, or name every column",
        ),
    ],
)
def test_rows_with_one_more_field_than_the_header_are_refused(
    text: str, advice: str, start: int, make_study, tmp_path: Path
) -> None:
    counted = "".join(
        f"{i + start},{line.partition(',')[2]}\n" for i, line in enumerate(text.splitlines())
    )
    table = HEADER + (counted if counted.endswith(",\n") else counted.replace(".5", ",5"))
    study = make_study(CSV, table)
    with pytest.raises(DataError) as caught:
        prepare(study)
    assert str(caught.value) == f"study.toml:11: data.path: rows.csv {advice}"
    with pytest.raises(DataError) as guessed:
        guess(tmp_path / "rows.csv")
    assert str(guessed.value).endswith(advice)


@pytest.mark.parametrize("text", ["size\n1,5\n2,5\n", "size\n1,5\n", "size,price\n1,5,2\n"])
def test_new_rows_with_one_more_field_than_the_header_are_refused(
    text: str, make_study, tmp_path: Path
) -> None:
    good = "size,price,kind\n" + numbered("")
    transform = Transform.from_dict(prepare(make_study(CSV, good)).transform)
    (tmp_path / "new.csv").write_text(text)
    with pytest.raises(DataError, match=LONGER):
        read_rows(tmp_path / "new.csv", transform, ())


@pytest.mark.parametrize("rows", ["1,2,\n3,4,5\n", "1,2,3,\n4,5,6,\n"])
def test_separators_are_only_to_be_removed_where_that_helps(rows: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("size,kind\n" + rows)
    with pytest.raises(UnfitTableError) as caught:
        read_csv_table(CsvFile(tmp_path / "rows.csv"))
    assert caught.value.hint == f"name every column, also that of row names{DECIMALS}"


@pytest.mark.parametrize("row", [2, 1000, 1999])
def test_a_later_row_with_one_more_field_is_refused(row: int, tmp_path: Path) -> None:
    lines = (HEADER + numbered("", 1999)).splitlines()
    lines[row] += ",1"
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with pytest.raises(UnfitTableError, match=f"Expected 3 fields in line {row + 1}, saw 4"):
        read_csv_table(CsvFile(tmp_path / "rows.csv"))


def test_a_study_of_an_earlier_edition_still_numbers_its_rows_by_the_first_field(
    make_study,
) -> None:
    study = make_study(CSV, "size,dose,kind\n" + numbered("").replace(".5", ",5"))
    assert prepare(study.with_edition(4)).feature_names == ("size", "dose")


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("edition", [4, 5])
def test_row_names_that_r_has_written_in_quotes_are_not_a_column(
    edition: int, separator: str, make_study, tmp_path: Path
) -> None:
    rows = [(i % 7 + 0.5, "NA" if i == 5 else i % 3, "ab"[i % 2]) for i in range(60)]
    text = "size,dose,kind\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)
    settings = CSV + f"separator = '{separator}'\nimpute = 'median'\n"
    expected = prepare(make_study(settings, text.replace(",", separator)).with_edition(edition))
    of_r = '"size","dose","kind"\n' + "".join(
        f'"{i + 1}",{a},{b},"{c}"\n' for i, (a, b, c) in enumerate(rows)
    )
    study = make_study(settings, of_r.replace(",", separator)).with_edition(edition)
    assert prepare(study).digest == expected.digest
    assert (guess(tmp_path / "rows.csv").features, guess(tmp_path / "rows.csv").rows) == (2, 60)
    new = read_rows(
        tmp_path / "rows.csv", Transform.from_dict(expected.transform), {"kind"}, ["dose"],
        Dialect(separator),
    )  # fmt: skip
    assert new.kept["dose"].tolist()[4:7] == ["1", "NA", "0"]
    assert new.unused == []


def test_text_of_r_in_place_of_row_numbers_needs_a_name(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('"size","kind"\n"Mazda",1,"a"\n"Fiat",2,"b"\n')
    with pytest.raises(UnfitTableError, match="has no name for column 1"):
        read_csv_table(CsvFile(tmp_path / "rows.csv"))


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("size;City, State;kind\n", "{};Salem, OR;{}\n"),
        ("size;City, State;kind\n", "{};Boston;{}\n"),
        ("City, State;kind\n", "Salem, O{};{}\n"),
        ("Price, EUR;Area, m2, rounded;kind\n", "3{};50;{}\n"),
    ],
)
@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_comma_in_a_column_name_does_not_separate_columns(
    separator: str, header: str, rows: str, make_study, tmp_path: Path
) -> None:
    text = header + "".join(rows.format(i % 9, "ab"[i % 2]) for i in range(60))
    text = text.replace(";", separator)
    study = make_study(CSV, text)
    shown = separator.replace("\t", "\\t")
    with pytest.raises(DataError) as caught:
        prepare(study)
    assert str(caught.value) == (
        "study.toml:11: data.path: rows.csv has columns that seem to be separated by "
        f'{separator!r}; write separator = "{shown}"'
    )
    guessed = guess(tmp_path / "rows.csv", "kind")
    assert guessed.settings == {"separator": separator}
    assert guessed.features + len(guessed.drop) == header.count(";")
    right = prepare(make_study(f"{CSV}separator = '{separator}'\n"))
    new = read_rows(tmp_path / "rows.csv", Transform.from_dict(right.transform), {"kind"})
    assert [*new.frame] == header.strip().split(";")[:-1]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("title,genres|tags,kind", "a,x|y"),
        ("a;b,size,kind", "1,2"),
        ("a|b,kind", "x|y"),
        ('"a;b",kind', '"1;2"'),
    ],
)
def test_another_separator_in_a_name_of_a_comma_separated_file_is_part_of_it(
    header: str, row: str, tmp_path: Path
) -> None:
    lines = [header, *(f"{row},{'ab'[i % 2]}" for i in range(60))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    frame = read_csv_table(CsvFile(tmp_path / "rows.csv"))
    assert [*frame] == header.replace('"', "").split(",")


def test_a_study_of_an_earlier_edition_keeps_its_separator(make_study) -> None:
    rows = "".join(f"{i};Salem, {'OR'[i % 2]};{'ab'[i % 2]}\n" for i in range(60))
    study = make_study(
        CSV.replace("kind", " State;kind") + 'categorical_columns = ["size;City"]\n',
        "size;City, State;kind\n" + rows,
    )
    assert prepare(study.with_edition(4)).n_features > 10
    with pytest.raises(DataError, match="seem to be separated by ';'"):
        prepare(study)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_gap_in_quotes_is_a_row_and_a_blank_line_is_none(end: str, tmp_path: Path) -> None:
    lines = ["size", "0.5", '""', "", "  ", '"1', '2"', '""', "9"]
    (tmp_path / "rows.csv").write_bytes(end.join([*lines, ""]).encode())
    file = CsvFile(tmp_path / "rows.csv")
    assert file.row_lines() == [2, 3, 6, 8, 9]
    assert len(read_csv_table(file)) == 5


@pytest.mark.parametrize(
    "error",
    [MemoryError(), pd.errors.ParserError("Error tokenizing data. C error: out of memory")],
)
def test_a_table_that_takes_too_much_memory_is_not_called_invalid(
    error: Exception, tmp_path: Path
) -> None:
    class Large(CsvFile):
        def read(self, **options: Any) -> Any:
            raise error

    (tmp_path / "rows.csv").write_text(f"{HEADER}{numbered('')}", encoding="utf-8")
    with pytest.raises(UnfitTableError) as refused:
        read_csv_table(Large(tmp_path / "rows.csv"))
    assert (refused.value.found, refused.value.hint) == (
        "takes more memory than there is",
        "use fewer rows or columns, or a machine with more memory",
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<!DOCTYPE html>\n<html>\n<p>a, b</p>\n</html>\n", "is a web page or XML, not CSV"),
        ('<?xml version="1.0"?>\n<rows/>\n', "is a web page or XML, not CSV"),
        ('[{"size": 1, "kind": "fig"}, {"size": 2, "kind": "pear"}]', "is JSON, not CSV"),
        ('{"size": 1, "kind": "fig"}\n{"size": 2, "kind": "pear"}\n', "is JSON, not CSV"),
        ('[\n {"size": 1},\n {"size": 2}\n]\n', "is JSON, not CSV"),
        ('{ "size": 1, "kind": "fig" }\n{ "size": 2, "kind": "pear" }\n', "is JSON, not CSV"),
        ('["size", "kind"]\n[1, "fig"]\n', "is JSON, not CSV"),
        ('[ { "size": 1, "kind": "fig" } ]\n', "is JSON, not CSV"),
        ("<table>\n<tr><td>1, 2</td></tr>\n</table>\n", "is a web page or XML, not CSV"),
        ('<div class="rows, all">\n<p>1, 2</p>\n</div>\n', "is a web page or XML, not CSV"),
        ('<feed xmlns="http://www.w3.org/2005/Atom">\n</feed>\n', "is a web page or XML, not CSV"),
        ("<!-- saved, now -->\n<html>\n</html>\n", "is a web page or XML, not CSV"),
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "is a pointer of Git LFS, not the file itself; run `git lfs pull`",
        ),
    ],
)
def test_a_file_of_another_kind_is_named(text: str, found: str, make_study, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"rows.csv {found}"):
        prepare(make_study(CSV, text))
    with pytest.raises(DataError, match=f"rows.csv: {found}"):
        guess(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    "source",
    [
        'source = "csv"\npath = "rows.csv"\ntarget = "y"\n',
        'source = "parquet"\npath = "rows.parquet"\ntarget = "y"\n',
        'source = "npz"\npath = "rows.npz"\n',
    ],
)
def test_a_pointer_of_git_lfs_is_named_for_every_source(
    source: str, make_study, tmp_path: Path
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    for suffix in ("csv", "parquet", "npz"):
        (tmp_path / f"rows.{suffix}").write_text(pointer)
    with pytest.raises(DataError, match=r"is a pointer of Git LFS, not the file itself; run `git"):
        prepare(make_study(source))
