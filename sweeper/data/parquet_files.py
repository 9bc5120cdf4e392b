"""Rows of a Parquet file, or of all files that a pattern matches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd

from sweeper.config import StudyConfig
from sweeper.config.data import ParquetTable
from sweeper.data.files import find_files
from sweeper.data.raw import RawData
from sweeper.errors import DataError
from sweeper.naming import listed

# how Arrow begins to say that it cannot tell columns apart
_TWICE = re.compile(r"Multiple matches for FieldRef\.Name\((.*?)\) in ")
# each column is freed as it is taken over, and the file is not held beside them: without these
# reading takes three times what the rows take
_IN_PLACE: Any = {"split_blocks": True, "self_destruct": True}


def read_parquet(config: StudyConfig, data: ParquetTable) -> RawData:
    """The rows of the files, one file after the other in the order of their names.

    Raises:
        DataError: there is no such file, one cannot be read, or they have not the same columns.
    """
    wanted = (*data.target, data.split.group, data.split.time)
    paths = find_files(config, data.path, "data.path", ".parquet")
    frames = [with_index(_read(config, path), wanted) for path in paths]
    for path, frame in zip(paths, frames, strict=True):
        _check_columns(config, paths[0], frames[0], path, frame)
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    name = paths[0].name if len(paths) == 1 else data.path
    if frame.empty:
        raise DataError(config.problem("data.path", f"{name} has no rows", "write a row each"))
    return RawData(name, "data.path", frame, data.target, drop=data.drop)


def with_text_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with text for its columns' names, which pandas may have as numbers."""
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def with_index(frame: pd.DataFrame, wanted: tuple[str | None, ...]) -> pd.DataFrame:
    """The rows numbered from 0; a level of the index is a column only where it is `wanted`."""
    asked = {name for name in wanted if name is not None}
    kept = [name for name in frame.index.names if name in asked and name not in frame]
    others = [name for name in frame.index.names if name not in kept]
    if not kept:
        return frame.reset_index(drop=True)
    return (frame.droplevel(others) if others else frame).reset_index()


def _read(config: StudyConfig, path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path, pre_buffer=False, to_pandas_kwargs=_IN_PLACE)
        return with_text_labels(frame)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        # the last is what Arrow raises of a feature of Parquet that it cannot read
        reason = " ".join(str(error).split()).rstrip(".")
        if twice := _TWICE.match(reason):
            found, mend = f"has several columns '{twice[1]}'", "give each column its own name"
        else:
            found, mend = f"cannot be read as Parquet: {reason}", "write it again"
        raise DataError(config.problem("data.path", f"{path.name} {found}", mend)) from error


def _check_columns(
    config: StudyConfig, first: Path, expected: pd.DataFrame, path: Path, frame: pd.DataFrame
) -> None:
    differing = [*expected.columns.symmetric_difference(frame.columns)]
    if differing:
        names = listed([f"'{name}'" for name in differing])
        found = f"{path.name} and {first.name} do not both have {names}"
        mend = "name files of the same columns"
        raise DataError(config.problem("data.path", found, mend))
