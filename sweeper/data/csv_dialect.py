"""Guesses the format of an unknown CSV file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

from sweeper.data.csv_file import FIRST_ROWS, SEPARATORS, CsvFile, Dialect
from sweeper.data.identity import MISSING_WORDS

EXCEL_LINE = re.compile(r'\ufeff?"?sep=(.)"?', re.IGNORECASE)
"""The first line of Excel's own CSV files."""

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_UTF_32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
_PIECE_BYTES = 1 << 20
# all bytes except those that are control characters in Latin-1 only
_NOT_CONTROLS = bytes({*range(0x100)} - {*range(0x80, 0xA0)})
_NOT_ASCII = bytes(range(0x80, 0x100))
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", re.IGNORECASE)
_PLAIN = re.compile(r"\s*[-+]?\d+([.,]\d*)?(e[-+]?\d+)?\s*", re.IGNORECASE)
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")


def likely_dialect(path: Path) -> Dialect:
    """The probable format of a file, judged by its bytes, its header and its first rows.

    Raises:
        OSError: it cannot be read.
    """
    encoding = _likely_encoding(path)
    with CsvFile(path, Dialect(encoding=encoding)).open_text("replace") as file:
        separator, skip_rows = _layout([*islice(file, FIRST_ROWS)])
    # if numbers contain commas, commas do not separate fields; below a row of units, all are text
    usual = Dialect(separator, ".", encoding, skip_rows)
    if separator == "," or not _has_decimal_commas(CsvFile(path, usual)):
        return usual
    with_comma = replace(usual, decimal=",")
    return max(with_comma, usual, key=lambda dialect: _numbers(CsvFile(path, dialect)))


def has_single_quotes(lines: Sequence[str], separator: str) -> bool:
    """Whether all lines have as many fields as the others only if fields are in single quotes."""
    widths = {quote: _widths(lines, separator, quote) for quote in ('"', "'", None)}
    others = (widths['"'], widths[None])
    return len(widths["'"]) == 1 < min(map(len, others)) and widths["'"] != {1}


def _widths(lines: Sequence[str], separator: str, quote: str | None) -> set[int]:
    """The different numbers of fields in lines that are not blank; without a `quote`, none is."""
    quoting = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
    reader = csv.reader(lines, delimiter=separator, quotechar=quote, quoting=quoting)
    try:
        return {len(record) for record in reader if any(record)}
    except csv.Error:
        return set()


def _layout(lines: Sequence[str]) -> tuple[str, int]:
    """The field separator, and the number of lines above the header."""
    if said := EXCEL_LINE.fullmatch(lines[0].rstrip("\r\n") if lines else ""):
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
    quote = "'" if has_single_quotes(lines, separator) else '"'
    reader = csv.reader(lines, delimiter=separator, quotechar=quote)
    begins, records = [0], list[list[str]]()
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
    if place and _is_data(*(fields for _, fields in rows[place:])):
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


def _is_data(record: Sequence[str], *rows: Sequence[str]) -> bool:
    """Whether a line cannot be the header: it has a number, or only texts of the rows below it."""
    if any(_PLAIN.fullmatch(field.strip("'")) for field in record):
        return True
    columns = zip(record, *rows, strict=True)
    return all(field.strip() and field in column for field, *column in columns)


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


def hides_utf_8(file: CsvFile) -> bool:
    """Whether a file is UTF-8, but its dialect has an encoding with one byte for each letter.

    Such an encoding reads nearly any bytes: each letter outside ASCII as two or three wrong ones.

    Raises:
        OSError: it cannot be read.
    """
    return _has_single_bytes(file.dialect.encoding) and _has_letters_in_utf_8(file)


def is_utf_8(text: str, encoding: str) -> bool:
    """Whether a text that was read in `encoding` has other letters than ASCII, all in UTF-8."""
    read = text.encode(encoding, "replace")
    try:
        return not read.decode().isascii()
    except UnicodeDecodeError:
        return False


def _has_single_bytes(encoding: str) -> bool:
    try:
        texts = [read.decode(encoding, "replace") for read in (_NOT_ASCII, "ä".encode())]
    except UnicodeError:  # it has a form of its own
        return False
    return [*map(len, texts)] == [len(_NOT_ASCII), 2]


def _has_letters_in_utf_8(file: CsvFile) -> bool:
    """Whether a file has a byte order mark or other letters than ASCII, all in UTF-8."""
    has_letters = False
    with file.open_bytes() as lines:
        for line in lines:
            try:
                line.decode()
            except UnicodeDecodeError:
                return False
            has_letters = has_letters or not line.isascii()
    return has_letters


def _likely_encoding(path: Path) -> str:
    with CsvFile(path).open_bytes() as file:
        for place, line in enumerate(file):
            if not place and line.startswith(_UTF_32):
                return "utf-32"
            if not place and line.startswith(_UTF_16):
                return "utf-16"
            if not place and b"\0" in line:  # without a byte order mark
                return "utf-16-be" if line.startswith(b"\0") else "utf-16-le"
            try:
                line.decode()
            except UnicodeDecodeError:
                return _encoding_of_bytes(
                    chain([line], iter(partial(file.read, _PIECE_BYTES), b""))
                )
    return "utf-8"


def _encoding_of_bytes(pieces: Iterable[bytes]) -> str:
    """The probable encoding of text with one byte for each letter.

    Windows encodings have letters and quotation marks where Latin-1 has only control characters.
    """
    is_of_windows = any(piece.translate(None, _NOT_CONTROLS) for piece in pieces)
    return "cp1252" if is_of_windows else "latin-1"


def _has_decimal_commas(file: CsvFile) -> bool:
    """Whether some number has a comma that cannot be a thousands separator, as in 1,234."""
    try:
        rows = file.as_text(errors="replace", nrows=FIRST_ROWS)
    except ValueError:
        return False
    return _has_comma_numbers(str(text) for name in rows for text in rows[name].dropna())


def _has_comma_numbers(texts: Iterable[str]) -> bool:
    numbers = (text for text in map(str.strip, texts) if _DECIMAL_COMMA.fullmatch(text))
    return not all(map(_THOUSANDS.fullmatch, numbers))


def _numbers(file: CsvFile) -> int:
    """How many columns are numbers if the file is read this way."""
    try:
        rows = file.read(errors="replace", nrows=FIRST_ROWS)
    except ValueError:  # not a table if read this way
        return 0
    return len(rows.select_dtypes("number").columns)
