"""Reads a study file and `--set` into a `StudyConfig`, or reports everything that is wrong."""

from __future__ import annotations

import re
import shlex
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from sweeper.config.overrides import LONG_NUMBER, as_typed, read_overrides
from sweeper.config.reading import RawTable, is_table, with_value
from sweeper.config.refusals import keys_around, with_way
from sweeper.config.study_config import RowsFile, StudyConfig
from sweeper.config.table import Flaw
from sweeper.config.toml import (
    COMMAND_LINE,
    SHORTEN,
    TOO_DEEP,
    TOO_LONG,
    UNNEST,
    Source,
    beyond_limits,
    escaped_paths,
    given_twice,
    number_in_toml,
    toml_text,
    toml_value,
    unrecordable,
    with_slashes,
)
from sweeper.config.validate import Draft
from sweeper.errors import Problem, StudyError, did_you_mean_file
from sweeper.files import read_small
from sweeper.rundir import RunDir


def study_path(given: object) -> Path:
    """The path of a study file.

    Raises:
        StudyError: what is given is not a path.
    """
    if isinstance(given, str | Path):
        return Path(given)
    found = f"{type(given).__name__} given as a study"
    hint = "pass the path of its study file, or a mapping of its settings"
    raise StudyError(Problem("", "", found, hint))


_MAX_BYTES = 10_000_000  # a larger file is probably a table of data
# a value in Python syntax, not in quotes
_OF_PYTHON = re.compile(
    r"""^[^"'#]*(?:(?:"[^"]*"|'[^']*')[^"'#]*)*?[=,[]\s*(True|False|None|none|null)\b"""
)
# messages of tomllib about a backslash in double quotes, and text that contains one
_OF_ESCAPES = ("Invalid hex value", "Unescaped '\\' in a string")
_WITH_BACKSLASH = re.compile(r'"([^"]*\\[^"]*)"')
# how messages of tomllib begin, and how to fix the line
_FIXES = {
    "Unclosed array": "write commas between values, and ] after the last one",
    "Unclosed inline table": "write it on one line, with commas between settings and } last",
    "Illegal character '\\n'": "end the text with the quote that it begins with",
    "Unterminated string": "end the text with the quote that it begins with",
    'Expected "\'"': "end the text with the quote that it begins with",
}
# suffixes of tables of data, which are sometimes given in place of a study file
_OF_TABLES = (".csv", ".tsv", ".txt")
# how messages of tomllib begin if a key or a table occurs twice
_OF_TWICE = ("Cannot overwrite a value", "Cannot declare", "Duplicate inline table key")


def load(
    path: Path, overrides: Sequence[str] = (), overridden_by: str = COMMAND_LINE
) -> StudyConfig:
    """The study that the file at `path` describes; `overrides` are texts `key=value`.

    Errors name `overridden_by`, where the user wrote the overrides.

    Raises:
        StudyError: the file does not exist, or the study is not valid; lists every problem with
        its line.
    """
    try:
        _check_file(path)
        # some editors write a byte order mark first, which TOML does not allow
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = did_you_mean_file(path.with_suffix(".toml"), _toml_files(path.parent), ".toml")
        hint = near or "write its path"
        raise StudyError(Problem(str(path), "", "no such file", hint)) from None
    except (OSError, ValueError) as error:
        raise StudyError(_unreadable(path, f"cannot be read ({error})")) from error
    return parse(text, path, overrides, overridden_by)


def _toml_files(directory: Path) -> list[str]:
    return [file.name for file in directory.glob("*.toml")]


def tables_in(text: str) -> RawTable:
    """The tables of a study file that is known to be TOML, as written."""
    return tomllib.loads(text)


def is_toml(path: Path) -> bool:
    """Whether the file at `path` is readable TOML, even if it is not a study."""
    return _raw(path) is not None


def named_run_dir(path: Path) -> Path | None:
    """The run directory that the study file at `path` names, even if the study is not valid.

    None if the file cannot be read or names none.
    """
    tables = _raw(path) or {}
    results, study = tables.get("results"), tables.get("study")
    if is_table(results) and _is_name(directory := results.get("dir")):
        return Path(directory)
    if is_table(study) and _is_name(name := study.get("name")):
        return Path("runs") / name
    return None


def _raw(path: Path) -> RawTable | None:
    try:
        return tomllib.loads(read_small(path, "utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.isprintable() and bool(value)


def _check_file(path: Path) -> None:
    """Refuse files that cannot be read, or only once, such as a pipe that would block."""
    there = path.stat()
    if stat.S_ISDIR(there.st_mode):
        raise StudyError(_unreadable(path, "cannot be read: it is a directory"))
    if not stat.S_ISREG(there.st_mode):
        raise StudyError(_unreadable(path, "cannot be read: it is a pipe or a device"))
    if there.st_size > _MAX_BYTES:
        raise StudyError(_unreadable(path, "too large for a study file"))


def _unreadable(path: Path, found: str) -> Problem:
    return Problem(str(path), "", found, "name a readable TOML file in UTF-8")


def parse(
    text: str,
    path: Path,
    overrides: Sequence[str] = (),
    overridden_by: str = COMMAND_LINE,
    place: str = "",
) -> StudyConfig:
    """The study that `text` describes; messages name the file `path`, or `overridden_by`.

    `place` is where the settings are if no file has them.

    Raises:
        StudyError: as `load`.
    """
    given = read_overrides(overrides, overridden_by)
    as_texts = tuple(f"{key}={toml_value(value)}" for key, value in given)
    source = Source(path.absolute(), text, as_texts, overridden_by, place=place)
    raw = _toml(source)
    for key, value in given:
        # a setting in the way that is not a table is replaced; validation reports unknown ones
        raw = with_value(raw, key.split("."), value)
    if unreadable := [*beyond_limits(raw), *escaped_paths(raw)]:
        raise StudyError(map(source.problem, unreadable))
    draft = Draft(raw)
    tables = draft.read()
    if flaws := _with_unrecordable(draft.flaws, unrecordable(raw)):
        by_line = sorted(flaws, key=lambda flaw: source.line(flaw.key) or 0)
        ways = (as_typed(with_way(flaw), overrides, overridden_by) for flaw in by_line)
        raise StudyError(dict.fromkeys(map(source.problem, ways)))
    return StudyConfig.of(tables, source)


def _with_unrecordable(flaws: Sequence[Flaw], unrecordable: Iterable[Flaw]) -> list[Flaw]:
    """Both lists together, without a second flaw for a setting that already has one."""
    refused = {flaw.key for flaw in flaws}
    once = {flaw.key: flaw for flaw in unrecordable if not refused & {*keys_around(flaw.key)}}
    return [*flaws, *once.values()]


def _toml(source: Source) -> RawTable:
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    except RecursionError:
        raise StudyError(Problem(source.path.name, "", TOO_DEEP, UNNEST)) from None
    except ValueError:  # Python's own limit on digits
        raise StudyError(_too_long(source)) from None
    place = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message)
    what, line = place.groups() if place else (message, str(source.text.count("\n") + 1))
    where = f"{source.path.name}:{line}"
    if what.startswith(_OF_TWICE) and (twice := given_twice(source.text)):
        key, first, second = twice
        where, found = f"{source.path.name}:{second}", f"already given on line {first}"
        raise StudyError(Problem(where, key, found, "remove one of the two"))
    raise StudyError(Problem(where, "", f"not TOML: {what}", _hint(source, int(line), what)))


def _hint(source: Source, line: int, what: str) -> str:
    """How to fix a line that is not TOML; it may be Python instead."""
    written = source.text.splitlines()[line - 1 : line]
    python = _OF_PYTHON.search(written[0]) if written else None
    if python is not None:
        is_none = python[1] in ("None", "none", "null")
        return "remove it" if is_none else f"write {python[1].lower()}"
    if written and (numbers := number_in_toml(written[0])):
        return f"write {' or '.join(numbers)}"
    if what in _OF_ESCAPES and (path := _WITH_BACKSLASH.search(written[0])):
        return with_slashes(path[1])
    if fix := next((fix for begins, fix in _FIXES.items() if what.startswith(begins)), ""):
        return fix
    if source.path.suffix in _OF_TABLES:
        command = shlex.join(["sweeper", "init", "--data", str(source.path)])
        return f"it is a table: `{command}` writes a study for it"
    if written and written[0].lstrip().startswith("["):
        return "write the name of a table in brackets alone on its line, such as [search]"
    return "write key = value, with text in quotes"


def _too_long(source: Source) -> Problem:
    """The problem of an integer that Python does not read."""
    found = LONG_NUMBER.search(source.text)
    line = source.text.count("\n", 0, found.start()) + 1 if found else 1
    return Problem(f"{source.path.name}:{line}", "", TOO_LONG, SHORTEN)


def study_of(settings: Mapping[str, Any], file: Path, run_dir: RunDir | None = None) -> StudyConfig:
    """The study with these settings; `file` is its study file.

    If it started with rows in memory, they are read from its run directory `run_dir`.

    Raises:
        StudyError: another tool has trained it.
    """
    if not settings:
        found = "it was imported, and has no study file, data or models"
        hint = "use commands that show results, or learn from it: run --learn-from"
        raise StudyError(Problem(str(file), "", found, hint))
    config = parse(study_text(settings), file)
    if run_dir is None or not run_dir.rows.is_file():
        return config
    return config.with_rows(RowsFile(run_dir.rows.absolute()))


def study_text(settings: Mapping[str, Any]) -> str:
    """A study file with these settings."""
    settings = {"edition": 1, **settings}  # not recorded while there was only one
    links = {setting: {"same_as": of} for setting, of in settings.get("same_as", {}).items()}
    search = {**settings["search"], **links}
    written = {k: v for k, v in settings.items() if k != "same_as"} | {"search": search}
    return toml_text(written)
