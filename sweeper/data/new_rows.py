"""Reads the rows to predict from a table, like the study read its own rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sweeper.data.columns import native, strays, with_columns
from sweeper.data.compression import suffix_of
from sweeper.data.csv_dialect import hides_utf_8, is_utf_8, likely_dialect
from sweeper.data.csv_file import CSV_SUFFIXES, USUAL, CsvFile, Dialect
from sweeper.data.csv_reader import read_csv_table
from sweeper.data.files import (
    POINTER,
    UnfitTableError,
    conversion_hint,
    files_here,
    is_pointer,
)
from sweeper.data.identifiers import is_written_index
from sweeper.data.identity import number_of, written
from sweeper.data.memory import FEWER, describe_excess
from sweeper.data.npz import UNREADABLE, stored_bytes, table_of
from sweeper.data.parquet import parquet_table, partitions_of, with_integers
from sweeper.data.raw import RawData
from sweeper.data.transform import Transform
from sweeper.errors import DataError, Problem, counted, did_you_mean, did_you_mean_file, listed
from sweeper.process import available_bytes

ALL = "all"
_TYPES = (*CSV_SUFFIXES, ".parquet", ".npy", ".npz")


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows with the columns that a model needs, and those to keep unchanged.

    `kept` columns of a CSV file are text, as written in it. `table` has all rows as read. `unused`
    are columns that the study does not have.
    """

    frame: pd.DataFrame
    kept: pd.DataFrame
    table: RawData
    unused: Sequence[str]


def read_rows(
    path: Path,
    transform: Transform,
    others: Collection[str],
    keep: Sequence[str] = (),
    dialect: Dialect = USUAL,
) -> NewRows:
    """The rows of the table in `path`, which may also have an index and the columns `others`.

    `keep` are columns to copy to the predictions, `ALL` for all of them. `dialect` is the format of
    a CSV file.

    Raises:
        DataError: it cannot be read, or lacks a column.
    """
    file, frame = _read(path, transform, keep, dialect)
    names = [str(name) for name in frame.columns] if ALL in keep else [*dict.fromkeys(keep)]
    known = {*transform.columns, *others, *names}
    unused = [str(name) for name in frame if str(name) not in known]
    unused = [name for name in unused if not is_written_index(name)]
    problems = [*_unkept(path, frame, names), *_unfit(path, frame, transform, unused)]
    if problems:
        raise DataError(problems)
    table, written = RawData(path.name, "", frame, (), csv=file), frame
    if file is not None and names:
        # as written in the file: 007 is not 7
        written = file.as_text(keep_default_na=False)
    return NewRows(frame[[*transform.columns]], written[names], table, unused)


def _read(
    path: Path, transform: Transform, keep: Sequence[str], dialect: Dialect
) -> tuple[CsvFile | None, pd.DataFrame]:
    """The rows of the table in `path`, after the file if it is a CSV file.

    Raises:
        DataError: it cannot be read.
    """
    suffix = _table_suffix(path)
    file = CsvFile(path, dialect) if suffix in CSV_SUFFIXES else None
    try:
        if file is not None:
            return _csv(file, transform)
        if suffix == ".parquet":
            return None, _parquet(path, transform, keep)
        return None, native(_arrays(path, transform.columns, keep))
    except UnfitTableError as error:
        place = str(path) if file is None else path.name
        near = "" if path.exists() else _near_table(path)
        raise DataError(Problem(place, "", error.found, near or error.hint)) from error
    except UNREADABLE as error:
        if is_pointer(path):
            raise DataError(Problem(str(path), "", *POINTER)) from error
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        near = "" if path.exists() else _near_table(path)
        raise DataError(Problem(str(path), "", f"cannot be read: {reason}", near)) from error


def _table_suffix(path: Path) -> str:
    """The kind of the table in `path`, which may be a pattern or directory of Parquet files.

    Raises:
        DataError: it does not exist, or is not a table.
    """
    suffix = suffix_of(path)
    if not path.is_file() and files_here(path, ".parquet"):
        return ".parquet"
    if suffix not in _TYPES:
        if not path.exists():
            hint = _near_table(path) or "check the path"
            raise DataError(Problem(str(path), "", "no such file", hint))
        hint = conversion_hint(path) or f"name one of {', '.join(_TYPES)}"
        raise DataError(Problem(str(path), "", "not a readable table", hint))
    return suffix


def _near_table(path: Path) -> str:
    """A question that offers another table in the same directory; empty if no name is close."""
    there = [other.name for other in path.parent.glob("*") if suffix_of(other) in _TYPES]
    return did_you_mean_file(path, there, suffix_of(path))


def _csv(file: CsvFile, transform: Transform) -> tuple[CsvFile, pd.DataFrame]:
    """The rows of a CSV file, read in its probable format if that of the study does not fit."""
    if hides_utf_8(file) and not _was_utf_8(transform, file.dialect.encoding):
        file = CsvFile(file.path, replace(file.dialect, encoding="utf-8"))
    try:
        frame = _csv_rows(file, transform)
    except UnfitTableError as error:
        if error.likely is None and not file.dialect.skip_rows:
            raise
        file = CsvFile(file.path, error.likely or likely_dialect(file.path))
        return file, _csv_rows(file, transform)
    if not {*transform.columns} <= {*frame}:  # there may be fewer lines above the names
        other = CsvFile(file.path, likely_dialect(file.path))
        with suppress(UnfitTableError):
            found = _csv_rows(other, transform)
            if {*transform.columns} <= {*found}:
                return other, found
    return file, frame


def _was_utf_8(transform: Transform, encoding: str) -> bool:
    """Whether the study itself has read UTF-8 in another `encoding`, so that new rows fit it."""
    values = (value for one in transform.categories for value in one.values)
    return any(is_utf_8(str(text), encoding) for text in (*transform.columns, *values))


def _csv_rows(file: CsvFile, transform: Transform) -> pd.DataFrame:
    """The rows of a CSV file, with categories as text and without words for missing values."""
    words = transform.words_in_csv
    frame = read_csv_table(
        file,
        texts=[one.name for one in transform.categories],
        nameless=transform.columns,
        missing=words,
        categories=None if transform.edition == 1 else (),
        strict=transform.edition > 1,
    )
    changed: dict[str, Any] = {}
    for one in transform.categories:
        if one.name in frame:
            column = _with_points(frame[one.name], one.values, file.dialect.decimal)
            unknown = {*words}.difference(written(value) for value in one.values)
            changed[one.name] = column.mask(_are_any_of(column, unknown))
    for name in transform.numbers:
        # pandas leaves a column as it is written if any cell is text
        if name in frame and isinstance(frame[name].dtype, pd.StringDtype):
            changed[name] = _with_decimals(file, frame[name], transform.decimal)
    return with_columns(frame, changed)


def _refuse_commas(file: CsvFile, texts: pd.Series[Any], of_study: str) -> None:
    """Refuse 1,234 in a file with decimal points, which would be 1.234 in that of the study.

    Raises:
        UnfitTableError: there is such text, or commas are probably the decimals of the file.
    """
    others = texts[texts.str.contains(",", regex=False, na=False) & strays(texts)]
    if not others.size:
        return
    likely = likely_dialect(file.path)
    is_likely = likely.decimal == ","
    if is_likely or of_study == ",":
        found = f"has {others.iloc[0]!r} in column '{texts.name}', though decimals are '.'"
        hint = "write numbers without a separator of thousands"
        raise UnfitTableError(found, hint, likely if is_likely else None)


def _with_decimals(file: CsvFile, texts: pd.Series[Any], of_study: str) -> pd.Series[Any]:
    """Numbers among text with the decimal separator of the study; other text stays as it is.

    Raises:
        UnfitTableError: numbers have points though decimals are commas: 1.234 may be 1234.
    """
    decimal = file.dialect.decimal
    are_numbers = ~strays(texts, decimal) & texts.notna()
    if decimal == ".":
        _refuse_commas(file, texts, of_study)
    elif (dotted := texts[are_numbers & texts.str.contains(".", regex=False)]).size:
        likely = likely_dialect(file.path)
        found = f"has {dotted.iloc[0]!r} in column '{texts.name}', though decimals are {decimal!r}"
        hint = "write numbers without a separator of thousands"
        raise UnfitTableError(found, hint, likely if likely.decimal != decimal else None)
    return texts.where(~are_numbers, texts.str.replace(decimal, of_study, regex=False))


def _with_points(texts: pd.Series[Any], values: Sequence[Any], decimal: str) -> pd.Series[Any]:
    """Categories as text, with decimal points if the known `values` were read as numbers."""
    if decimal == "." or any(isinstance(value, str) for value in values):
        return texts
    return texts.str.replace(decimal, ".", regex=False)


def _are_any_of(texts: pd.Series[Any], words: Collection[str]) -> pd.Series[bool]:
    """Which texts are words for missing values; like pandas, -1.0 is -1."""
    numbers = {number_of(word) for word in words} - {None}
    are_words = texts.isin(words)
    return are_words | texts.map(number_of).isin(numbers) if numbers else are_words


def _parquet(path: Path, transform: Transform, keep: Collection[str]) -> pd.DataFrame:
    """The rows of the files, with wanted columns of directory names.

    A directory that contains all files only has a column that the files lack. If `ALL` are kept,
    these are also those of the directories below `path`.
    """
    paths = files_here(path, ".parquet")
    if not paths:
        raise FileNotFoundError("no such file")
    columns = {*transform.columns, *keep}
    if ALL in keep:
        columns |= {*partitions_of(paths, [_base_of(path)])}
    of_directories = partitions_of([path.resolve() for path in paths]).items()
    wanted = {name: values for name, values in of_directories if name in columns}
    of_all = {name for name, values in wanted.items() if len({*values}) == 1}
    texts = [one.name for one in transform.categories]
    frame = parquet_table(paths, keep, wanted, texts=texts, preferred=of_all)
    return with_integers(frame, paths, frame.columns if ALL in keep else keep)


def _base_of(path: Path) -> Path:
    """The directory in which a directory or pattern of files begins."""
    return next(one for one in (path, *path.parents) if one.is_dir())


def _arrays(path: Path, columns: Collection[str], keep: Collection[str]) -> pd.DataFrame:
    """The rows of an array, or of the named arrays that have the columns of the study.

    If these are not there, `x` has all of them, in order.
    """
    if path.suffix.lower() == ".npy":
        _check_fits(path.stat().st_size)
        return _of_array(np.load(path, allow_pickle=False), columns)
    with np.load(path, allow_pickle=False) as file:
        names = _arrays_to_read(file.files, columns, keep)
        _check_fits(stored_bytes(path, names))
        return _of_arrays({name: file[name] for name in names}, columns)


def _arrays_to_read(
    there: Sequence[str], columns: Collection[str], keep: Collection[str]
) -> list[str]:
    """The arrays `x` and those that can have wanted columns; all if there is no `x`."""
    if "x" not in there or ALL in keep:
        return [*there]
    wanted = {name for column in (*columns, *keep) for name in (column, column.rpartition("_")[0])}
    return [name for name in there if name in {"x", *wanted}]


def _of_arrays(arrays: Mapping[str, Any], columns: Collection[str]) -> pd.DataFrame:
    """One table of named arrays, as a study reads them; or with the columns of the study in `x`."""
    tables = {name: table_of(name, values) for name, values in arrays.items() if values.ndim}
    having = {one: [name for name in tables if one in tables[name]] for one in columns}
    found = {name for names in having.values() for name in names}
    is_like_study = "x" in tables and tables["x"].shape[1] == len(columns)
    if "x" in tables and not all(having.values()) and (is_like_study or not found):
        x = _of_array(arrays["x"], columns)
        tables = {name: one for name, one in tables.items() if not {*one} & {*columns}}
        tables["x"], having = x, dict.fromkeys(columns, ("x",))
    return _join(tables, having)


def _join(tables: Mapping[str, pd.DataFrame], having: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """One table of those with as many rows as the tables that have the columns of the study.

    Raises:
        ValueError: two tables have such a column, or their numbers of rows differ.
    """
    for column, names in having.items():
        if len(names) > 1:
            found = f"the arrays {listed([repr(name) for name in names])} both have a column"
            raise ValueError(f"{found} '{column}'; leave one of them out")
    needed = dict.fromkeys(name for names in having.values() for name in names)
    rows = {name: len(tables[name]) for name in needed or tables}
    if needed and len({*rows.values()}) > 1:
        counts = [f"'{name}' has {counted(count, 'row')}" for name, count in rows.items()]
        raise ValueError(f"{listed(counts)}; give each array one element per row")
    alike = [one for one in tables.values() if len(one) in rows.values()]
    return pd.concat(alike, axis=1) if alike else pd.DataFrame()


def _check_fits(needed_bytes: int) -> None:
    if found := describe_excess(needed_bytes, available_bytes()):
        raise ValueError(f"it {found}; {FEWER}")


def _of_array(values: Any, columns: Collection[str]) -> pd.DataFrame:
    """The rows of an array; its other axes are the columns of the study, in order."""
    flat = values.reshape(len(values), -1)
    if flat.shape[1] != len(columns):
        found = f"rows of {counted(flat.shape[1], 'number')}, but the model needs {len(columns)}"
        raise ValueError(found)
    return pd.DataFrame(flat, columns=[*columns])


def _unkept(path: Path, frame: pd.DataFrame, names: Sequence[str]) -> Iterator[Problem]:
    """Problems of columns to keep that do not exist."""
    there = [str(name) for name in frame.columns]
    for name in names:
        if name not in there:
            near = did_you_mean(name, there) or f"its columns are {listed(there)}"
            is_part = any(
                name in map(str.strip, other.split(",")) for other in there if "," in other
            )
            hint = "write a name with a comma in double quotes, as in CSV" if is_part else near
            yield Problem(path.name, "--keep", f"no column '{name}'", hint)


def _unfit(
    path: Path, frame: pd.DataFrame, transform: Transform, unused: Sequence[str]
) -> Iterator[Problem]:
    """Problems of missing columns, which may be among the unused ones, and of missing rows."""
    there = {str(name) for name in frame.columns}
    for name in transform.columns:
        if name in there:
            continue
        near = get_close_matches(name, unused, n=1)
        hint = f"is '{near[0]}' the same?" if near else "add it: the model needs it"
        yield Problem(path.name, "", f"no column '{name}'", hint)
    if not len(frame):
        yield Problem(path.name, "", "no rows", "write one row per prediction")
