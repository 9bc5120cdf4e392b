"""Rows of a Parquet file, of all files that match a pattern, or of all in a directory."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.api.types import (
    is_bool_dtype,
    is_float_dtype,
    is_integer_dtype,
    is_numeric_dtype,
    is_string_dtype,
)

from sweeper.config import StudyConfig
from sweeper.config.data import ParquetTable
from sweeper.data.columns import cells, is_number, with_columns
from sweeper.data.files import POINTER, UnfitTableError, folders_of, is_pointer, parquet_files
from sweeper.data.identity import EXACT, KnownValues, number_of, written
from sweeper.data.memory import FEWER, describe_excess
from sweeper.data.raw import RawData
from sweeper.errors import DataError, listed
from sweeper.process import available_bytes
from sweeper.results.decoded import decoded_bytes

# the start of Arrow's message about ambiguous columns
_TWICE = re.compile(r"Multiple matches for FieldRef\.Name\((.*?)\) in ")
# columns in the names of directories are added later
_ALONE: Any = {"partitioning": None}
# the last one is what Arrow raises for a Parquet feature that it does not support
_UNREADABLE = OSError, ValueError, TypeError, KeyError, RuntimeError
# Hive's directory name for rows without a value
_MISSING = "__HIVE_DEFAULT_PARTITION__"
_NUMBER = re.compile(r"[-+]?(\d{1,15}(\.\d*)?|\.\d+)(e[-+]?\d{1,2})?", re.IGNORECASE)

Partitions = Mapping[str, Sequence[str | None]]
"""For each column in directory names such as `year=2024`, its value for each file, as text."""


def read_parquet(config: StudyConfig, data: ParquetTable) -> RawData:
    """The rows of the files, in the order of their names.

    Directories such as `year=2024` become the column `year`, except in edition 1.

    Raises:
        DataError: no file matches, one cannot be read, or their columns differ.
    """
    paths, key = parquet_files(config, data), "data.path" if config.rows is None else "data"
    others = data.split.group, data.split.time, data.split.column, data.weight
    wanted = {name for name in (*data.target, *others) if name}
    partitions: Partitions = {}
    try:
        if config.edition > 1:
            partitions = partitions_of(paths, folders_of(config))
        named = {*wanted, *data.drop, *data.categorical_columns}
        columns = {name: of for name, of in partitions.items() if len({*of}) > 1 or name in named}
        frame = parquet_table(paths, wanted, columns, texts=_codes(config, data, columns))
        if config.edition > 3:
            frame = with_categories(frame, paths[0])
    except UnfitTableError as error:
        raise DataError(config.problem(key, error.found, error.hint)) from error
    name = paths[0].name if len(paths) == 1 else data.path
    if config.rows is not None:
        name = config.rows.name
    if frame.empty:
        raise DataError(config.problem(key, f"{name} has no rows", "write some rows"))
    notes = () if config.rows is None else config.rows.notes
    notes += tuple(
        f"all rows come from {name}={values[0]}, which is not read as a column"
        for name, values in partitions.items()
        if name not in frame
    )
    notes += tuple(
        f"all rows come from {name}={values[0]}, but column '{name}' has {others}; the column wins"
        for name, values in partitions.items()
        if name in frame
        and name not in columns
        and (others := other_values(frame[name], values[0]))
    )
    notes += tuple(
        f"the index '{level}' of {paths[0].name} is not read as a column: "
        "write the table after df.reset_index() if the model should learn from it"
        for level in pd.read_parquet(paths[0], columns=[], **_ALONE).index.names
        if level is not None and str(level) not in frame and config.edition > 1
    )
    return RawData(name, key, frame, data.target, drop=data.drop, notes=notes)


def _codes(config: StudyConfig, data: ParquetTable, partitions: Partitions) -> list[str]:
    """The partition columns of categories or classes with values such as 01234."""
    classes = data.target if config.train.target == "classes" else ()
    return [
        name
        for name in {*data.categorical_columns, *classes} & partitions.keys()
        if any(value is not None and number_of(value) is None for value in partitions[name])
    ]


def parquet_table(
    paths: Sequence[Path],
    wanted: Collection[str] = (),
    partitions: Partitions | None = None,
    texts: Collection[str] = (),
    preferred: Collection[str] = (),
) -> pd.DataFrame:
    """The rows of all files, numbered from 0, with the columns `partitions`.

    An index level is a column only if it is `wanted`. Partition columns in `texts` stay text; the
    others are numbers if all their values are. In `preferred` columns, values in the files may
    differ from the names of the directories.

    Raises:
        UnfitTableError: a file cannot be read, or their columns differ.
    """
    _check_size(paths)
    frames = [with_index(_read(path), wanted) for path in paths]
    checked = {name: of for name, of in (partitions or {}).items() if name not in preferred}
    _check_partitions(paths, frames, checked)
    for path, frame in zip(paths, frames, strict=True):
        _check_columns(paths[0], frames[0], path, frame)
    files = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
    frame = frames[0] if len(frames) == 1 else _join_files(frames)
    added = {
        name: _as_numbers_or_strings(values, as_text=name in texts)[files]
        for name, values in (partitions or {}).items()
        if name not in frame
    }
    return with_columns(frame, added)


def with_categories(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The rows, with those columns as categories that were categories when pandas wrote the file.

    Parquet keeps only categories of strings; others come back as their values.
    """
    schema = pq.read_schema(path)
    columns = (schema.pandas_metadata or {}).get("columns", ())
    found = {one["field_name"] for one in columns if one["pandas_type"] == "categorical"}
    changed: dict[str, pd.Series[Any]] = {}
    for name in (str(name) for name in frame if str(name) in found):
        column = with_integers(frame[[name]], [path], [name])[name]
        if not isinstance(column.dtype, pd.CategoricalDtype):
            changed[name] = column.astype("category")
    return with_columns(frame, changed)


def with_integers(
    frame: pd.DataFrame, paths: Sequence[Path], names: Collection[str]
) -> pd.DataFrame:
    """The rows with integers in those columns `names` that have integers in every file.

    pandas makes floats of integers next to gaps.
    """
    schemas = [pq.read_schema(path) for path in paths]
    of_integers = set.intersection(
        *({one.name for one in schema if pa.types.is_integer(one.type)} for schema in schemas)
    )
    # an index that is not wanted is only in the files
    there = {*names} & of_integers & {*frame}
    floats = [name for name in there if is_float_dtype(frame[name].dtype)]
    return frame.astype(dict.fromkeys(floats, "Int64"))


def partitions_of(paths: Sequence[Path], bases: Sequence[Path] = ()) -> Partitions:
    """The columns in directory names of the files, below the first matching base.

    Raises:
        UnfitTableError: the files are not all below directories of the same columns.
    """
    base = next((base for base in bases if paths[0].is_relative_to(base)), None)
    of_files = [_keys(path.relative_to(base) if base else path) for path in paths]
    for path, keys in zip(paths, of_files, strict=True):
        for name in of_files[0].keys() ^ keys.keys():
            found = f"{paths[0]} and {path} are not both below a directory {name}=..."
            raise UnfitTableError(found, "name files that are partitioned by the same columns")
    return {name: [keys[name] for keys in of_files] for name in of_files[0]}


def with_text_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with its column names as text, since pandas may have numbers."""
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def with_index(frame: pd.DataFrame, wanted: Collection[str | None]) -> pd.DataFrame:
    """The rows numbered from 0; an index level is a column only if it is `wanted`."""
    asked = {name for name in wanted if name is not None}
    kept = [name for name in frame.index.names if name in asked and name not in frame]
    others = [name for name in frame.index.names if name not in kept]
    if not kept:
        return frame.reset_index(drop=True)
    return (frame.droplevel(others) if others else frame).reset_index()


def _check_size(paths: Sequence[Path]) -> None:
    """Refuse files whose rows do not fit into free memory."""
    if (free := available_bytes()) is None:
        return
    needed = 0
    with suppress(*_UNREADABLE):  # reading will report what is wrong with a file
        needed = decoded_bytes(paths, free)
    if found := describe_excess(needed, free):
        name = paths[0].name if len(paths) == 1 else f"the {len(paths)} files"
        raise UnfitTableError(f"{name} {found}", FEWER)


def _read(path: Path) -> pd.DataFrame:
    try:
        # Each column is freed once it is converted, and the file is not kept next to them:
        # otherwise reading takes three times the memory of the rows. Not with pandas, which would
        # use Arrow's table afterwards: with pyarrow < 26 that crashes (pandas-dev/pandas#66509).
        table = pq.read_table(path, use_pandas_metadata=True, pre_buffer=False, **_ALONE)
        frame = table.to_pandas(split_blocks=True, self_destruct=True)
        return _with_large_integers(path, with_text_labels(frame))
    except UnicodeEncodeError as error:  # of a path, which Arrow takes as UTF-8
        found = "cannot be read as Parquet, because its path is not UTF-8"
        raise UnfitTableError(f"{path} {found}", "rename the file or its directory") from error
    except _UNREADABLE as error:
        reason = " ".join(str(error).split()).rstrip(".")
        if twice := _TWICE.match(reason):
            found, hint = f"has several columns '{twice[1]}'", "give each column its own name"
        elif is_pointer(path):
            found, hint = POINTER
        else:
            found, hint = f"cannot be read as Parquet: {reason}", "write it again"
        raise UnfitTableError(f"{path.name} {found}", hint) from error


def _with_large_integers(path: Path, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with large integers as in the file; pandas rounds those next to gaps."""
    names = [str(n) for n in frame if frame[n].dtype == np.float64 and _has_large(frame[n])]
    if not names:
        return frame
    typed = with_text_labels(
        pd.read_parquet(path, columns=names, dtype_backend="numpy_nullable", **_ALONE)
    )
    exact = {n: typed[n].array for n in names if is_integer_dtype(typed[n].dtype)}
    return with_columns(frame, exact)


def _has_large(column: pd.Series[Any]) -> bool:
    """Whether a column has integers too large for floats to distinguish."""
    return is_number(column) and bool(((column >= EXACT) | (column <= -EXACT)).any())


def _join_files(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all files; large integers are not rounded if another file has floats."""
    objects = [
        name
        for name in frames[0]
        if len({frame[name].dtype for frame in frames}) > 1
        and any(is_integer_dtype(frame[name].dtype) for frame in frames)
        and any(_has_large(frame[name]) for frame in frames)
    ]
    kept = [frame.astype(dict.fromkeys(objects, object)) if objects else frame for frame in frames]
    return pd.concat(kept, ignore_index=True)


def _check_columns(first: Path, expected: pd.DataFrame, path: Path, frame: pd.DataFrame) -> None:
    differing = [*expected.columns.symmetric_difference(frame.columns)]
    if differing:
        names = listed([f"'{name}'" for name in differing])
        found = f"{path.name} and {first.name} do not both have {names}"
        raise UnfitTableError(found, "use files with the same columns")
    for name in expected.columns:
        one, other = _kind(expected[name]), _kind(frame[name])
        if one and other and one != other:
            found = f"column '{name}' holds {one} in {first.name} and {other} in {path.name}"
            raise UnfitTableError(found, "write the same type in every file")


def _check_partitions(
    paths: Sequence[Path], frames: Sequence[pd.DataFrame], partitions: Partitions
) -> None:
    """Refuse a column whose values differ from the name of its file's directory."""
    for name, values in partitions.items():
        for path, frame, value in zip(paths, frames, values, strict=True):
            if name in frame and (others := other_values(frame[name], value)):
                found = f"column '{name}' of {path} has {others}, but its directory {name}={value}"
                fix = "remove the column from the files, or move the rows to the right directory"
                raise UnfitTableError(found, fix)


def other_values(column: pd.Series[Any], of_directory: str | None) -> str:
    """The first value of a column that differs from `of_directory`; empty if there is none."""
    values = cells(column.drop_duplicates()).tolist()
    known = KnownValues(() if of_directory is None else (of_directory,))
    others = [v for v in values if known.place(v) != (None if of_directory is None else 0)]
    return "missing values" if others == [None] else written(others[0]) if others else ""


def _kind(column: pd.Series[Any]) -> str:
    """The kind of a column that cannot be joined with other kinds; else empty."""
    if not column.count():
        return ""
    if is_bool_dtype(column.dtype):
        return "booleans"
    if is_numeric_dtype(column.dtype):
        return "numbers"
    return "text" if is_string_dtype(column) else ""


def _keys(path: Path) -> dict[str, str | None]:
    """The columns in the directory names of a path."""
    parts = [part.partition("=") for part in path.parent.parts]
    values = {unquote(key): unquote(value) for key, equals, value in parts if key and equals}
    return {key: None if value == _MISSING else value for key, value in values.items()}


def _as_numbers_or_strings(values: Sequence[str | None], *, as_text: bool) -> Any:
    """The values as an array of numbers if all of them are numbers, else of strings."""
    written = pd.Series([*values], dtype="str")
    known = written.dropna()
    if as_text or not len(known) or not all(_NUMBER.fullmatch(value) for value in known):
        return written.array
    return pd.to_numeric(written).array
