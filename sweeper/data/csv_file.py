"""A CSV file, and the format to read it in.

A file of a few megabytes may decompress to gigabytes, so a large text is measured in pieces before
it is read as a whole.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO

import numpy as np
import pandas as pd

from sweeper.config.toml import toml_value
from sweeper.data.compression import is_compressed, open_decompressed
from sweeper.data.files import UnfitTableError, from_here
from sweeper.data.identity import MISSING_WORDS
from sweeper.data.memory import FEWER, describe_excess
from sweeper.errors import listed
from sweeper.process import available_bytes, physical_bytes

CSV_SUFFIXES = (".csv", ".tsv", ".txt")

SEPARATORS = (",", ";", "\t", "|")
"""Possible field separators of a table."""

FIRST_ROWS = 100
"""How many rows are looked at to judge the format of a file."""

_SINGLE_QUOTES = 'quotechar="\'"'
_LONGEST_FIELD = 2**31 - 1
# as pandas calls a first column without a name
_NAMELESS = "Unnamed: 0"
# text up to this size is read without measuring it first
_UNMEASURED_BYTES = 64_000_000
_PIECE_BYTES = 1 << 20
# memory of a number or a string in a table, at least
_FIELD_BYTES = 8


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
    def open_bytes(self) -> Iterator[IO[bytes]]:
        """The bytes of the file, decompressed.

        Raises:
            UnfitTableError: an archive does not contain exactly one file, or the text is too large
            for free memory, or has no lines.
            OSError: it cannot be read.
        """
        _check_size(self.path)
        with open_decompressed(self.path) as file:
            yield io.BufferedReader(file, _PIECE_BYTES)

    @contextmanager
    def open_text(self, errors: str = "strict") -> Iterator[TextIO]:
        """The text from its header on.

        Raises:
            UnfitTableError: as `open_bytes`.
            OSError, UnicodeError: it cannot be read.
        """
        encoding = self.dialect.encoding
        # pandas also skips a byte order mark at the start of a file
        encoding = "utf-8-sig" if encoding == "utf-8" else encoding
        with (
            self.open_bytes() as raw,
            io.TextIOWrapper(raw, encoding, errors, newline="") as text,
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
        if not self.dialect.skip_rows and not is_compressed(self.path):
            _check_size(self.path)
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

    def last_line(self) -> int:
        """The line on which its last row starts, whatever bytes it has."""
        *_, last = self._records("replace")
        return last.line

    def n_fields(self) -> int:
        """The number of fields in its first row, 0 without rows."""
        records = self._first_records()
        return len(records[1].fields) if len(records) > 1 else 0

    def end_with_separator(self) -> bool:
        """Whether the last field of its first rows is one too many, and empty."""
        with closing(self._records("replace")) as records:
            names, *rows = islice(records, 1 + FIRST_ROWS)
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
        dialect, name = self.dialect, toml_value(from_here(self.path).as_posix())
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

    def without_headers(self, name: str) -> str:
        """How to rewrite the file without the rows in which column `name` holds its own name."""
        change = f"df = df[df[{name!r}] != {name!r}]"
        # an index that each part began again
        change += "" if self.header()[0] else ".reset_index(drop=True)"
        return f"keep only the first header, or use pandas: {self.rewrite_hint(change)}"

    def without_rows(self, n_rows: int) -> str:
        """How to rewrite the file without its first rows."""
        return f"remove them, or use pandas: {self.rewrite_hint(f'df = df[{n_rows}:]')}"


def format_settings(settings: Mapping[str, str | int]) -> str:
    """Settings as in a study file, listed in a sentence."""
    return listed([f"{name} = {toml_value(value)}" for name, value in settings.items()])


def _check_size(path: Path) -> None:
    """Refuse a large text that does not fit into free memory, or has no lines.

    Raises:
        UnfitTableError: with both sizes.
        OSError: it cannot be read.
    """
    there = path.stat()
    if there.st_size <= _UNMEASURED_BYTES and not is_compressed(path):
        return
    needed = _table_bytes(path, there.st_size, there.st_mtime_ns)
    if needed is None:
        found = f"has a line of more than {_UNMEASURED_BYTES / 1e6:.0f} MB"
        raise UnfitTableError(found, "write a line of column names, then one line per row")
    if found := describe_excess(needed, available_bytes()):
        raise UnfitTableError(found, FEWER)


@lru_cache(maxsize=8)
def _table_bytes(path: Path, size: int, _changed_ns: int) -> int | None:
    """The least memory for the table in a text file; 0 for a short one.

    None if a line is too long.
    """
    most = physical_bytes() or sys.maxsize
    needed = 0 if is_compressed(path) else size
    text = line = lines = 0
    fields = dict.fromkeys(SEPARATORS, 0)
    with open_decompressed(path) as file:
        while needed <= most and (piece := file.read(_PIECE_BYTES)):
            end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
            line = len(piece) - end - 1 + (line if end < 0 else 0)
            if line > _UNMEASURED_BYTES:
                return None
            text += len(piece)
            # NumPy counts frequent bytes several times faster than `bytes.count`
            letters = np.frombuffer(piece, np.uint8)
            lines += int(np.count_nonzero(letters == ord("\n")))
            for separator in SEPARATORS:
                fields[separator] += int(np.count_nonzero(letters == ord(separator)))
            needed = max(needed, text, _FIELD_BYTES * (lines + max(fields.values())))
    is_short = text <= _UNMEASURED_BYTES and needed <= most
    return 0 if is_short else needed
