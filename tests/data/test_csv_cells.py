"""Cells of a CSV file that swallow rows or hold a NUL byte are refused, by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.data.csv_file import CsvFile, Dialect
from sweeper.data.csv_reader import read_csv_table
from sweeper.data.files import UnfitTableError
from sweeper.data.guess import guess
from sweeper.data.prepare import prepare
from sweeper.errors import DataError

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
HEADER = ["size", "colour", "weight", "kind"]
ROWS = [[f"{i}.5", "red" if i % 3 else "blue", str(i), "ab"[i % 2]] for i in range(60)]


def table(quoted: dict[tuple[int, int], str], separator: str = ",", end: str = "\n") -> str:
    """The rows with other texts in the cells `quoted`, counted from 0."""
    rows = [
        [quoted.get((row, place), cell) for place, cell in enumerate(cells)]
        for row, cells in enumerate(ROWS)
    ]
    return end.join(separator.join(cells) for cells in [HEADER, *rows]) + end


SWALLOWED = {
    "of many rows": (table({(9, 1): '"red', (49, 1): 'red"'}), "'colour'", 11, 40),
    "of two rows": (table({(9, 1): '"red', (10, 1): 'red"'}), "'colour'", 11, 1),
    "in a column of numbers": (table({(3, 2): '"3', (5, 2): '5"'}), "'weight'", 5, 2),
    "in the target": (table({(3, 3): '"a', (9, 3): 'a"'}), "'kind'", 5, 6),
    "in the first column": (table({(3, 0): '"3.5', (9, 0): '9.5"'}), "'size'", 5, 6),
    "until a quoted cell": (table({(3, 1): '"red', (9, 1): '"blue"'}), "'colour'", 5, 6),
    "with line breaks of Windows": (
        table({(3, 1): '"red', (9, 1): 'blue"'}, end="\r\n"), "'colour'", 5, 6,
    ),
    "with gaps": (
        table({(3, 1): '"red', (4, 2): "", (5, 2): "?", (9, 1): 'blue"'}), "'colour'", 5, 6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SWALLOWED)
def test_quotes_that_swallow_rows_are_refused(case: str, make_study, tmp_path: Path) -> None:
    text, column, line, n_rows = SWALLOWED[case]
    rows = "row" if n_rows == 1 else "rows"
    problem = (
        f"rows.csv has a quoted field in column {column} that begins in line {line} and swallows "
        f"the {n_rows} {rows} up to line {line + n_rows}; "
        'remove the stray quotes (") in these two lines'
    )
    study = make_study(CSV, text)
    (tmp_path / "rows.csv").write_bytes(text.encode())
    with pytest.raises(DataError) as caught:
        prepare(study)
    assert str(caught.value) == f"study.toml:11: data.path: {problem}"
    with pytest.raises(DataError, match=f"begins in line {line} and swallows"):
        guess(tmp_path / "rows.csv")


def test_studies_of_earlier_versions_still_read_such_cells(make_study) -> None:
    study = make_study(CSV, SWALLOWED["of many rows"][0])
    earlier = prepare(study.model_copy(update={"edition": 1}))
    assert len(earlier.x_train) + len(earlier.x_val) + len(earlier.x_test) == 20


def test_a_long_swallowed_field_is_found_with_another_separator(tmp_path: Path) -> None:
    rows = "".join(f"{i},5;{'x' * 90};b\n" for i in range(2000))
    text = f'size;text;kind\n1,5;"x;b\n{rows}1,5;x";b\n1,5;y;b\n'
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(UnfitTableError, match="begins in line 2 and swallows the 2001 rows"):
        read_csv_table(CsvFile(tmp_path / "rows.csv", Dialect(";", ",")))


@pytest.mark.parametrize(
    "cell", ['"red\nand, in part, blue"', '"red\n\nblue"', '"1,2,3\n4,5,6"', '"red,\nblue,green,"']
)
def test_text_of_several_lines_is_kept(cell: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(table({(3, 1): cell}))
    frame = read_csv_table(CsvFile(tmp_path / "rows.csv"))
    assert len(frame) == 60
    assert frame["colour"][3] == cell.strip('"')


@pytest.mark.parametrize("place", range(4))
def test_a_nul_byte_is_refused(place: int, make_study) -> None:
    cell = ROWS[7][place]
    with pytest.raises(DataError) as caught:
        prepare(make_study(CSV, table({(7, place): f"{cell[0]}\0{cell[1:]}"})))
    assert str(caught.value) == (
        f"study.toml:11: data.path: rows.csv has a NUL byte in column '{HEADER[place]}' (line 9); "
        "remove the byte, or write the file again"
    )


@pytest.mark.parametrize(
    ("row", "others"), [(2, {}), (59, {}), (8, {(2, 1): '"red', (4, 1): 'red"'})]
)
def test_a_quote_that_is_not_closed_is_named_by_its_line(
    row: int, others: dict[tuple[int, int], str], make_study, tmp_path: Path
) -> None:
    text = table({(row, 1): '"red', **others})
    problem = f'has a field that begins with a quote (") in line {row + 2} and never ends'
    study = make_study(CSV, text)
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(DataError) as caught:
        prepare(study)
    expected = f"study.toml:11: data.path: rows.csv {problem}; remove the stray quote"
    assert str(caught.value) == expected
    with pytest.raises(DataError) as guessed:
        guess(tmp_path / "rows.csv")
    assert f"{problem}; remove the stray quote" in str(guessed.value)
