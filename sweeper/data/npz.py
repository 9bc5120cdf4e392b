"""Rows of named arrays, whose first axis is the row."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pandas as pd

from sweeper.config import StudyConfig
from sweeper.config.data import NpzTable
from sweeper.data.files import POINTER, find_file, is_pointer
from sweeper.data.memory import FEWER, describe_excess
from sweeper.data.raw import RawData
from sweeper.errors import DataError, counted, did_you_mean, listed
from sweeper.process import available_bytes

UNREADABLE = (
    *(OSError, ValueError, EOFError, BadZipFile, AttributeError, TypeError),
    *(KeyError, MemoryError, RuntimeError, zlib.error),
)
"""What NumPy raises for a file that is damaged or is not arrays; `MemoryError` for a header that
claims more than there is."""


def stored_bytes(path: Path, names: Collection[str]) -> int:
    """The size of these arrays according to the archive itself; no more than that is read."""
    with ZipFile(path) as archive:
        stored = {info.filename.removesuffix(".npy"): info.file_size for info in archive.infolist()}
    return sum(stored[name] for name in names)


def read_npz(config: StudyConfig, data: NpzTable) -> RawData:
    """The rows of the arrays that the study names in an .npz file.

    Raises:
        DataError: the file does not exist, or its arrays are not rows of one table.
    """
    path = find_file(config, data.path, "data.path", ".npz")
    split = data.split
    ways = {f"data.split.{way}": getattr(split, way) for way in ("group", "time", "column")}
    y = None if config.train.target is None else data.y or "y"
    ways |= {"data.mode": data.mode, "data.weight": data.weight}
    named = {"data.x": data.x, "data.y": y, **ways}
    wanted = {key: name for key, name in named.items() if name is not None}
    try:
        # NumPy leaves a file open if it cannot read it
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            _check_names(config, path.name, wanted, file.files)
            if excess := describe_excess(stored_bytes(path, {*wanted.values()}), available_bytes()):
                raise DataError(config.problem("data.path", f"{path.name} {excess}", FEWER))
            arrays = [(name, file[name]) for name in dict.fromkeys(wanted.values())]
    except UNREADABLE as error:
        found = f"{path.name} is not an .npz file of plain arrays ({type(error).__name__}: {error})"
        hint = "write it with numpy.savez, without objects"
        if is_pointer(path):
            found, hint = f"{path.name} {POINTER[0]}", POINTER[1]
        raise DataError(config.problem("data.path", found, hint)) from error
    frame, names = as_one_table(config, "data.path", path.name, arrays)
    _check_ways(config, names, ways)
    targets = () if y is None else names[y]
    return RawData(path.name, "data.path", frame, targets, target_key="data.y", mode=data.mode)


def as_one_table(
    config: StudyConfig, key: str, name: str, arrays: Sequence[tuple[str, Any]]
) -> tuple[pd.DataFrame, dict[str, tuple[str, ...]]]:
    """One table of all named arrays, and the columns that each has become.

    An array with one axis becomes one column; with more, one column per element, from NAME_0.

    Raises:
        DataError: their numbers of rows differ or are 0, or one has no columns.
    """
    rows = {array: len(values) if values.ndim else 0 for array, values in arrays}
    if len(set(rows.values())) > 1 or not all(rows.values()):
        counts = listed([f"'{array}' has {counted(count, 'row')}" for array, count in rows.items()])
        hint = "give each array one element per row"
        raise DataError(config.problem(key, f"{name}: {counts}", hint))
    frames = [table_of(array, values) for array, values in arrays]
    columns = {array: tuple(t.columns) for (array, _), t in zip(arrays, frames, strict=True)}
    check_columns(config, key, name, columns)
    return pd.concat(frames, axis=1), columns


def check_columns(
    config: StudyConfig, key: str, name: str, columns: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse arrays without columns.

    Raises:
        DataError: with all of these.
    """
    empty = [f"'{array}'" for array, names in columns.items() if not names]
    if empty:
        found = f"{name}: {listed(empty)} {'has' if len(empty) == 1 else 'have'} no columns"
        raise DataError(config.problem(key, found, "give each array at least one column"))


def table_of(name: str, values: Any) -> pd.DataFrame:
    """The columns of an array of at least one axis: its own name, or one per element of a row."""
    if values.ndim == 1:
        return pd.DataFrame({name: values})
    flat = values.reshape(len(values), -1)
    return pd.DataFrame(flat, columns=[f"{name}_{index}" for index in range(flat.shape[1])])


def _check_ways(
    config: StudyConfig, names: Mapping[str, tuple[str, ...]], ways: Mapping[str, str | None]
) -> None:
    for key, name in ways.items():
        if name is not None and names[name] != (name,):
            found = f"'{name}' has {counted(len(names[name]), 'column')}"
            raise DataError(config.problem(key, found, "name an array of one axis"))


def _check_names(
    config: StudyConfig, file: str, wanted: Mapping[str, str], there: list[str]
) -> None:
    problems = [
        config.problem(
            key,
            f"{file} has no array '{name}'",
            did_you_mean(name, there) or f"its arrays are {listed(there)}",
        )
        for key, name in wanted.items()
        if name not in there
    ]
    if problems:
        raise DataError(problems)
