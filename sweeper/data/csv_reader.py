"""Reads a CSV file into a frame, and guesses the format of an unknown file.

For a file that cannot be read, the error names the place and the setting that would read it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype, is_numeric_dtype

from sweeper.config.toml import toml_value
from sweeper.data.identity import EXACT, MISSING_WORDS, number_of, written
from sweeper.data.packed import (
    DAMAGE,
    SEPARATORS,
    PackedError,
    check_size,
    is_packed,
    open_unpacked,
)
from sweeper.errors import counted, listed

# line ends in the supported encodings
SUFFIXES = (".csv", ".tsv", ".txt")
_SINGLE_QUOTES = 'quotechar="\'"'
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_UTF_32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
# lines to read to find out which decimal separator yields more numeric columns
_ROWS = 100
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", re.IGNORECASE)
_PLAIN = re.compile(r"\s*[-+]?\d+([.,]\d*)?\s*")
_SEP = re.compile(r'\ufeff?"?sep=(.)"?', re.IGNORECASE)
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The field separator, the decimal separator and the text encoding."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    skip_rows: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """The arguments for `pandas.read_csv`."""
        return {"sep": self.separator, "decimal": self.decimal, "encoding": self.encoding}

    @property
    def reading(self) -> str:
        """The pandas call that reads such a file."""
        return f"pandas.read_csv({', '.join(['...', *self.arguments(*self.options, 'skiprows')])})"

    def arguments(self, *names: str) -> list[str]:
        """The arguments `names` for pandas as code, without those that have their usual value."""
        usual = {**USUAL.options, "skiprows": USUAL.skip_rows}
        given = {**self.options, "skiprows": self.skip_rows}
        return [f"{n}={toml_value(given[n])}" for n in names if given[n] != usual[n]]

    def __str__(self) -> str:
        """In words, for people who are to write such a file."""
        between, within = toml_value(self.separator), toml_value(self.decimal)
        return f"{between} between fields and {within} in numbers, as {self.encoding}"

    def instead_of(self, other: Dialect) -> dict[str, str | int]:
        """The settings of a study that select this dialect instead of the other."""
        before = asdict(other)
        return {key: value for key, value in asdict(self).items() if value != before[key]}


USUAL = Dialect()


@contextmanager
def open_text(path: Path, dialect: Dialect, errors: str = "strict") -> Iterator[TextIO]:
    """The text of a file, which may be compressed, from its header on.

    Raises:
        PackedError: it is an archive that does not contain exactly one file.
        OSError, UnicodeError: it cannot be read.
    """
    # pandas also skips a byte order mark at the start of a file
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    with open_unpacked(path) as raw, TextIOWrapper(raw, encoding, errors, newline="") as file:
        for _ in range(dialect.skip_rows):
            file.readline()
        yield file


def read_fields(
    path: Path, dialect: Dialect, *, errors: str = "strict", **options: Any
) -> pd.DataFrame:
    """The result of `pandas.read_csv` for a file, which may be compressed, from its header on."""
    options = {**dialect.options, "encoding_errors": errors, "compression": None, **options}
    if not dialect.skip_rows and not is_packed(path):
        check_size(path)
        return pd.read_csv(path, **options)
    with open_text(path, dialect, errors) as file:
        return pd.read_csv(file, **{**options, "encoding": file.encoding})


def rewriting(path: Path, dialect: Dialect, change: str, *options: str) -> str:
    """The pandas code that makes a `change` to a CSV file and leaves all other text unchanged.

    `options` are additional arguments for reading it.
    """
    name = toml_value(_from_here(path))
    first = read_fields(path, dialect, header=None, nrows=1, dtype=str, keep_default_na=False)
    is_nameless = not str(first.iloc[0, 0])
    reading = [
        name,
        *dialect.arguments("sep", "encoding", "skiprows"),
        *(["index_col=0"] if is_nameless else []),
        *("dtype=str", "keep_default_na=False", *options),
    ]
    writing = [name, *dialect.arguments("sep", "decimal", "encoding")]
    writing += [] if is_nameless else ["index=False"]
    after = ", and remove skip_rows from [data]" if dialect.skip_rows else ""
    steps = f"{change}; " if change else ""
    return f"df = pd.read_csv({', '.join(reading)}); {steps}df.to_csv({', '.join(writing)}){after}"


def unquoting(path: Path, dialect: Dialect) -> str:
    """How to rewrite a CSV file whose fields are in single quotes."""
    return f"use pandas: {rewriting(path, dialect, '', _SINGLE_QUOTES)}"


def without_rows(path: Path, dialect: Dialect, n_rows: int) -> str:
    """How to rewrite a CSV file without its first rows."""
    return f"remove them, or use pandas: {rewriting(path, dialect, f'df = df[{n_rows}:]')}"


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def format_settings(settings: Mapping[str, str | int]) -> str:
    """Settings as in a study file, listed in a sentence."""
    return listed([f"{name} = {toml_value(value)}" for name, value in settings.items()])


def likely_dialect(path: Path) -> Dialect:
    """The probable format of a file, judged by its bytes, its header and its first rows.

    Raises:
        OSError: it cannot be read.
    """
    encoding = _likely_encoding(path)
    with open_text(path, Dialect(encoding=encoding), "replace") as file:
        separator, skip_rows = _layout([*islice(file, _ROWS)])
    # if numbers contain commas, commas do not separate fields
    usual = Dialect(separator, ".", encoding, skip_rows)
    if separator == "," or not _has_decimal_commas(path, usual):
        return usual
    with_comma = replace(usual, decimal=",")
    return max(usual, with_comma, key=lambda dialect: _numbers(path, dialect))


def _layout(lines: Sequence[str]) -> tuple[str, int]:
    """The field separator, and the number of lines above the header."""
    # the first line of Excel's own CSV files
    if said := _SEP.fullmatch(lines[0].rstrip("\r\n") if lines else ""):
        return said[1], 1
    headers = {separator: _header_line(lines, separator) for separator in SEPARATORS}
    least = min(headers.values())
    if least == len(lines):
        return max(SEPARATORS, key=(lines[0] if lines else "").count), 0
    first = max((one for one in SEPARATORS if headers[one] == least), key=lines[least].count)
    above = any(line.strip() for line in lines[:least])  # pandas skips blank lines itself
    return first, least if above else 0


def _header_line(lines: Sequence[str], separator: str) -> int:
    """The first line from which all have as many fields as the last, or the end if there is none.

    Lines with a # or with only one non-empty field are above the header if text follows.
    """
    reader, begins, records = csv.reader(lines, delimiter=separator), [0], list[list[str]]()
    try:
        for record in reader:
            records.append(record)
            begins.append(reader.line_num)
    except csv.Error:
        return len(lines)
    rows = [(begins[place], record) for place, record in enumerate(records) if any(record)]
    width = len(rows[-1][1]) if rows else 0
    place = len(rows)
    while place and len(rows[place - 1][1]) == width:
        place -= 1
    if width < 2 or place > len(rows) - 2:
        return len(lines)
    while place < len(rows) - 2 and _is_title(rows[place][1], rows[place + 1][1]):
        place += 1
    if place and any(_PLAIN.fullmatch(field) for field in rows[place][1]):
        return len(lines)
    return rows[place][0]


def _is_title(record: Sequence[str], following: Sequence[str]) -> bool:
    """Whether a line is above the header: a comment, or a title in one of its fields."""
    is_text = not any(_PLAIN.fullmatch(field) for field in following)
    is_alone = len(record) > 2 and sum(bool(field.strip()) for field in record) == 1
    return is_text and (record[0].startswith("#") or is_alone)


def _likely_encoding(path: Path) -> str:
    with open_unpacked(path) as file:
        for place, line in enumerate(file):
            if not place and line.startswith(_UTF_32):
                return "utf-32"
            if not place and line.startswith(_UTF_16):
                return "utf-16"
            if not place and b"\0" in line:  # without a byte order mark
                return "utf-16-be" if line.startswith(b"\0") else "utf-16-le"
            try:
                line.decode()
            except UnicodeDecodeError as error:
                # Windows encodings have letters here, Latin-1 has none
                return "cp1252" if 0x80 <= line[error.start] < 0xA0 else "latin-1"
    return "utf-8"


def _has_decimal_commas(path: Path, dialect: Dialect) -> bool:
    """Whether some number has a comma that cannot be a thousands separator, as in 1,234."""
    try:
        rows = read_fields(path, dialect, errors="replace", nrows=_ROWS, dtype=str)
    except ValueError:
        return False
    texts = [str(text) for name in rows for text in rows[name].dropna()]
    return any(_DECIMAL_COMMA.fullmatch(text) and not _THOUSANDS.fullmatch(text) for text in texts)


def _numbers(path: Path, dialect: Dialect) -> int:
    """How many columns are numbers if the file is read this way."""
    try:
        rows = read_fields(path, dialect, errors="replace", nrows=_ROWS)
    except ValueError:  # not a table if read this way
        return 0
    return len(rows.select_dtypes("number").columns)


_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_LONGEST_FIELD = 2**31 - 1
_OF_INDEX = "only a first column that numbers the rows, like pandas' index, needs none"


class UnfitCsvError(ValueError):
    """A file that is not a valid table: what is wrong, and how to fix it.

    `likely` is the file's probable format, if it was read with another one.
    """

    def __init__(self, found: str, hint: str = "", likely: Dialect | None = None) -> None:
        super().__init__(found)
        self.found = found
        self.hint = hint
        self.likely = likely


def read_csv_table(
    path: Path,
    dialect: Dialect = USUAL,
    *,
    texts: Collection[str] = (),
    nameless: Collection[str] = (),
    rows: int | None = None,
    missing: Sequence[str] | None = None,
    categories: Collection[str] | None = None,
    strict: bool = True,
) -> pd.DataFrame:
    """The rows of a CSV file with a header, without the index that pandas wrote.

    Columns in `texts` stay text, including words for missing values. `nameless` are wanted columns
    without a name, as pandas calls them. At most `rows` rows are read. `missing` are the strings
    that mean a missing value, `MISSING_WORDS` if None.

    Columns in `categories` stay text if the numbers that pandas reads differ from what is written,
    such as 01234; other columns get the integers that are written. If None, all are as pandas reads
    them. If `strict`, cells with a NUL byte and quoted cells that contain whole rows are refused.

    Raises:
        UnfitCsvError: it cannot be read, or was read with the wrong format.
    """
    try:
        header = read_fields(
            path, dialect, header=None, nrows=1, dtype=str, keep_default_na=False
        ).iloc[0]
        if any("\0" in name for name in header):
            raise _undecodable(path, dialect)
        _check_separator(path, list(header), dialect)
        _check_first_line(path, list(header), dialect)
        kinds: Any = {name: "str" for name in texts if name in set(header)}
        options = {**_gaps(missing, [*header], kinds), "nrows": rows}
        frame = read_fields(path, dialect, low_memory=False, dtype=kinds, **options)
    except UnfitCsvError:
        raise
    except (OSError, ValueError, *DAMAGE) as error:
        raise _unreadable(path, error, dialect) from error
    _check_shape(path, header, frame, dialect)
    if strict:
        _check_cells(path, frame, dialect)
    first = frame.columns[0]
    has_index = not header.iloc[0] and first not in nameless and _is_index(frame[first])
    _check_names(path, list(header), nameless, int(has_index), dialect)
    frame = frame.drop(columns=first) if has_index else frame
    return frame if categories is None else _as_written(path, dialect, frame, categories, options)


def missing_words(
    path: Path,
    dialect: Dialect,
    frame: pd.DataFrame,
    missing: Sequence[str] | None,
    rows: int | None = None,
) -> dict[str, dict[str, int]]:
    """How often each word means a missing value, for the columns of `frame` that have any.

    `frame` contains the first `rows` of the file, or all.
    """
    gaps = [str(name) for name in frame if frame[name].isna().any()]
    if not gaps:
        return {}
    words = MISSING_WORDS if missing is None else missing
    texts = _texts(path, dialect, gaps, {"keep_default_na": False, "nrows": rows})
    found = {name: texts[name][texts[name].isin([word for word in words if word])] for name in gaps}
    return {
        name: {str(word): int(count) for word, count in column.value_counts().items()}
        for name, column in found.items()
        if len(column)
    }


def row_lines(path: Path, dialect: Dialect = USUAL) -> list[int]:
    """The line on which each row of a CSV file starts; its header is line 1."""
    begins: list[int] = []
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        with open_text(path, dialect) as file:
            reader, line = csv.reader(file, delimiter=dialect.separator), 1 + dialect.skip_rows
            for record in reader:
                # a blank line is not a row, and a quoted field may span several lines
                if len(record) > 1 or any(field.strip() for field in record):
                    begins.append(line)
                line = reader.line_num + 1 + dialect.skip_rows
    finally:
        csv.field_size_limit(limit)
    return begins[1:]


def _gaps(
    missing: Sequence[str] | None, header: Sequence[str], texts: Mapping[str, Any]
) -> dict[str, Any]:
    """The pandas options for strings that mean missing values, except in columns `texts`."""
    if missing is None and not texts:
        return {}
    words = [*(MISSING_WORDS if missing is None else missing)]
    # pandas treats an empty list as its own words
    names = [name or f"Unnamed: {place}" for place, name in enumerate(header)]
    by_column = {name: words for name in names if name not in texts and words}
    return {"na_values": by_column, "keep_default_na": False}


def _texts(
    path: Path, dialect: Dialect, columns: Sequence[str], options: Mapping[str, Any]
) -> pd.DataFrame:
    """Columns of the file as they are written."""
    return read_fields(path, dialect, usecols=[*columns], dtype=str, low_memory=False, **options)


def _as_written(
    path: Path,
    dialect: Dialect,
    frame: pd.DataFrame,
    categories: Collection[str],
    options: Mapping[str, Any],
) -> pd.DataFrame:
    """The rows, with columns as written if pandas has read them as different numbers."""
    doubtful = [str(name) for name in frame if _is_doubtful(frame[name], str(name) in categories)]
    if not doubtful:
        return frame
    texts, decimal = _texts(path, dialect, doubtful, options), dialect.decimal
    changed: dict[str, Any] = {}
    for name in doubtful:
        if name in categories:
            changed[name] = texts[name] if _differs(texts[name], frame[name], decimal) else None
        else:
            changed[name] = _integers(texts[name], frame[name])
    return frame.assign(**{name: one for name, one in changed.items() if one is not None})


def _is_doubtful(column: pd.Series[Any], is_category: bool) -> bool:
    """Whether numbers may be written in a way that their values do not show."""
    if is_category:
        return _is_number(column.dtype)
    return is_float_dtype(column.dtype) and bool((column.abs() >= EXACT).any())


def _differs(texts: pd.Series[Any], numbers: pd.Series[Any], decimal: str) -> bool:
    """Whether some text is more than a number: a code such as 01234 or 1E5, or too many digits."""
    pairs = pd.DataFrame({"text": texts, "number": numbers}).dropna().drop_duplicates()
    return any(
        (plain := text.strip().replace(decimal, ".")) != repr(number)
        and number_of(plain) != Decimal(written(number))
        for text, number in zip(pairs["text"], pairs["number"].tolist(), strict=True)
    )


def _integers(texts: pd.Series[Any], numbers: pd.Series[Any]) -> pd.Series[Any] | None:
    """The column with the integers as written; None if they are the same."""
    large = numbers.abs() >= EXACT
    digits = texts[large & texts.str.strip().str.fullmatch(r"[-+]?\d+").fillna(False).astype(bool)]
    exact = digits.map(int)
    if exact.tolist() == [int(number) for number in numbers[exact.index].tolist()]:
        return None
    changed = numbers.astype(object)
    changed[exact.index] = exact
    return changed


def _unreadable(path: Path, error: Exception, dialect: Dialect) -> UnfitCsvError:
    match error:
        case PackedError():
            return UnfitCsvError(error.found, error.hint)
        case OSError() if error.strerror:
            return UnfitCsvError(f"cannot be read: {error.strerror}")
        case _ if isinstance(error, (OSError, *DAMAGE)):
            return UnfitCsvError(f"cannot be decompressed: {error}", "copy or compress it again")
        case UnicodeError():
            return _undecodable(path, dialect)
        case pd.errors.EmptyDataError():
            return UnfitCsvError("is empty", "write a line of column names, then one line per row")
        case _:
            what = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            hint = "write one field per column in every row"
            return UnfitCsvError(f"is not a table: {what}", hint)


def _undecodable(path: Path, dialect: Dialect) -> UnfitCsvError:
    """The error of a file that is not text in this encoding, with its probable encoding."""
    likely = likely_dialect(path)
    if likely.encoding.startswith("utf-") and likely.encoding != "utf-8":
        return UnfitCsvError(f"is text in {likely.encoding.upper()}", likely=likely)
    with open_unpacked(path) as file:
        content, where = file.read(), ""
    try:
        content.decode(dialect.encoding)
    except UnicodeDecodeError as error:
        if "\n".encode(dialect.encoding) == b"\n":  # otherwise a byte means nothing
            line = content.count(b"\n", 0, error.start) + 1
            where = f" (byte 0x{content[error.start]:02x} in line {line})"
    except UnicodeError:
        where = ""  # it lacks the start that the encoding needs
    return UnfitCsvError(f"is not {dialect.encoding.upper()}{where}", likely=likely)


def _check_separator(path: Path, header: list[str], dialect: Dialect) -> None:
    others = [one for one in SEPARATORS if one != dialect.separator]
    if len(header) == 1 and any(one in header[0] for one in others):
        likely = likely_dialect(path)
        found = f"has columns that seem to be separated by {likely.separator!r}"
        raise UnfitCsvError(found, likely=likely)


def _check_first_line(path: Path, header: list[str], dialect: Dialect) -> None:
    """Refuse a comment, or Excel's `sep=;`, in place of the header."""
    if len(header) == 1 or header[0].startswith("#") or header[0].lower().startswith("sep="):
        _check_above(path, dialect)


def _check_above(path: Path, dialect: Dialect) -> None:
    """Refuse lines above the header if there are more than are skipped."""
    likely = likely_dialect(path)
    if likely.skip_rows > dialect.skip_rows:
        lines = "a line" if likely.skip_rows == 1 else f"{likely.skip_rows} lines"
        raise UnfitCsvError(f"has {lines} above its column names", likely=likely)


def _check_shape(path: Path, header: pd.Series[str], frame: pd.DataFrame, dialect: Dialect) -> None:
    if not isinstance(frame.index, pd.RangeIndex):
        _check_above(path, dialect)
        # pandas would use the first field as the name of the row
        found = "has more fields in its rows than in its header"
        raise UnfitCsvError(found, "name every column")
    twice = [f"'{name}'" for name in header[header.duplicated()].unique() if name]
    if twice:
        # pandas would rename the second one to 'name.1'
        is_data = pd.to_numeric(header, errors="coerce").notna().mean() > 0.5
        names = "add a line of column names: line 1 looks like data"
        hint = names if is_data else "give each its own name"
        raise UnfitCsvError(f"has several columns {listed(twice)}", hint)
    if frame.empty:
        raise UnfitCsvError("has a header but no rows", "write one line per row")


def _check_cells(path: Path, frame: pd.DataFrame, dialect: Dialect) -> None:
    """Refuse cells with a NUL byte, and quoted cells that swallow whole rows."""
    for place, name in enumerate(frame):
        column = frame[name]
        if not isinstance(column.dtype, pd.StringDtype):
            continue
        for row in np.flatnonzero(column.str.contains(r"[\0\r\n]", na=False)).tolist():
            cell = str(column.iloc[row])
            if "\0" in cell:
                line = row_lines(path, dialect)[row]
                found = f"has a NUL byte in column '{name}' (line {line})"
                raise UnfitCsvError(found, "remove the byte, or write the file again")
            if _holds_rows(frame, place, _LINE_BREAK.split(cell), dialect):
                line, n_rows = row_lines(path, dialect)[row], len(_LINE_BREAK.findall(cell))
                found = (
                    f"has a quoted field in column '{name}' that begins in line {line} and "
                    f"swallows the {counted(n_rows, 'row')} up to line {line + n_rows}"
                )
                raise UnfitCsvError(found, 'remove the stray quotes (") in these two lines')


def _holds_rows(frame: pd.DataFrame, place: int, lines: Sequence[str], dialect: Dialect) -> bool:
    """Whether a cell in column `place` spans the end of a row, whole rows, and the start of one.

    Then each line has the usual number of separators, and numbers in the columns that are numbers
    elsewhere.
    """
    names, separator = [*map(str, frame)], dialect.separator
    rows = [line.split(separator) for line in lines]
    columns = [names[place:], *[names] * (len(lines) - 2), names[: place + 1]]
    if any(len(row) != len(its) for row, its in zip(rows, columns, strict=True)):
        return False
    numeric = {name for name in names if _is_number(frame[name].dtype)}
    cells = [
        text.strip().replace(dialect.decimal, ".")
        for row, its in zip(rows, columns, strict=True)
        for name, text in zip(its, row, strict=True)
        if name in numeric and text.strip() not in MISSING_WORDS
    ]
    n_numbers = sum(number_of(cell, lenient=True) is not None for cell in cells)
    # some of them may be words for missing values
    return n_numbers > len(cells) / 2 if cells else len(names) > 2


def _is_number(dtype: Any) -> bool:
    return is_numeric_dtype(dtype) and not is_bool_dtype(dtype)


def _is_index(column: pd.Series[Any]) -> bool:
    """Whether it only numbers the rows, possibly after some were removed."""
    return bool(is_integer_dtype(column.dtype) and column.is_unique and column.min() >= 0)


def _check_names(
    path: Path, header: list[str], nameless: Collection[str], start: int, dialect: Dialect
) -> None:
    """Refuse columns without a name, from the index `start` on."""
    places = [
        str(place + 1)
        for place, name in enumerate(header)
        if place >= start and not name and f"Unnamed: {place}" not in nameless
    ]
    if places:
        _check_above(path, dialect)
        hint = f"give each column a name; {_OF_INDEX}"
        raise UnfitCsvError(f"has no name for column {listed(places)}", hint)
