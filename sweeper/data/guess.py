"""Guesses how a user's table could be used: which column to predict, and as what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import (
    is_bool_dtype,
    is_float_dtype,
    is_numeric_dtype,
)

from sweeper.data.columns import (
    check_kind,
    columns_of_sums,
    dates_as_numbers,
    describe_sums,
    has_too_many_values,
    header_of_data,
    in_single_quotes,
    plain,
    strays,
    units_rows,
    without_fractions,
    without_strays,
)
from sweeper.data.csv_reader import (
    SUFFIXES,
    USUAL,
    Dialect,
    UnfitCsvError,
    missing_words,
    read_csv_table,
    row_lines,
    unquoting,
    without_rows,
)
from sweeper.data.files import matching_files
from sweeper.data.identifiers import row_id_reason
from sweeper.data.leakage import LEAVE_OUT, leak_reason
from sweeper.data.lint import DATE, describe_missing_words, missing_classes
from sweeper.data.packed import suffix_of
from sweeper.data.parquet import UnfitParquetError, parquet_table, partitions_of
from sweeper.data.sentinels import IMPUTE, MISSING_TARGET, all_texts, sentinels
from sweeper.data.text_numbers import TextNumbers, gap_words, text_numbers
from sweeper.errors import DataError, Problem, counted, did_you_mean, did_you_mean_file, listed

# read at most this much to guess
_ROWS = 100_000
# usual names of columns to predict, the likeliest first
_TARGETS = ("target", "label", "labels", "class", "y", "outcome", "output", "price", "value")
# integers with up to this many values are classes, with more they are numbers
_MAX_CLASSES = 20

_READERS: dict[str, Callable[[Path, Dialect, str | None], pd.DataFrame]] = {
    "csv": lambda path, dialect, _: read_csv_table(path, dialect, rows=_ROWS),
    "parquet": lambda path, _, target: _parquet(path, target),
}
# the kind of file by its suffix
_SOURCES = {**dict.fromkeys(SUFFIXES, "csv"), ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class Guess:
    """How a study could use a table; `source` is the kind of file, `rows` its number of rows.

    `because` says how the target was found. `drop` are columns that a study cannot learn from, each
    with the reason; `features` is how many are left, and `has_gaps` says whether they have missing
    values. The target has `values` different values, the rarest of them in `rarest` rows; `gaps`
    rows without a target are not counted in `rows`. `stray` says what keeps the target from being
    numbers and where, and is empty if nothing does; `is_text` says that it is text in any case.
    `as_text` are columns of numbers written as text, and how to read them. `settings` read a CSV
    file that is not in UTF-8 with commas. `words` says which words in text columns were read as
    missing values; they would stay text if only `missing_values` meant missing. `hints` are further
    remarks about columns.
    """

    source: str
    target: str
    because: str
    is_classes: bool
    rows: int
    features: int
    drop: Mapping[str, str] = field(default_factory=dict[str, str])
    has_gaps: bool = False
    values: int = 0
    rarest: int = 0
    gaps: int = 0
    as_text: Mapping[str, str] = field(default_factory=dict[str, str])
    stray: str = ""
    is_text: bool = False
    settings: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    missing_values: Sequence[str] = ()
    hints: Sequence[str] = ()

    @property
    def is_left_out(self) -> bool:
        """Whether rows without a target are left out; not if its gaps may be words for a class."""
        return self.gaps > 0 and self.target not in self.words


def guess(path: Path, target: str | None = None) -> Guess:
    """What could be predicted from the table at `path`.

    This is the column `target`; if None, a column with a usual name, or else the last one.

    Raises:
        DataError: the file does not exist, is not a table, or has no such column.
    """
    source, table, dialect = _read(path, target)
    target, because = _target(path, list(map(str, table.columns)), target)
    if not table[target].count():
        found = f"the target '{target}' has no value in any row"
        raise DataError(Problem(str(path), "", found, "fill it in, or name another with --target"))
    frame = table.dropna(subset=target)
    frame = frame.assign(**{target: without_fractions(frame[target])})
    if source == "csv":
        frame = frame.assign(**{n: without_strays(frame[n], table[n]) for n in frame.columns})
    found = missing_words(path, dialect, table, None, rows=_ROWS) if source == "csv" else {}
    words = {word for of in found.values() for word in of}
    lines = _Lines(path, source, dialect, [*sorted(words), *gap_words(frame)])
    features = plain(frame.drop(columns=target))[0]
    drop = _dropped(features, lines)
    kept = features.drop(columns=[*drop])
    if not len(kept.columns):
        why = listed([f"'{name}' ({told})" for name, told in drop.items()])
        found = f"no column besides the target '{target}' to learn from: {why}"
        raise DataError(Problem(str(path), "", found, "use a table with numbers or categories"))
    of_numbers = _words_of_numbers(found, table[[target, *kept]])
    as_missing = _words(found, table[[target, *kept]], of_numbers)
    counts = frame[target].value_counts()
    stray = lines.stray(frame[target])
    is_classes = not stray and _is_classes(frame[target])
    return Guess(
        source,
        target,
        because,
        is_classes=is_classes,
        rows=len(frame),
        features=len(kept.columns),
        drop=drop,
        has_gaps=bool(kept.isna().to_numpy().any()),
        values=len(counts),
        rarest=int(counts.min()) if len(counts) else 0,
        gaps=len(table) - len(frame),
        as_text={
            **_gap_classes(frame[target], lines),
            **_as_text(plain(frame[[target, *kept]])[0], target, lines),
        },
        stray=stray,
        is_text=not stray and not is_numeric_dtype(plain(frame[[target]])[0][target].dtype),
        settings=dialect.instead_of(USUAL),
        words=as_missing,
        missing_values=["", *sorted(of_numbers)] if as_missing else (),
        hints=(
            *_leaks(kept, plain(frame[[target]])[0][target], is_classes=is_classes),
            *_totals(table, path, source, dialect),
            *(f"'{name}' {told}" for name in kept if (told := dates_as_numbers(kept[name]))),
            *_sentinels(
                kept, plain(frame[[] if is_classes else [target]])[0], sorted(words), source
            ),
        ),
    )


def _leaks(features: pd.DataFrame, target: pd.Series[Any], *, is_classes: bool) -> Iterator[str]:
    """Remarks about features that reveal the target."""
    for name in features:
        if why := leak_reason(features[name], target, is_classes=is_classes):
            yield f"'{name}' {why}: {LEAVE_OUT}"


def _totals(table: pd.DataFrame, path: Path, source: str, dialect: Dialect) -> Iterator[str]:
    """A remark if the last row is the sum of all others."""
    if names := columns_of_sums(plain(table)[0]):
        line = f"line {row_lines(path, dialect)[-1]}" if source == "csv" else f"row {len(table)}"
        yield describe_sums(line, names)


def _sentinels(
    features: pd.DataFrame, targets: pd.DataFrame, words: Sequence[str], source: str
) -> Iterator[str]:
    """Remarks about numbers that may mean missing values."""
    columns = (*features.items(), *targets.items())
    found = [one for _, column in columns if (one := sentinels(column))]
    missing = [*words, *all_texts(found)] if source == "csv" else None
    filled = "" if features.isna().to_numpy().any() else IMPUTE
    for one in found:
        also = MISSING_TARGET if one.name in targets else filled
        yield f"'{one.name}' {one.warning(missing, also)}"


def _words_of_numbers(
    found: Mapping[str, Mapping[str, int]], table: pd.DataFrame
) -> frozenset[str]:
    """The words for missing values in numeric columns; `found` has those of all columns."""
    numbers = [name for name in table if is_numeric_dtype(table[name].dtype)]
    return frozenset(word for name in numbers for word in found.get(str(name), ()))


def _words(
    found: Mapping[str, Mapping[str, int]], table: pd.DataFrame, of_numbers: Collection[str]
) -> dict[str, str]:
    """Remarks about words for missing values that may be meant as text, by column."""
    names = [name for name in found if name in table and not is_numeric_dtype(table[name].dtype)]
    told = {name: describe_missing_words(name, found[name], of_numbers) for name in names}
    return {name: one for name, one in told.items() if one}


def _read(path: Path, target: str | None) -> tuple[str, pd.DataFrame, Dialect]:
    """The kind of a file, its rows, and its format."""
    suffix = suffix_of(path)
    source = _SOURCES.get(suffix)
    is_pattern = not path.is_file() and source in (None, "parquet")
    if is_pattern and matching_files(Path(), str(path), ".parquet"):
        source = "parquet"
    elif path.is_dir():
        found = "a directory without .parquet files"
        raise DataError(
            Problem(str(path), "", found, "name a file, or a directory with such files")
        )
    elif source is None:
        known = listed([*_SOURCES], "or")
        raise DataError(Problem(str(path), "", "unknown file type", f"name a file in {known}"))
    elif not path.is_file():
        there = [other.name for other in path.parent.glob(f"*{suffix}")]
        near = did_you_mean_file(path, there, suffix)
        raise DataError(Problem(str(path), "", "no such file", near or "check the path"))
    try:
        frame, dialect = _as_written(path, _READERS[source], target)
    except (UnfitCsvError, UnfitParquetError) as error:
        raise DataError(Problem(str(path), "", error.found, error.hint)) from error
    except (OSError, ValueError, ImportError) as error:
        hint = f"name a {source.upper()} file with a row of column names"
        raise DataError(Problem(str(path), "", f"cannot be read ({error})", hint)) from error
    if source == "csv" and (found := header_of_data(frame)):
        hint = "add a line of column names above it"
        raise DataError(Problem(str(path), "", found, hint))
    if source == "csv":
        _refuse_layout(path, frame, dialect)
    if frame.empty or len(frame.columns) < 2:
        found = f"{counted(len(frame), 'row')} and {counted(len(frame.columns), 'column')}"
        raise DataError(Problem(str(path), "", found, "use one with rows and at least two columns"))
    return source, frame, dialect


def _refuse_layout(path: Path, frame: pd.DataFrame, dialect: Dialect) -> None:
    """Raise a DataError for fields in single quotes, and for rows of units below the header."""
    if quoted := in_single_quotes(frame):
        raise DataError(Problem(str(path), "", quoted, unquoting(path, dialect)))
    n_rows, told = units_rows(frame)
    if n_rows:
        lines = row_lines(path, dialect)[:n_rows]
        found = f"{'line' if n_rows == 1 else 'lines'} {', '.join(map(str, lines))} {told}"
        raise DataError(Problem(str(path), "", found, without_rows(path, dialect, n_rows)))


def _parquet(path: Path, target: str | None) -> pd.DataFrame:
    """The rows of a Parquet file, of those in a directory, or of those that a pattern matches.

    The `target` may be a level of its index.
    """
    paths = matching_files(Path(), str(path), ".parquet")
    varying = {name: of for name, of in partitions_of(paths).items() if len({*of}) > 1}
    return parquet_table(paths, [target] if target else (), partitions=varying)


def _as_written(
    path: Path, read: Callable[[Path, Dialect, str | None], pd.DataFrame], target: str | None
) -> tuple[pd.DataFrame, Dialect]:
    try:
        return read(path, USUAL, target), USUAL
    except UnfitCsvError as error:
        if error.likely is None:
            raise
        return read(path, error.likely, target), error.likely


def _target(path: Path, columns: list[str], wanted: str | None) -> tuple[str, str]:
    """The column to predict, and how it was found."""
    if wanted is not None:
        if wanted not in columns:
            hint = did_you_mean(wanted, columns) or f"its columns are {listed(columns)}"
            raise DataError(Problem(str(path), "--target", f"no column '{wanted}'", hint))
        return wanted, "as asked"
    names = {name.lower(): name for name in reversed(columns)}
    named = next((names[name] for name in _TARGETS if name in names), None)
    if named is not None and named != columns[-1]:
        return named, "by its name"
    return columns[-1], "the last column"


@dataclass(frozen=True, slots=True)
class _Lines:
    """Finds where in a file a column has something other than numbers."""

    path: Path
    source: str
    dialect: Dialect
    missing_words: Sequence[str]  # words that are or may be missing values

    def fix(self, numbers: TextNumbers) -> str:
        """How to read numbers that are written as text."""
        csv_file = self.path if self.source == "csv" else None
        return numbers.fix(csv_file, self.dialect, self.missing_words)

    def stray(self, column: pd.Series[Any]) -> str:
        """Text in a column of a CSV file that otherwise holds numbers; else empty."""
        mask = strays(column).to_numpy()
        if self.source != "csv" or not 0 < mask.sum() < column.count() / 2:
            return ""
        row = int(mask.argmax())
        others = int(mask.sum()) - 1
        more = f", nor {'is' if others == 1 else 'are'} {others} more" if others else ""
        line = row_lines(self.path, self.dialect)[column.index[row]]
        return f"'{column.iloc[row]}' in line {line} is not a number{more}"


def _dropped(features: pd.DataFrame, lines: _Lines) -> dict[str, str]:
    """The columns that are of no use, each with the reason."""
    names = [str(name) for name in features]
    useless = {name: why for name in names if (why := _uselessness(features[name], lines))}
    others = (name for name in names if name not in useless)
    row_ids = {name: why for name in others if (why := row_id_reason(name, features[name]))}
    if len(useless) + len(row_ids) == len(names):
        row_ids = {}  # if there is nothing else to learn from, it may be intended
    told = {**useless, **row_ids}
    return {name: told[name] for name in names if name in told}


def _as_text(columns: pd.DataFrame, target: str, lines: _Lines) -> dict[str, str]:
    """The numbers that columns hold as text, and how to read them.

    Words for true and false are fine as names of two classes.
    """
    found = {
        str(name): text_numbers(columns[name], has_strays=lines.source != "csv") for name in columns
    }
    return {
        name: f"holds {numbers}: {lines.fix(numbers)}"
        for name, numbers in found.items()
        if numbers is not None and not (numbers.is_boolean and name == target)
    }


def _gap_classes(target: pd.Series[Any], lines: _Lines) -> dict[str, str]:
    """Remarks about a target with classes that may be missing values, by its name."""
    if not isinstance(target.dtype, pd.StringDtype) or lines.stray(target):
        return {}
    rows_of = {str(name): int(rows) for name, rows in target.value_counts().items()}
    is_text_file = lines.source == "csv"
    found = missing_classes(rows_of, lines.missing_words, is_text_file=is_text_file)
    return {str(target.name): found} if found else {}


def _uselessness(column: pd.Series[Any], lines: _Lines) -> str:
    """Why a study cannot learn from a column; empty if it can."""
    return next(_faults(column, lines), "")


def _faults(column: pd.Series[Any], lines: _Lines) -> Iterator[str]:
    if unfit := check_kind(column):
        yield f"holds {unfit}"
    elif not column.count():
        yield "has no value in any row"
    elif not is_numeric_dtype(column.dtype):
        stray = lines.stray(column)
        if numbers := text_numbers(column, has_strays=lines.source != "csv"):
            if stray or has_too_many_values(column):
                keep = f", and remove '{column.name}' from data.drop" if numbers.words else ""
                yield f"holds {numbers}; {lines.fix(numbers)}{keep}"
            return
        if stray:
            hint = f"fix that, and remove '{column.name}' from data.drop"
            yield f"would be numbers, but {stray}; {hint}"
        texts = column.dropna().astype(str)
        if texts.str.fullmatch(DATE).all():
            yield f"holds dates or times as text, such as '{texts.iloc[0]}'"
        if has_too_many_values(column):
            yield f"is text with {column.nunique()} different values"


def _is_classes(column: pd.Series[Any]) -> bool:
    if is_bool_dtype(column.dtype) or not is_numeric_dtype(column.dtype):
        return True
    return not is_float_dtype(column.dtype) and column.nunique() <= _MAX_CLASSES
