"""Reads a CSV file into a frame.

For a file that cannot be read, the error names the place and the setting that would read it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_integer_dtype

from sweeper.config.study import EDITION
from sweeper.data.columns import is_number, repeated_headers, with_columns
from sweeper.data.compression import DAMAGE
from sweeper.data.csv_dialect import EXCEL_LINE, has_single_quotes, likely_dialect
from sweeper.data.csv_file import FIRST_ROWS, SEPARATORS, CsvFile, Dialect
from sweeper.data.files import GIT_LFS, POINTER, UnfitTableError
from sweeper.data.identity import EXACT, MISSING_WORDS, number_of, written
from sweeper.data.memory import FEWER
from sweeper.data.raw import RawData
from sweeper.errors import counted, listed

_OUT_OF_MEMORY = "C error: out of memory"  # as pandas says it
_UNCLOSED = "EOF inside string"  # likewise
# how the first column name begins if a file holds something else
_OTHER_KINDS = (
    (re.compile(re.escape(GIT_LFS)), *POINTER),
    (
        # not any tag without attributes: columns may be called <LOD or <DATE>
        re.compile(
            r"<(!|\?xml|/?(html|head|table|svg|rss)\b|[a-z][\w:.-]*\s+[\w:.-]+\s*=)",
            re.IGNORECASE,
        ),
        "is a web page or XML, not CSV",
        "download the table itself",
    ),
    (
        # neither units such as [kg] nor names such as {x}, and therefore no plain numbers: [1, 2]
        re.compile(r'[\[{]\s*($|["\[{])|\{\s*\}'),
        "is JSON, not CSV",
        "convert it, for example with pandas.read_json",
    ),
)
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
    except pd.errors.ParserError as error:
        _check_quotes(file)
        raise _unreadable(file, error) from error
    except (OSError, ValueError, MemoryError, *DAMAGE) as error:
        raise _unreadable(file, error) from error
    _check_shape(file, header, frame, edition)
    if strict:
        _check_cells(file, frame)
    first = frame.columns[0]
    if not header[0] and first not in nameless:
        _check_headers(file, frame)
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
    return with_columns(frame, {n: one for n, one in changed.items() if one is not None})


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
        case _ if isinstance(error, MemoryError) or str(error).endswith(_OUT_OF_MEMORY):
            return UnfitTableError("takes more memory than there is", FEWER)
        case OSError() if error.strerror:
            return UnfitTableError(f"cannot be read: {error.strerror}")
        case _ if isinstance(error, (OSError, *DAMAGE)):
            return UnfitTableError(f"cannot be decompressed: {error}", "copy or compress it again")
        case UnicodeError():
            return _undecodable(file)
        case pd.errors.ParserError() if _UNCLOSED in str(error):
            found = f'has a field that begins with a quote (") in line {file.last_line()}'
            return UnfitTableError(f"{found} and never ends", "remove the stray quote")
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
    with file.open_bytes() as raw:
        content, where = raw.read(), ""
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        if "\n".encode(encoding) == b"\n":  # otherwise a byte means nothing
            line = content.count(b"\n", 0, error.start) + 1
            where = f" (byte 0x{content[error.start]:02x} in line {line})"
    except UnicodeError:
        where = ""  # it lacks the start that the encoding needs
    found = f"is not {encoding.upper()}{where}"
    if likely.encoding == encoding:  # some bytes are letters in neither
        return UnfitTableError(
            f"is neither UTF-8 nor {encoding.upper()}{where}", "save it as UTF-8"
        )
    return UnfitTableError(found, likely=likely)


def _check_header(file: CsvFile, header: list[str], edition: int) -> None:
    """Refuse other kinds of files and separators, and a comment or `sep=;` for the header."""
    for start, found, hint in _OTHER_KINDS:
        if start.match(header[0].strip()):
            raise UnfitTableError(found, hint)
    others = [one for one in SEPARATORS if one != file.dialect.separator]
    if any(one in name for name in header for one in others):
        likely = likely_dialect(file.path)
        if len(header) == 1 or (edition > 4 and _is_better(likely, file, header)):
            raise _separator_error(file, likely)
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


def _separator_error(file: CsvFile, likely: Dialect) -> UnfitTableError:
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
    return f" (line 1 is Excel's {first})" if EXCEL_LINE.fullmatch(first) else ""


def _check_shape(file: CsvFile, header: list[str], frame: pd.DataFrame, edition: int) -> None:
    # pandas would use the first fields of longer rows as names of the rows
    is_range = isinstance(frame.index, pd.RangeIndex)
    if file.n_fields() > len(header) if edition > 4 else not is_range:
        _check_quotes(file)
        _check_above(file)
        likely = likely_dialect(file.path)
        if likely.decimal == "," != file.dialect.decimal:
            raise _separator_error(file, likely)  # commas are not only in numbers
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


def _check_quotes(file: CsvFile) -> None:
    """Refuse fields in single quotes that contain separators."""
    with file.open_text("replace") as text:
        lines = [*islice(text, FIRST_ROWS)]
    if has_single_quotes(lines, file.dialect.separator):
        separator = repr(file.dialect.separator)
        found = f"has fields in single quotes that contain {separator}"
        raise UnfitTableError(found, file.unquote_hint())


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


def _check_headers(file: CsvFile, frame: pd.DataFrame) -> None:
    """Refuse further headers in a file whose first column, without a name, numbers the rows."""
    columns = frame.iloc[:, 1:]
    rows = repeated_headers(columns, decimal=file.dialect.decimal)
    if rows and is_number(frame.iloc[:, 0]):
        lines = RawData("", "", frame, (), csv=file).places(rows)
        found = f"repeats its column names in {lines}"
        raise UnfitTableError(found, file.without_headers(str(columns.columns[0])))


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
