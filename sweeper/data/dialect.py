"""How a CSV file is written, and how one probably is of which nobody says it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from sweeper.config.writing import toml_value
from sweeper.naming import listed

SEPARATORS = (",", ";", "\t", "|")
# how files of such text end
SUFFIXES = (".csv", ".tsv", ".txt")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# read to see in which way more columns are numbers
_ROWS = 100
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(e[-+]?\d+)?\s*", re.IGNORECASE)
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What stands between fields, and in numbers before the fraction, and the text encoding."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    @property
    def options(self) -> dict[str, Any]:
        """What `pandas.read_csv` is told."""
        return {"sep": self.separator, "decimal": self.decimal, "encoding": self.encoding}

    @property
    def reading(self) -> str:
        """The call of pandas that reads such a file."""
        told = [
            f"{key}={toml_value(value)}"
            for key, value in self.options.items()
            if value != USUAL.options[key]
        ]
        return f"pandas.read_csv({', '.join(['...', *told])})"

    def __str__(self) -> str:
        """In words, for who is to write such a file."""
        between, within = toml_value(self.separator), toml_value(self.decimal)
        return f"{between} between fields and {within} in numbers, as {self.encoding}"

    def instead_of(self, other: Dialect) -> dict[str, str]:
        """The settings of a study in which it is another."""
        before = asdict(other)
        return {key: value for key, value in asdict(self).items() if value != before[key]}


USUAL = Dialect()


def settings_told(settings: Mapping[str, str]) -> str:
    """Settings as a study file has them, in a sentence."""
    return listed([f"{name} = {toml_value(value)}" for name, value in settings.items()])


def likely_dialect(path: Path) -> Dialect:
    """How a file is probably written, by its bytes, its header and its first rows.

    Raises:
        OSError: it cannot be read.
    """
    encoding = _likely_encoding(path)
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        separator = max(SEPARATORS, key=file.readline().count)
    # where commas stand in numbers, they do not stand between fields
    usual = Dialect(separator, ".", encoding)
    if separator == "," or not _has_decimal_commas(path, usual):
        return usual
    with_comma = replace(usual, decimal=",")
    return max(usual, with_comma, key=lambda dialect: _numbers(path, dialect))


def _likely_encoding(path: Path) -> str:
    with path.open("rb") as file:
        for place, line in enumerate(file):
            if not place and line.startswith(_UTF_16):
                return "utf-16"
            try:
                line.decode()
            except UnicodeDecodeError as error:
                # which Windows gives letters, and Latin-1 none
                return "cp1252" if 0x80 <= line[error.start] < 0xA0 else "latin-1"
    return "utf-8"


def _has_decimal_commas(path: Path, dialect: Dialect) -> bool:
    """Whether some number has a comma that cannot stand between thousands, as in 1,234."""
    try:
        rows = pd.read_csv(
            path, nrows=_ROWS, encoding_errors="replace", dtype=str, **dialect.options
        )
    except ValueError:
        return False
    texts = [str(text) for name in rows for text in rows[name].dropna()]
    return any(_DECIMAL_COMMA.fullmatch(text) and not _THOUSANDS.fullmatch(text) for text in texts)


def _numbers(path: Path, dialect: Dialect) -> int:
    """How many columns are numbers if the file is read so."""
    try:
        rows = pd.read_csv(path, nrows=_ROWS, encoding_errors="replace", **dialect.options)
    except ValueError:  # no table in this way
        return 0
    return len(rows.select_dtypes("number").columns)
