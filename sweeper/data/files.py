"""Where the files are that a study names."""

from __future__ import annotations

import os
from pathlib import Path

from sweeper.config import StudyConfig
from sweeper.errors import DataError
from sweeper.naming import did_you_mean, listed


def find_file(config: StudyConfig, name: str, key: str, suffix: str) -> Path:
    """The file `name`, looked up beside the study file first, then in the current directory.

    `key` is the setting that names it, `suffix` what such files end with.

    Raises:
        DataError: there is none.
    """
    folders = _folders(config)
    for folder in folders:
        if _is_file(folder / name):
            return folder / name
    raise _not_found(config, name, key, suffix)


def find_files(config: StudyConfig, name: str, key: str, suffix: str) -> list[Path]:
    """The file `name`, or every file that it is a pattern of, by name; looked up in the same way.

    Raises:
        DataError: there is none.
    """
    if not set(name) & set("*?["):
        return [find_file(config, name, key, suffix)]
    if any("**" in part and part != "**" for part in Path(name).parts):
        # Python 3.13 takes it for a single star, those before it refuse it
        raise _no_pattern(config, name, key, suffix, "'**' stands for whole folders")
    for folder in _folders(config):
        parent, pattern = _parted(folder, name)
        try:
            if files := sorted(path for path in parent.glob(pattern) if path.is_file()):
                return files
        except ValueError as error:
            raise _no_pattern(config, name, key, suffix, str(error)) from error
        except OSError:
            continue  # as `_is_file` has it
    raise _not_found(config, name, key, suffix)


def _no_pattern(config: StudyConfig, name: str, key: str, suffix: str, why: str) -> DataError:
    found = f"'{name}' is no pattern of files ({why})"
    return DataError(config.problem(key, found, f"write e.g. rows/*{suffix}"))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # of a name that is longer than the system has names
        return False


def _parted(folder: Path, name: str) -> tuple[Path, str]:
    """The folder in which a pattern begins, and the pattern: what is before it is no pattern."""
    path = Path(name)
    if not path.anchor:
        return folder, name
    return Path(path.anchor), str(path.relative_to(path.anchor))


def _folders(config: StudyConfig) -> list[Path]:
    return list(dict.fromkeys([config.base_dir.resolve(), Path.cwd()]))


def _not_found(config: StudyConfig, name: str, key: str, suffix: str) -> DataError:
    folders = _folders(config)
    pattern = f"*{suffix}"
    neighbours = [near for folder in folders for near in _names((folder / name).parent, pattern)]
    looked_in = "" if Path(name).is_absolute() else f" in {listed([*map(str, folders)], 'or')}"
    found = f"no file '{name}'{looked_in}"
    there = [path for path in (folder / name for folder in folders) if os.path.lexists(path)]
    if there:
        found = f"{found}: {there[0]} is {_kind(there[0])}"
    wanted = f"write the path of a {suffix[1:].upper()} file"
    mend = did_you_mean(Path(name).name, neighbours) or wanted
    return DataError(config.problem(key, found, mend))


def _kind(path: Path) -> str:
    """What there is in place of a file."""
    if path.is_symlink():
        return "a link that leads to no file"
    return "a directory" if path.is_dir() else "a pipe or a device"


def _names(folder: Path, pattern: str) -> list[str]:
    try:
        return [path.name for path in folder.glob(pattern) if _is_file(path)]
    except OSError:  # as `_is_file` has it
        return []
