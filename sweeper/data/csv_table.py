"""A CSV file as a frame, or what keeps it from being one, and what to write instead."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_integer_dtype

from sweeper.data.dialect import SEPARATORS, USUAL, Dialect, likely_dialect
from sweeper.naming import listed

_OF_INDEX = "only a first one that numbers the rows, as pandas' index, needs none"


class UnfitCsvError(ValueError):
    """A file that is no such table: what was found, and what to write instead.

    `likely` is how the file is probably written, where it is not as it was read.
    """

    def __init__(self, found: str, mend: str = "", likely: Dialect | None = None) -> None:
        super().__init__(found)
        self.found = found
        self.mend = mend
        self.likely = likely


def read_csv_table(
    path: Path,
    dialect: Dialect = USUAL,
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
        header = pd.read_csv(
            path, header=None, nrows=1, dtype=str, keep_default_na=False, **dialect.options
        ).iloc[0]
        _check_separator(path, list(header), dialect)
        kinds: Any = {name: "str" for name in texts if name in set(header)}
        frame = pd.read_csv(path, low_memory=False, dtype=kinds, nrows=rows, **dialect.options)
    except UnfitCsvError:
        raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, dialect) from error
    _check_shape(header, frame)
    first = frame.columns[0]
    has_index = not header.iloc[0] and first not in nameless and _is_index(frame[first])
    _check_names(list(header), nameless, start=int(has_index))
    return frame.drop(columns=first) if has_index else frame


def row_lines(path: Path, dialect: Dialect = USUAL) -> list[int]:
    """The line on which each row of a CSV file begins; its header is line 1."""
    # which pandas skips at the begin of a file, too
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    begins: list[int] = []
    with path.open(encoding=encoding, newline="") as file:
        reader, line = csv.reader(file, delimiter=dialect.separator), 1
        for record in reader:
            # a blank line is no row, and a quoted field may run over several lines
            if len(record) > 1 or any(field.strip() for field in record):
                begins.append(line)
            line = reader.line_num + 1
    return begins[1:]


def _unreadable(path: Path, error: OSError | ValueError, dialect: Dialect) -> UnfitCsvError:
    match error:
        case OSError():
            return UnfitCsvError(f"cannot be read: {error.strerror}")
        case UnicodeError():
            return _undecodable(path, dialect)
        case pd.errors.EmptyDataError():
            return UnfitCsvError("is empty", "write a line of column names, then a line a row")
        case _:
            what = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            mend = "write one field a column in every row"
            return UnfitCsvError(f"is no table: {what}", mend)


def _undecodable(path: Path, dialect: Dialect) -> UnfitCsvError:
    """What keeps a file from being text in this encoding, and what it is probably written in."""
    likely = likely_dialect(path)
    if likely.encoding == "utf-16":
        return UnfitCsvError("is text in UTF-16", likely=likely)
    content, where = path.read_bytes(), ""
    try:
        content.decode(dialect.encoding)
    except UnicodeDecodeError as error:
        if "\n".encode(dialect.encoding) == b"\n":  # else a byte says nothing
            line = content.count(b"\n", 0, error.start) + 1
            where = f" (byte 0x{content[error.start]:02x} in line {line})"
    except UnicodeError:
        where = ""  # it does not begin as the encoding wants
    return UnfitCsvError(f"is not {dialect.encoding.upper()}{where}", likely=likely)


def _check_separator(path: Path, header: list[str], dialect: Dialect) -> None:
    others = [one for one in SEPARATORS if one != dialect.separator]
    if len(header) == 1 and any(one in header[0] for one in others):
        likely = likely_dialect(path)
        found = f"has columns that seem to be separated by {likely.separator!r}"
        raise UnfitCsvError(found, likely=likely)


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
