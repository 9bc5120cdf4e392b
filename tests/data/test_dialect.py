"""CSV files with other separators than commas and other encodings than UTF-8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sweeper.data.csv_reader import Dialect, likely_dialect
from sweeper.data.prepare import prepare
from sweeper.errors import DataError

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
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


def test_rows_are_reported_by_their_lines(make_study, tmp_path: Path) -> None:
    rows = [row.copy() for row in ROWS]
    rows[2][1] = '"light\nblue"'  # lines 3 and 4
    rows[5][0] = ""  # line 7
    (tmp_path / "rows.csv").write_bytes(written(Dialect(";", ",", "latin-1"), rows))

    with pytest.raises(DataError, match=r"column 'größe' .*: 1 value is missing \(line 7\)"):
        prepare(make_study(CSV + 'separator = ";"\ndecimal = ","\nencoding = "latin-1"\n'))
