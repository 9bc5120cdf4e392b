"""Reads a CSV file into a frame, and guesses the format of an unknown file.

For a file that cannot be read, the error names the place and the setting that would read it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_integer_dtype

from sweeper.config.study import EDITION
from sweeper.config.toml import toml_value
from sweeper.data.columns import is_number
from sweeper.data.files import UnfitTableError
from sweeper.data.identity import EXACT, MISSING_WORDS, number_of, written
from sweeper.data.packed import (
    DAMAGE,
    SEPARATORS,
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
_LONGEST_FIELD = 2**31 - 1
# as pandas calls a first column without a name
_NAMELESS = "Unnamed: 0"
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", re.IGNORECASE)
_PLAIN = re.compile(r"\s*[-+]?\d+([.,]\d*)?(e[-+]?\d+)?\s*", re.IGNORECASE)
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


class _Record(NamedTuple):
    """The fields of a row, the number and the text of the line on which it starts."""

    line: int
    text: str
    fields: list[str]


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A CSV file, which may be compressed, and the format to read it in."""

    path: Path
    dialect: Dialect = USUAL

    @contextmanager
    def open_text(self, errors: str = "strict") -> Iterator[TextIO]:
        """The text from its header on.

        Raises:
            UnfitTableError: it is an archive that does not contain exactly one file.
            OSError, UnicodeError: it cannot be read.
        """
        encoding = self.dialect.encoding
        # pandas also skips a byte order mark at the start of a file
        encoding = "utf-8-sig" if encoding == "utf-8" else encoding
        with (
            open_unpacked(self.path) as raw,
            TextIOWrapper(raw, encoding, errors, newline="") as text,
        ):
            for _ in range(self.dialect.skip_rows):
                text.readline()
            yield text

    def read(self, *, errors: str = "strict", **options: Any) -> pd.DataFrame:
        """The result of `pandas.read_csv`, from its header on.

        A first column that only R has named, by a number for each row, is called as if it had an
        empty name.
        """
        usual = {**self.dialect.options, "encoding_errors": errors, "compression": None}
        if "header" not in options and self._has_row_names():
            usual |= {"header": 0, "names": [_NAMELESS, *self.header()[1:]]}
        if not self.dialect.skip_rows and not is_packed(self.path):
            check_size(self.path)
            return pd.read_csv(self.path, **{**usual, **options})
        with self.open_text(errors) as text:
            return pd.read_csv(text, **{**usual, **options, "encoding": text.encoding})

    def as_text(self, **options: Any) -> pd.DataFrame:
        """The fields as they are written."""
        return self.read(dtype=str, **options)

    def header(self) -> list[str]:
        """The names of its columns, empty for the row names of R."""
        names = self.as_text(header=None, nrows=1, keep_default_na=False).iloc[0].tolist()
        return ["", *names] if self._has_row_names() else names

    def row_lines(self) -> list[int]:
        """The line on which each row starts; the header is line 1."""
        return [record.line for record in self._records()][1:]

    def n_fields(self) -> int:
        """The number of fields in its first row, 0 without rows."""
        records = self._first_records()
        return len(records[1].fields) if len(records) > 1 else 0

    def end_with_separator(self) -> bool:
        """Whether the last field of its first rows is one too many, and empty."""
        with closing(self._records("replace")) as records:
            names, *rows = islice(records, 1 + _ROWS)
        n_names = len(names.fields)
        return all(len(row.fields) == n_names + 1 and not row.fields[-1] for row in rows)

    def _has_row_names(self) -> bool:
        """Whether rows begin with a name that the header lacks, as R's `write.table` writes them.

        It also puts all names in quotes.
        """
        records = self._first_records()
        if len(records) < 2:
            return False
        names, row = records
        is_named_once = len({*names.fields}) == len(names.fields)
        is_longer = len(row.fields) == len(names.fields) + 1 and row.fields[-1] != ""
        are_quoted = all(f'"{name}"' in names.text for name in names.fields)
        return is_named_once and is_longer and are_quoted and row.text.startswith('"')

    def _first_records(self) -> list[_Record]:
        """The header and the first row, as far as there are any."""
        with closing(self._records("replace")) as records:
            return [*islice(records, 2)]

    def _records(self, errors: str = "strict") -> Generator[_Record]:
        """Its header and rows, without blank lines."""
        limit, texts = csv.field_size_limit(_LONGEST_FIELD), list[str]()
        line = 1 + self.dialect.skip_rows
        try:
            with self.open_text(errors) as text:
                lines = (texts.append(one) or one for one in text)
                for fields in csv.reader(lines, delimiter=self.dialect.separator):
                    # a blank line is not a row, but "" is one; a field may span several lines
                    if len(fields) > 1 or texts[0].strip():
                        yield _Record(line, texts[0], fields)
                    line += len(texts)
                    texts.clear()
        finally:
            csv.field_size_limit(limit)

    def missing_words(
        self, frame: pd.DataFrame, missing: Sequence[str] | None
    ) -> dict[str, dict[str, int]]:
        """How often each word means a missing value, for the columns of `frame` that have any."""
        gaps = [str(name) for name in frame if frame[name].isna().any()]
        if not gaps:
            return {}
        words = [word for word in (MISSING_WORDS if missing is None else missing) if word]
        texts = self.as_text(usecols=gaps, low_memory=False, keep_default_na=False)
        found = {name: texts[name][texts[name].isin(words)].value_counts() for name in gaps}
        return {
            name: {str(word): int(count) for word, count in counts.items()}
            for name, counts in found.items()
            if len(counts)
        }

    def rewrite_hint(self, change: str, *options: str) -> str:
        """The pandas code that makes a `change` to the file and leaves all other text unchanged.

        `options` are additional arguments for reading it.
        """
        here, dialect = Path.cwd(), self.dialect
        path = self.path.relative_to(here) if self.path.is_relative_to(here) else self.path
        name = toml_value(path.as_posix())
        is_nameless = not self.header()[0]
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
        read, write = ", ".join(reading), ", ".join(writing)
        return f"df = pd.read_csv({read}); {steps}df.to_csv({write}){after}"

    def unquote_hint(self) -> str:
        """How to rewrite a file whose fields are in single quotes."""
        return f"use pandas: {self.rewrite_hint('', _SINGLE_QUOTES)}"

    def without_rows(self, n_rows: int) -> str:
        """How to rewrite the file without its first rows."""
        return f"remove them, or use pandas: {self.rewrite_hint(f'df = df[{n_rows}:]')}"


def format_settings(settings: Mapping[str, str | int]) -> str:
    """Settings as in a study file, listed in a sentence."""
    return listed([f"{name} = {toml_value(value)}" for name, value in settings.items()])


def likely_dialect(path: Path) -> Dialect:
    """The probable format of a file, judged by its bytes, its header and its first rows.

    Raises:
        OSError: it cannot be read.
    """
    encoding = _likely_encoding(path)
    with CsvFile(path, Dialect(encoding=encoding)).open_text("replace") as file:
        separator, skip_rows = _layout([*islice(file, _ROWS)])
    # if numbers contain commas, commas do not separate fields; below a row of units, all are text
    usual = Dialect(separator, ".", encoding, skip_rows)
    if separator == "," or not _has_decimal_commas(CsvFile(path, usual)):
        return usual
    with_comma = replace(usual, decimal=",")
    return max(with_comma, usual, key=lambda dialect: _numbers(CsvFile(path, dialect)))


def _layout(lines: Sequence[str]) -> tuple[str, int]:
    """The field separator, and the number of lines above the header."""
    # the first line of Excel's own CSV files
    if said := _SEP.fullmatch(lines[0].rstrip("\r\n") if lines else ""):
        return said[1], 1
    headers = {separator: _header_line(lines, separator) for separator in SEPARATORS}
    least = min(headers.values())
    if least == len(lines):
        return max(SEPARATORS, key=(lines[0] if lines else "").count), 0
    # a comma may also be part of a name or a number
    first = max(
        (one for one in SEPARATORS if headers[one] == least),
        key=lambda one: (
            one != "," and _has_comma_numbers(lines[-1].split(one)),
            lines[least].count(one),
            one != ",",
        ),
    )
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
    while place < len(rows) - 2 and _is_title(*(fields for _, fields in rows[place:])):
        place += 1
    if place and any(_PLAIN.fullmatch(field) for field in rows[place][1]):
        return len(lines)
    return rows[place][0]


def _is_title(record: Sequence[str], following: Sequence[str], *rows: Sequence[str]) -> bool:
    """Whether a line is above the header: a comment, or a title in one of its fields.

    A line with a # and as many fields as the others is the header unless the next one must be it.
    """
    if any(_PLAIN.fullmatch(field) for field in following):
        return False
    is_alone = len(record) > 2 and sum(bool(field.strip()) for field in record) == 1
    return is_alone or (record[0].startswith("#") and _is_unlike(following, rows))


def _is_unlike(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether these texts cannot be a row: numbers or texts that are repeated follow below them.

    Gaps may be in a row, but not in a header.
    """
    if any(name.strip() in MISSING_WORDS for name in names):
        return False
    columns = [[row[place] for row in rows] for place in range(len(names))]
    if any(name in column for name, column in zip(names, columns, strict=True)):
        return False
    return any(
        len({*column}) < len(column) or any(map(_PLAIN.fullmatch, column)) for column in columns
    )


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


def _has_decimal_commas(file: CsvFile) -> bool:
    """Whether some number has a comma that cannot be a thousands separator, as in 1,234."""
    try:
        rows = file.as_text(errors="replace", nrows=_ROWS)
    except ValueError:
        return False
    return _has_comma_numbers(str(text) for name in rows for text in rows[name].dropna())


def _has_comma_numbers(texts: Iterable[str]) -> bool:
    numbers = (text for text in map(str.strip, texts) if _DECIMAL_COMMA.fullmatch(text))
    return not all(map(_THOUSANDS.fullmatch, numbers))


def _numbers(file: CsvFile) -> int:
    """How many columns are numbers if the file is read this way."""
    try:
        rows = file.read(errors="replace", nrows=_ROWS)
    except ValueError:  # not a table if read this way
        return 0
    return len(rows.select_dtypes("number").columns)


_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_OF_INDEX = "only a first column that numbers the rows, like pandas' index, needs none"


def read_csv_table(
    file: CsvFile,
    *,
    texts: Collection[str] = (),
    nameless: Collection[str] = (),
    missing: Sequence[str] | None = None,
    categories: Collection[str] | None = None,
    strict: bool = True,
    edition: int = EDITION,
) -> pd.DataFrame:
    """The rows of a CSV file with a header, without the index that pandas wrote.

    Columns in `texts` stay text, including words for missing values. `nameless` are wanted columns
    without a name, as pandas calls them. `missing` are the strings that mean a missing value,
    `MISSING_WORDS` if None.

    Columns in `categories` stay text if the numbers that pandas reads differ from what is written,
    such as 01234; other columns get the integers that are written. If None, all are as pandas reads
    them. If `strict`, cells with a NUL byte and quoted cells that contain whole rows are refused.
    Up to `edition` 4, rows may have more fields than the header if pandas numbers the rows by them,
    and a header of several fields is not searched for other separators.

    Raises:
        UnfitTableError: it cannot be read, or was read with the wrong format.
    """
    try:
        header = file.header()
        if any("\0" in name for name in header):
            raise _undecodable(file)
        _check_header(file, header, edition)
        kinds: Any = {name: "str" for name in texts if name in set(header)}
        options = _gaps(missing, header, kinds)
        frame = file.read(low_memory=False, dtype=kinds, **options)
    except UnfitTableError:
        raise
    except (OSError, ValueError, *DAMAGE) as error:
        raise _unreadable(file, error) from error
    _check_shape(file, header, frame, edition)
    if strict:
        _check_cells(file, frame)
    first = frame.columns[0]
    has_index = not header[0] and first not in nameless and _is_index(frame[first])
    _check_names(file, header, nameless, int(has_index))
    frame = frame.drop(columns=first) if has_index else frame
    return frame if categories is None else _as_written(file, frame, categories, options)


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


def codes_of(file: CsvFile, column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of the file, as text if its numbers are codes such as 01."""
    name = str(column.name)
    return _as_written(file, column.to_frame(), [name], {})[name]


def _as_written(
    file: CsvFile, frame: pd.DataFrame, categories: Collection[str], options: Mapping[str, Any]
) -> pd.DataFrame:
    """The rows, with columns as written if pandas has read them as different numbers."""
    doubtful = [str(name) for name in frame if _is_doubtful(frame[name], str(name) in categories)]
    if not doubtful:
        return frame
    texts = file.as_text(usecols=doubtful, low_memory=False, **options)
    changed: dict[str, Any] = {}
    for name in doubtful:
        if name not in categories:
            changed[name] = _integers(texts[name], frame[name])
        elif _differs(texts[name], frame[name], file.dialect.decimal):
            changed[name] = texts[name]
    return frame.assign(**{name: one for name, one in changed.items() if one is not None})


def _is_doubtful(column: pd.Series[Any], is_category: bool) -> bool:
    """Whether numbers may be written in a way that their values do not show."""
    if is_category:
        return is_number(column)
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


def _unreadable(file: CsvFile, error: Exception) -> UnfitTableError:
    match error:
        case OSError() if error.strerror:
            return UnfitTableError(f"cannot be read: {error.strerror}")
        case _ if isinstance(error, (OSError, *DAMAGE)):
            return UnfitTableError(f"cannot be decompressed: {error}", "copy or compress it again")
        case UnicodeError():
            return _undecodable(file)
        case pd.errors.EmptyDataError():
            return UnfitTableError(
                "is empty", "write a line of column names, then one line per row"
            )
        case _:
            what = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            hint = "write one field per column in every row"
            return UnfitTableError(f"is not a table: {what}", hint)


def _undecodable(file: CsvFile) -> UnfitTableError:
    """The error of a file that is not text in this encoding, with its probable encoding."""
    likely = likely_dialect(file.path)
    if likely.encoding.startswith("utf-") and likely.encoding != "utf-8":
        return UnfitTableError(f"is text in {likely.encoding.upper()}", likely=likely)
    encoding = file.dialect.encoding
    with open_unpacked(file.path) as raw:
        content, where = raw.read(), ""
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        if "\n".encode(encoding) == b"\n":  # otherwise a byte means nothing
            line = content.count(b"\n", 0, error.start) + 1
            where = f" (byte 0x{content[error.start]:02x} in line {line})"
    except UnicodeError:
        where = ""  # it lacks the start that the encoding needs
    return UnfitTableError(f"is not {encoding.upper()}{where}", likely=likely)


def _check_header(file: CsvFile, header: list[str], edition: int) -> None:
    """Refuse other separators, and a comment or Excel's `sep=;` in place of the header."""
    others = [one for one in SEPARATORS if one != file.dialect.separator]
    if any(one in name for name in header for one in others):
        likely = likely_dialect(file.path)
        if len(header) == 1 or (edition > 4 and _is_better(likely, file, header)):
            raise _separated(file, likely)
    if len(header) == 1 or header[0].startswith("#") or header[0].lower().startswith("sep="):
        _check_above(file)


def _is_better(likely: Dialect, file: CsvFile, header: Sequence[str]) -> bool:
    """Whether another separator fits better: names may contain one, such as "City, State"."""
    if likely.separator == file.dialect.separator:
        return False
    n_names = len(CsvFile(file.path, likely).header())
    if file.n_fields() != len(header) or n_names > len(header):
        return True
    return n_names == len(header) and any(name.startswith(" ") for name in header)


def _separated(file: CsvFile, likely: Dialect) -> UnfitTableError:
    found = f"has columns that seem to be separated by {likely.separator!r}{_of_excel(file)}"
    return UnfitTableError(found, likely=likely)


def _check_above(file: CsvFile) -> None:
    """Refuse lines above the header if there are more than are skipped."""
    likely = likely_dialect(file.path)
    if likely.skip_rows > file.dialect.skip_rows:
        lines = "a line" if likely.skip_rows == 1 else f"{likely.skip_rows} lines"
        raise UnfitTableError(f"has {lines} above its column names{_of_excel(file)}", likely=likely)


def _of_excel(file: CsvFile) -> str:
    """Which line Excel has written above the column names, if any, in brackets."""
    with replace(file, dialect=replace(file.dialect, skip_rows=0)).open_text("replace") as text:
        first = text.readline().strip().removeprefix("\ufeff")
    return f" (line 1 is Excel's {first})" if _SEP.fullmatch(first) else ""


def _check_shape(file: CsvFile, header: list[str], frame: pd.DataFrame, edition: int) -> None:
    # pandas would use the first fields of longer rows as names of the rows
    is_range = isinstance(frame.index, pd.RangeIndex)
    if file.n_fields() > len(header) if edition > 4 else not is_range:
        _check_above(file)
        likely = likely_dialect(file.path)
        if likely.decimal == "," != file.dialect.decimal:
            raise _separated(file, likely)  # commas are not only in numbers
        raise _longer_than_header(file)
    columns = pd.Series(header, dtype="str")
    twice = [f"'{name}'" for name in columns[columns.duplicated()].unique() if name]
    if twice:
        # pandas would rename the second one to 'name.1'
        is_data = pd.to_numeric(columns, errors="coerce").notna().mean() > 0.5
        names = "add a line of column names: line 1 looks like data"
        hint = names if is_data else "give each its own name"
        raise UnfitTableError(f"has several columns {listed(twice)}", hint)
    if frame.empty:
        raise UnfitTableError("has a header but no rows", "write one line per row")


def _longer_than_header(file: CsvFile) -> UnfitTableError:
    """The error of a file whose rows have more fields than its header."""
    hint = "name every column, also that of row names"
    if file.end_with_separator():
        hint = f"remove the {file.dialect.separator!r} at the end of each row, or name every column"
    elif file.dialect.separator == ",":
        hint += ", and write decimal points if the numbers have decimal commas"
    return UnfitTableError("has more fields in its rows than in its header", hint)


def _check_cells(file: CsvFile, frame: pd.DataFrame) -> None:
    """Refuse cells with a NUL byte, and quoted cells that swallow whole rows."""
    for place, name in enumerate(frame):
        column = frame[name]
        if not isinstance(column.dtype, pd.StringDtype):
            continue
        for row in np.flatnonzero(column.str.contains(r"[\0\r\n]", na=False)).tolist():
            cell = str(column.iloc[row])
            if "\0" in cell:
                line = file.row_lines()[row]
                found = f"has a NUL byte in column '{name}' (line {line})"
                raise UnfitTableError(found, "remove the byte, or write the file again")
            if _holds_rows(frame, place, _LINE_BREAK.split(cell), file.dialect):
                line, n_rows = file.row_lines()[row], len(_LINE_BREAK.findall(cell))
                found = (
                    f"has a quoted field in column '{name}' that begins in line {line} and "
                    f"swallows the {counted(n_rows, 'row')} up to line {line + n_rows}"
                )
                raise UnfitTableError(found, 'remove the stray quotes (") in these two lines')


def _holds_rows(frame: pd.DataFrame, place: int, lines: Sequence[str], dialect: Dialect) -> bool:
    """Whether a cell in column `place` spans the end of a row, whole rows, and the start of one.

    Then each line has the usual number of separators, and numbers in the columns that are numbers
    elsewhere.
    """
    names, separator = [*map(str, frame)], dialect.separator
    rows = [line.split(separator) for line in lines]
    columns = [names[place:], *[names] * (len(lines) - 2), names[: place + 1]]
    if any(len(row) != len(row_columns) for row, row_columns in zip(rows, columns, strict=True)):
        return False
    numeric = {name for name in names if is_number(frame[name])}
    cells = [
        text.strip().replace(dialect.decimal, ".")
        for row, row_columns in zip(rows, columns, strict=True)
        for name, text in zip(row_columns, row, strict=True)
        if name in numeric and text.strip() not in MISSING_WORDS
    ]
    n_numbers = sum(number_of(cell, lenient=True) is not None for cell in cells)
    # some of them may be words for missing values
    return n_numbers > len(cells) / 2 if cells else len(names) > 2


def _is_index(column: pd.Series[Any]) -> bool:
    """Whether it only numbers the rows, possibly after some were removed."""
    return bool(is_integer_dtype(column.dtype) and column.is_unique and column.min() >= 0)


def _check_names(file: CsvFile, header: list[str], nameless: Collection[str], start: int) -> None:
    """Refuse columns without a name, from the index `start` on."""
    places = [
        str(place + 1)
        for place, name in enumerate(header)
        if place >= start and not name and f"Unnamed: {place}" not in nameless
    ]
    if places:
        _check_above(file)
        hint = f"give each column a name; {_OF_INDEX}"
        raise UnfitTableError(f"has no name for column {listed(places)}", hint)
