"""Reads a table of which only the path is known, as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sweeper.config.toml import of_home, toml_value
from sweeper.data.columns import (
    header_of_data,
    in_single_quotes,
    repeated_headers,
    units_rows,
)
from sweeper.data.compression import suffix_of
from sweeper.data.csv_dialect import likely_dialect
from sweeper.data.csv_file import CSV_SUFFIXES, CsvFile
from sweeper.data.csv_reader import read_csv_table
from sweeper.data.files import UnfitTableError, conversion_hint, files_here
from sweeper.data.parquet import parquet_table, partitions_of, with_categories
from sweeper.data.raw import RawData
from sweeper.errors import DataError, Problem, counted, did_you_mean_file, listed

# the kind of file by its suffix
_SOURCES = {**dict.fromkeys(CSV_SUFFIXES, "csv"), ".parquet": "parquet"}


def read_any_table(path: Path, target: str | None) -> tuple[str, RawData]:
    """The kind of a file, and its rows; the `target` may be a level of the index.

    Raises:
        DataError: the file does not exist, or is not a table with a header.
    """
    suffix = suffix_of(path)
    source = _SOURCES.get(suffix)
    is_pattern = not path.is_file() and source in (None, "parquet")
    if is_pattern and files_here(path, ".parquet"):
        source = "parquet"
    elif path.is_dir():
        found = "a directory without .parquet files"
        raise DataError(
            Problem(str(path), "", found, "name a file, or a directory with such files")
        )
    elif not path.is_file():
        there = [other.name for other in path.parent.glob(f"*{suffix}")]
        near = did_you_mean_file(path, there, suffix)
        hint = near or of_home(str(path)) or "check the path"
        raise DataError(Problem(str(path), "", "no such file", hint))
    elif source is None:
        known = listed([*_SOURCES], "or")
        of_arrays = f'write source = "npz" and path = {toml_value(path.as_posix())} in [data] of a '
        of_arrays += "file that `sweeper init` wrote; its arrays are x and y"
        hint = of_arrays if suffix == ".npz" else conversion_hint(path) or f"name a file in {known}"
        raise DataError(Problem(str(path), "", "unknown file type", hint))
    try:
        raw = _csv(path) if source == "csv" else RawData("", "", _parquet(path, target), ())
    except UnfitTableError as error:
        raise DataError(Problem(str(path), "", error.found, error.hint)) from error
    except (OSError, ValueError, ImportError) as error:
        hint = f"name a {source.upper()} file with a row of column names"
        raise DataError(Problem(str(path), "", f"cannot be read ({error})", hint)) from error
    if raw.csv is not None:
        _refuse_layout(raw.csv, raw)
    if raw.frame.empty or len(raw.frame.columns) < 2:
        counts = (counted(len(raw.frame), "row"), counted(len(raw.frame.columns), "column"))
        found, hint = " and ".join(counts), "use one with rows and at least two columns"
        raise DataError(Problem(str(path), "", found, hint))
    return source, raw


def _refuse_layout(file: CsvFile, raw: RawData) -> None:
    """Raise a DataError for a missing or repeated header, single quotes, and rows of units."""
    if found := header_of_data(raw.frame, raw.decimal):
        raise DataError(Problem(str(file.path), "", found, "add a line of column names above it"))
    if quoted := in_single_quotes(raw.frame):
        raise DataError(Problem(str(file.path), "", quoted, file.unquote_hint()))
    if again := repeated_headers(raw.frame, decimal=raw.decimal):
        found, hint = raw.describe_headers(again), file.without_headers(str(raw.frame.columns[0]))
        raise DataError(Problem(str(file.path), "", found, hint))
    n_rows, description = units_rows(raw.frame, decimal=raw.decimal)
    if n_rows:
        found = f"{raw.places(range(n_rows))} {description}"
        raise DataError(Problem(str(file.path), "", found, file.without_rows(n_rows)))


def _csv(path: Path) -> RawData:
    file = CsvFile(path)
    try:
        frame = read_csv_table(file)
        likely = likely_dialect(path)
        if likely.decimal == ",":  # a number such as 1,5 was two fields, without an error
            file = CsvFile(path, likely)
            frame = read_csv_table(file)
    except UnfitTableError as error:
        if error.likely is None:
            raise
        file = CsvFile(path, error.likely)
        frame = read_csv_table(file)
    words = file.missing_words(frame, None)
    return RawData("", "", frame, (), csv=file, decimal=file.dialect.decimal, words=words)


def _parquet(path: Path, target: str | None) -> pd.DataFrame:
    """The rows of a Parquet file, of those in a directory, or of those that a pattern matches.

    The `target` may be a level of its index.
    """
    paths = files_here(path, ".parquet")
    varying = {name: of for name, of in partitions_of(paths).items() if len({*of}) > 1}
    frame = parquet_table(paths, [target] if target else (), partitions=varying)
    return with_categories(frame, paths[0])
