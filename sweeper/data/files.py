"""Finds the files that a study names, and says what is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.data import ParquetTable
from sweeper.config.toml import hint_if_moved, of_home, toml_value
from sweeper.errors import DataError, Problem, did_you_mean_file, listed

GIT_LFS = "version https://git-lfs."
"""The start of a file that Git LFS has left in the place of a large one."""

POINTER = ("is a pointer of Git LFS, not the file itself", "run `git lfs pull`")
"""What is wrong with such a file, and how to fix it."""

WILDCARDS = frozenset("*?[")
"""What makes a path a pattern."""


class UnfitTableError(ValueError):
    """Files that are not one valid table: what was found, and how to fix it.

    `likely` is the probable `Dialect` of a CSV file that was read with another one.
    """

    def __init__(self, found: str, hint: str = "", likely: Any = None) -> None:
        super().__init__(found)
        self.found, self.hint, self.likely = found, hint, likely


_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")


def conversion_hint(path: Path) -> str:
    """How to make a CSV file of a spreadsheet; empty for other files."""
    if path.suffix.lower() not in _SPREADSHEETS:
        return ""
    table, copy = (toml_value(name.as_posix()) for name in (path, path.with_suffix(".csv")))
    code = f"pandas.read_excel({table}).to_csv({copy}, index=False)"
    return f"save it as CSV in the spreadsheet program, or use pandas: {code}"


def is_pointer(path: Path) -> bool:
    """Whether Git LFS has left this file in the place of a large one."""
    if not path.is_file():  # a pipe would block
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(GIT_LFS)) == GIT_LFS.encode()
    except OSError:  # what reads it reports that
        return False


def find_file(config: StudyConfig, name: str, key: str, suffix: str) -> Path:
    """The file `name`, looked up next to the study file first, then in the current directory.

    `key` is the setting that names it, and `suffix` the usual end of its name.

    Raises:
        DataError: the file does not exist.
    """
    folders = folders_of(config)
    for folder in folders:
        if _is_file(folder / name):
            return folder / name
    raise _not_found(config, name, key, suffix)


def find_files(config: StudyConfig, name: str, key: str, suffix: str) -> list[Path]:
    """The files that `name` refers to, looked up in the same way and sorted by name.

    `name` is a file, a directory with files, or a pattern. In studies of edition 1, a name with
    `*`, `?` or `[` is always a pattern.

    Raises:
        DataError: no file matches.
    """
    is_pattern = bool(set(name) & WILDCARDS)
    if config.edition == 1 and not is_pattern:
        return [find_file(config, name, key, suffix)]
    for folder in folders_of(config):
        try:
            if files := matching_files(folder, name, suffix, literal=config.edition > 1):
                return files
        except ValueError as error:
            found = f"'{name}' is not a valid file pattern ({error})"
            hint = f"write e.g. rows/*{suffix}"
            raise DataError(config.problem(key, found, hint)) from error
    raise _not_found(config, name, key, suffix)


def from_here(path: Path) -> Path:
    """The path as it leads to a file from the current directory, if it is below that."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def parquet_files(config: StudyConfig, data: ParquetTable) -> list[Path]:
    """The Parquet files that contain the study's rows.

    Raises:
        DataError: as `find_files`.
    """
    if config.rows is not None:
        return [config.rows.file]
    return find_files(config, data.path, "data.path", ".parquet")


def matching_files(folder: Path, name: str, suffix: str, *, literal: bool = True) -> list[Path]:
    """The files in `folder` that `name` refers to: a file, a directory or a pattern; sorted.

    If `literal`, a file or directory with exactly this name takes precedence over a pattern, as do
    existing directories at the start of a pattern.

    Raises:
        ValueError: the pattern is malformed.
    """
    try:
        if literal and _is_file(folder / name):
            return [folder / name]
        if literal and (folder / name).is_dir():
            return _files_below(folder / name, suffix)
        if not set(name) & WILDCARDS:
            return []
        parent, pattern = _split_pattern(folder, name, literal=literal)
        if any("**" in part and part != "**" for part in Path(pattern).parts):
            # Python 3.13 treats it like a single star, earlier versions reject it
            raise ValueError("'**' stands for whole folders")
        return sorted(path for path in parent.glob(pattern) if path.is_file())
    except OSError:  # see `_is_file`
        return []


def files_here(path: Path, suffix: str) -> list[Path]:
    """The files that a path, seen from the current directory, refers to, as `matching_files`.

    Raises:
        DataError: it is a malformed pattern.
    """
    try:
        return matching_files(Path(), str(path), suffix)
    except ValueError as error:
        found = f"not a valid file pattern ({error})"
        raise DataError(Problem(str(path), "", found, f"write e.g. rows/*{suffix}")) from error


def _files_below(folder: Path, suffix: str) -> list[Path]:
    """The files below a directory, without hidden ones, as Arrow reads it."""
    files = (path for path in folder.rglob(f"*{suffix}") if _is_file(path))
    return sorted(
        path
        for path in files
        if not any(part.startswith(("_", ".")) for part in path.relative_to(folder).parts)
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the name is longer than the system allows
        return False


def _split_pattern(folder: Path, name: str, *, literal: bool) -> tuple[Path, str]:
    """The folder in which a pattern starts, and the pattern relative to it."""
    path = Path(name)
    if path.anchor:
        folder, path = Path(path.anchor), path.relative_to(path.anchor)
    parts = [*path.parts]
    while literal and len(parts) > 1 and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    return folder, str(Path(*parts)) if literal else str(path)


def folders_of(config: StudyConfig) -> list[Path]:
    """The directories in which a relative path of the study is looked up, in order."""
    return list(dict.fromkeys([config.base_dir.resolve(), Path.cwd()]))


def _not_found(config: StudyConfig, name: str, key: str, suffix: str) -> DataError:
    folders = folders_of(config)
    pattern = f"*{suffix}"
    neighbours = [near for folder in folders for near in _names((folder / name).parent, pattern)]
    looked_in = "" if Path(name).is_absolute() else f" in {listed([*map(str, folders)], 'or')}"
    found = f"no file '{name}'{looked_in}"
    there = [path for path in (folder / name for folder in folders) if os.path.lexists(path)]
    if there:
        found = f"{found}: {there[0]} is {_kind(there[0], suffix)}"
    wanted = f"set {key} to the path of a {suffix[1:].upper()} file"
    near = did_you_mean_file(Path(name), neighbours, suffix)
    hint = near or of_home(name) or hint_if_moved(config.source) or wanted
    return DataError(config.problem(key, found, hint))


def _kind(path: Path, suffix: str) -> str:
    """What is at a path instead of a file."""
    if path.is_symlink():
        return "a link that leads to no file"
    if path.is_dir():
        return "a directory" if suffix != ".parquet" else f"a directory without {suffix} files"
    return "a pipe or a device"


def _names(folder: Path, pattern: str) -> list[str]:
    try:
        return [path.name for path in folder.glob(pattern) if _is_file(path)]
    except OSError:  # see `_is_file`
        return []
