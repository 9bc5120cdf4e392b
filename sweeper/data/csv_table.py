"""A CSV file as a frame, or what keeps it from being one, and what to write instead."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_integer_dtype

from sweeper.data.naming import listed

# what else than commas tables have between their fields, and how messages write it
_OTHERS = {";": ";", "\t": "\\t", "|": "|"}
_OF_INDEX = "only a first one that numbers the rows, as pandas' index, needs none"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class UnfitCsvError(ValueError):
    """A file that is no such table: what was found, and what to write instead.

    `reading` is the call of pandas that reads it as it is, empty where there is none.
    """

    def __init__(self, found: str, mend: str = "", reading: str = "") -> None:
        super().__init__(found)
        self.found = found
        self.mend = mend
        self.reading = reading

    @property
    def mend_of_study(self) -> str:
        """What to write where a study is to read the file."""
        instead = f', or read it with source = "python" and {self.reading}' if self.reading else ""
        return f"{self.mend}{instead}"


def read_csv_table(
    path: Path,
    *,
    texts: Collection[str] = (),
    nameless: Collection[str] = (),
    rows: int | None = None,
) -> pd.DataFrame:
    """The rows of a CSV file with a header, without the index that pandas wrote.

    Columns `texts` stay text where their values look like numbers. `nameless` are columns without a
    name, as pandas calls them, that are wanted all the same. At most `rows` are read.

    Raises:
        UnfitCsvError: it cannot be read, or not as it was meant.
    """
    try:
        header = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
        _check_separator(path, list(header))
        kinds: Any = {name: "str" for name in texts if name in set(header)}
        frame = pd.read_csv(path, low_memory=False, dtype=kinds, nrows=rows)
    except UnfitCsvError:
        raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    _check_shape(header, frame)
    first = frame.columns[0]
    has_index = not header.iloc[0] and first not in nameless and _is_index(frame[first])
    _check_names(list(header), nameless, start=int(has_index))
    return frame.drop(columns=first) if has_index else frame


def row_lines(path: Path) -> list[int]:
    """The line on which each row of a CSV file begins; its header is line 1."""
    begins: list[int] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader, line = csv.reader(file), 1
        for record in reader:
            # a blank line is no row, and a quoted field may run over several lines
            if len(record) > 1 or any(field.strip() for field in record):
                begins.append(line)
            line = reader.line_num + 1
    return begins[1:]


def _unreadable(path: Path, error: OSError | ValueError) -> UnfitCsvError:
    match error:
        case OSError():
            return UnfitCsvError(f"cannot be read: {error.strerror}")
        case UnicodeDecodeError():
            found = _undecodable(path)
            assert found is not None, "Python decodes what pandas does"
            return found
        case pd.errors.EmptyDataError():
            return UnfitCsvError("is empty", "write a line of column names, then a line a row")
        case _:
            what = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            mend = "write one field a column in every row"
            return UnfitCsvError(f"is no table: {what}", mend)


def _undecodable(path: Path) -> UnfitCsvError | None:
    """The byte that is no UTF-8, and what the file is probably written in; None without one."""
    mend, first = "write it again as UTF-8", b""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            first = first or line
            if first.startswith(_UTF_16):
                reading = 'pandas.read_csv(..., encoding="utf-16")'
                return UnfitCsvError("is text in UTF-16", mend, reading)
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                found = f"is not UTF-8 (byte 0x{byte:02x} in line {number})"
                return UnfitCsvError(found, mend, _reading(byte, first))
    return None


def _reading(byte: int, header: bytes) -> str:
    """The call of pandas that probably reads a file with such a byte."""
    # which Windows gives letters, and Latin-1 none
    encoding = "cp1252" if 0x80 <= byte < 0xA0 else "latin-1"
    names = header.decode(encoding, errors="replace")
    options = "" if "," in names else _options(_separator(names))
    return f'pandas.read_csv(..., encoding="{encoding}"{options})'


def _separator(header: str) -> str:
    """What a header without commas has most of that may stand between names; empty if nothing."""
    return max((one for one in _OTHERS if one in header), key=header.count, default="")


def _options(separator: str) -> str:
    """What pandas is told of a separator; who writes semicolons writes commas in numbers."""
    decimal = ', decimal=","' if separator == ";" else ""
    return f', sep="{_OTHERS[separator]}"{decimal}' if separator else ""


def _check_separator(path: Path, header: list[str]) -> None:
    if len(header) == 1 and (separator := _separator(header[0])):
        # pandas has decoded the header alone by now
        raise _undecodable(path) or UnfitCsvError(
            f"has columns that seem to be separated by '{_OTHERS[separator]}'",
            "write it again with commas between fields and points in numbers",
            f"pandas.read_csv(...{_options(separator)})",
        )


def _check_shape(header: pd.Series[str], frame: pd.DataFrame) -> None:
    if not isinstance(frame.index, pd.RangeIndex):
        # pandas would take the first field for the name of the row
        found = "has more fields in its rows than in its header"
        raise UnfitCsvError(found, "name every column")
    twice = [f"'{name}'" for name in header[header.duplicated()].unique() if name]
    if twice:
        # pandas would call the second one 'name.1'
        raise UnfitCsvError(f"has several columns {listed(twice)}", "give each its own name")
    if frame.empty:
        raise UnfitCsvError("has a header and no rows", "write a line a row")


def _is_index(column: pd.Series[Any]) -> bool:
    """Whether it only numbers the rows, all of them or those that are left of more."""
    return bool(is_integer_dtype(column.dtype) and column.is_unique and column.min() >= 0)


def _check_names(header: list[str], nameless: Collection[str], start: int) -> None:
    """Refuse columns without a name, from the place `start` on."""
    places = [
        str(place + 1)
        for place, name in enumerate(header)
        if place >= start and not name and f"Unnamed: {place}" not in nameless
    ]
    if places:
        mend = f"give each column a name; {_OF_INDEX}"
        raise UnfitCsvError(f"has no name for column {listed(places)}", mend)
