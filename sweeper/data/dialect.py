"""How a CSV file is written, and how one probably is of which nobody says it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from sweeper.config.writing import toml_value
from sweeper.data.packed import SEPARATORS, check_size, is_packed, open_unpacked
from sweeper.naming import listed

# how files of such text end
SUFFIXES = (".csv", ".tsv", ".txt")
_SINGLE_QUOTES = 'quotechar="\'"'
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_UTF_32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
# read to see in which way more columns are numbers
_ROWS = 100
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", re.IGNORECASE)
_PLAIN = re.compile(r"\s*[-+]?\d+([.,]\d*)?\s*")
_SEP = re.compile(r'\ufeff?"?sep=(.)"?', re.IGNORECASE)
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What stands between fields, and in numbers before the fraction, and the text encoding."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    skip_rows: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """What `pandas.read_csv` is told."""
        return {"sep": self.separator, "decimal": self.decimal, "encoding": self.encoding}

    @property
    def reading(self) -> str:
        """The call of pandas that reads such a file."""
        return f"pandas.read_csv({', '.join(['...', *self.arguments(*self.options, 'skiprows')])})"

    def arguments(self, *names: str) -> list[str]:
        """The arguments `names` for pandas, as code; those with a usual value are left out."""
        usual = {**USUAL.options, "skiprows": USUAL.skip_rows}
        given = {**self.options, "skiprows": self.skip_rows}
        return [f"{n}={toml_value(given[n])}" for n in names if given[n] != usual[n]]

    def __str__(self) -> str:
        """In words, for who is to write such a file."""
        between, within = toml_value(self.separator), toml_value(self.decimal)
        return f"{between} between fields and {within} in numbers, as {self.encoding}"

    def instead_of(self, other: Dialect) -> dict[str, str | int]:
        """The settings of a study in which it is another."""
        before = asdict(other)
        return {key: value for key, value in asdict(self).items() if value != before[key]}


USUAL = Dialect()


@contextmanager
def open_text(path: Path, dialect: Dialect, errors: str = "strict") -> Iterator[TextIO]:
    """The text of a file, which may be compressed, from its header on.

    Raises:
        PackedError: it is an archive that does not hold just one file.
        OSError, UnicodeError: it cannot be read.
    """
    # pandas skips a mark at the start of a file, too
    encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
    with open_unpacked(path) as raw, TextIOWrapper(raw, encoding, errors, newline="") as file:
        for _ in range(dialect.skip_rows):
            file.readline()
        yield file


def read_fields(
    path: Path, dialect: Dialect, *, errors: str = "strict", **options: Any
) -> pd.DataFrame:
    """What `pandas.read_csv` reads of a file, which may be compressed, from its header on."""
    options = {**dialect.options, "encoding_errors": errors, "compression": None, **options}
    if not dialect.skip_rows and not is_packed(path):
        check_size(path)
        return pd.read_csv(path, **options)
    with open_text(path, dialect, errors) as file:
        return pd.read_csv(file, **{**options, "encoding": file.encoding})


def rewriting(path: Path, dialect: Dialect, change: str, *options: str) -> str:
    """The code of pandas that makes a `change` to a CSV file and leaves all other text as it is.

    `options` are more arguments for reading it.
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
    """How to write a CSV file again whose fields are in single quotes."""
    return f"use pandas: {rewriting(path, dialect, '', _SINGLE_QUOTES)}"


def without_rows(path: Path, dialect: Dialect, n_rows: int) -> str:
    """How to write a CSV file again without its first rows."""
    return f"remove them, or use pandas: {rewriting(path, dialect, f'df = df[{n_rows}:]')}"


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def settings_told(settings: Mapping[str, str | int]) -> str:
    """Settings as a study file has them, in a sentence."""
    return listed([f"{name} = {toml_value(value)}" for name, value in settings.items()])


def likely_dialect(path: Path) -> Dialect:
    """How a file is probably written, by its bytes, its header and its first rows.

    Raises:
        OSError: it cannot be read.
    """
    encoding = _likely_encoding(path)
    with open_text(path, Dialect(encoding=encoding), "replace") as file:
        separator, skip_rows = _layout([*islice(file, _ROWS)])
    # where commas stand in numbers, they do not stand between fields
    usual = Dialect(separator, ".", encoding, skip_rows)
    if separator == "," or not _has_decimal_commas(path, usual):
        return usual
    with_comma = replace(usual, decimal=",")
    return max(usual, with_comma, key=lambda dialect: _numbers(path, dialect))


def _layout(lines: Sequence[str]) -> tuple[str, int]:
    """What stands between fields, and how many lines stand above the header."""
    # the first line of Excel's own CSV files
    if said := _SEP.fullmatch(lines[0].rstrip("\r\n") if lines else ""):
        return said[1], 1
    headers = {separator: _header_line(lines, separator) for separator in SEPARATORS}
    least = min(headers.values())
    if least == len(lines):
        return max(SEPARATORS, key=(lines[0] if lines else "").count), 0
    first = max((one for one in SEPARATORS if headers[one] == least), key=lines[least].count)
    above = any(line.strip() for line in lines[:least])  # pandas skips blank lines by itself
    return first, least if above else 0


def _header_line(lines: Sequence[str], separator: str) -> int:
    """The line from which on all have as many fields as the last, if they have some; else the end.

    Lines with a # or with one field of several are above the header if text follows.
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
    """Whether a line stands above the header: a comment, or a title in one of its fields."""
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
            if not place and b"\0" in line:  # without a mark at its start
                return "utf-16-be" if line.startswith(b"\0") else "utf-16-le"
            try:
                line.decode()
            except UnicodeDecodeError as error:
                # which Windows gives letters, and Latin-1 none
                return "cp1252" if 0x80 <= line[error.start] < 0xA0 else "latin-1"
    return "utf-8"


def _has_decimal_commas(path: Path, dialect: Dialect) -> bool:
    """Whether some number has a comma that cannot stand between thousands, as in 1,234."""
    try:
        rows = read_fields(path, dialect, errors="replace", nrows=_ROWS, dtype=str)
    except ValueError:
        return False
    texts = [str(text) for name in rows for text in rows[name].dropna()]
    return any(_DECIMAL_COMMA.fullmatch(text) and not _THOUSANDS.fullmatch(text) for text in texts)


def _numbers(path: Path, dialect: Dialect) -> int:
    """How many columns are numbers if the file is read so."""
    try:
        rows = read_fields(path, dialect, errors="replace", nrows=_ROWS)
    except ValueError:  # no table in this way
        return 0
    return len(rows.select_dtypes("number").columns)
