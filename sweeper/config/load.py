"""Reads a study file and `--set` into a `StudyConfig`, or reports everything that is wrong."""

from __future__ import annotations

import re
import shlex
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, cast

from sweeper.config.mapping import plain_value
from sweeper.config.reading import RawTable, is_table, with_value
from sweeper.config.refusals import keys_around, with_way
from sweeper.config.space import is_entry
from sweeper.config.study_config import RowsFile, StudyConfig
from sweeper.config.table import Flaw
from sweeper.config.tables import TABLES, UNDER_NAMES, all_settings
from sweeper.config.toml import (
    COMMAND_LINE,
    IN_PYTHON,
    MAX_WITHIN,
    PATHS,
    SHORTEN,
    TOO_DEEP,
    TOO_LONG,
    UNNEST,
    Source,
    beyond_limits,
    escaped_paths,
    given_twice,
    toml_text,
    toml_value,
    unrecordable,
    with_slashes,
)
from sweeper.config.validate import Draft
from sweeper.errors import Problem, StudyError, did_you_mean_file
from sweeper.rundir import RunDir, read_small

_BRACKETS = re.compile(r"[\[{]")
# tables whose keys name tables, and those whose keys name layers
_BY_NAME = ("train.losses", "train.phases")
_BY_LAYER = ("optimizer.decay",)
_OF_ENTRIES = ("type", "same_as")  # one of them is in each entry of a search


def read_overrides(texts: Sequence[str], given_by: str = COMMAND_LINE) -> list[tuple[str, object]]:
    """The values by key in texts such as `key=value`; each is TOML, or else a plain string.

    Errors name `given_by`, where the user wrote them.

    Raises:
        StudyError: a text has no key or no value, or a value is nested too deeply.
    """
    problems = [
        Problem(given_by, text, "not of the form key=value", "write e.g. train.epochs=5")
        for text in texts
        if not all(_halves(text))
    ]
    problems += [
        Problem(given_by, key, TOO_DEEP, UNNEST)
        for key, _ in map(_halves, texts)
        if key.count(".") >= MAX_WITHIN
    ]
    problems += [
        Problem(given_by, key, f"{value} is not TOML", _quoted(key, value, given_by))
        for key, value in map(_halves, texts)
        if value.startswith(("[", "{")) and key not in _TEXTS and not _is_value(value)
    ]
    if problems:
        raise StudyError(problems)
    try:
        return [(key, _value(value)) for key, value in map(_halves, texts)]
    except RecursionError:
        deepest = max(map(_halves, texts), key=lambda halves: len(_BRACKETS.findall(halves[1])))[0]
        raise StudyError(Problem(given_by, deepest, TOO_DEEP, UNNEST)) from None


def override_texts(overrides: str | Sequence[str] | Mapping[str, Any]) -> Sequence[str]:
    """Overrides as texts `key=value`: one text, several, or values by dotted key or by table.

    Raises:
        StudyError: they are something else, or a value is None or not a type of settings.
    """
    if isinstance(overrides, str):
        return [overrides]
    if isinstance(overrides, Mapping):
        return [f"{key}={toml_value(value)}" for key, value in _plain_settings(overrides)]
    given: Any = overrides
    texts: list[Any] = [*given] if isinstance(given, Iterable) else [given]
    if wrong := [one for one in texts if not isinstance(one, str)]:
        found = f"{wrong[0]!r} is not text of the form key=value"
        hint = 'pass "train.epochs=5", a list of such texts, or a dict of values by key'
        raise StudyError(Problem("", IN_PYTHON, found, hint))
    return texts


def _plain_settings(overrides: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Each setting with its value as TOML has it.

    Raises:
        StudyError: with all values that TOML lacks.
    """
    settings = [*_by_setting(overrides)]
    hint = "pass a value, or remove the setting from the study"
    if empty := [key for pair in settings for key in _keys_of_none(*pair)]:
        raise StudyError(Problem(IN_PYTHON, key, "None is not a value", hint) for key in empty)
    read = [(key, *plain_value(key, value)) for key, value in settings]
    if flaws := [flaw for _, _, found in read for flaw in found]:
        raise StudyError(Problem(IN_PYTHON, one.key, one.found, one.hint) for one in flaws)
    return [(key, value) for key, value, _ in read]


def _by_setting(overrides: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting with its value; `{"study": {...}}` changes these settings of the table."""
    for name, value in overrides.items():
        key = f"{under}.{name}" if under else str(name)
        table = cast("dict[str, Any]", {**value}) if isinstance(value, Mapping) else {}
        if isinstance(value, Mapping) and _has_settings(key, table):
            yield from _by_setting(table, key)
        else:
            yield key, value


def _has_settings(key: str, table: RawTable) -> bool:
    """Whether a table changes settings one by one, rather than being the value of one.

    A table that says its name or kind, such as `study.pruner`, is a value as a whole, and so is an
    entry of a search that says its type. Those under names of users, such as parts, are not.
    """
    first, *rest = key.split(".")
    if not rest:
        return first in (*TABLES, "search")
    if first == "search":
        return not is_entry(table) or (bool(table) and table.keys().isdisjoint(_OF_ENTRIES))
    if not table or key in _BY_LAYER or any("." in str(name) for name in table):
        return False
    around = key.rpartition(".")[0]
    is_part = around in UNDER_NAMES and key not in all_settings()
    if is_part or not {key, around}.isdisjoint(_BY_NAME):
        return True
    is_kind = not {"name", "kind"}.isdisjoint(table)
    return not is_kind and any(one.startswith(f"{key}.") for one in all_settings())


def _keys_of_none(key: str, value: object) -> Iterator[str]:
    """The dotted keys of None in a value, also inside its tables and arrays."""
    if value is None:
        yield key
    elif isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        for name, inner in table.items():
            yield from _keys_of_none(f"{key}.{name}", inner)
    elif isinstance(value, list | tuple):
        array = cast("Sequence[object]", value)
        yield from dict.fromkeys(found for item in array for found in _keys_of_none(key, item))


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


def _halves(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.strip(), value.strip()


def _is_value(text: str) -> bool:
    """Whether a text is a value of TOML; one that is nested too deeply is reported elsewhere."""
    try:
        return len(tomllib.loads(f"value = {text}")) == 1
    except RecursionError:
        return True
    except ValueError:  # not TOML, or a number with more digits than Python reads
        return bool(_LONG_NUMBER.search(text))


# words that are neither in quotes nor keys, numbers, or true and false
_WORD = re.compile(r"""("[^"]*"|'[^']*')|(?<![\w.:+-])([A-Za-z_][\w.:/-]*)(?!\s*=)(?![\w.:/-])""")
_OF_TOML = {
    **{name: name for name in ("true", "false", "inf", "nan")},
    "True": "true",
    "False": "false",
}
# settings whose text may begin with a bracket
_TEXTS = (
    *PATHS,
    *("data.target", "data.weight", "data.mode", "data.x", "data.y"),
    *("data.split.group", "data.split.time", "execution.engine.address"),
)


def _quoted(key: str, value: str, given_by: str) -> str:
    """How to write an array or a table on a command line, whose shell removes quotes."""
    quoted = _WORD.sub(lambda found: found[1] or _OF_TOML.get(found[2], f'"{found[2]}"'), value)
    begin = "write"
    if not _is_value(quoted) or "'" in quoted:
        begin, quoted = "write e.g.", '["a", "b"]' if value.startswith("[") else '{name = "a"}'
    if given_by != COMMAND_LINE:
        return f"{begin} '{key}={quoted}', with text in quotes"
    both = "text in double quotes, and the whole in single ones"
    return f"{begin} {given_by} '{key}={quoted}', with {both}"


def _value(text: str) -> object:
    try:
        read = tomllib.loads(f"value = {text}")
    except ValueError:  # not TOML, or a number with more digits than Python reads
        return text
    return read["value"] if len(read) == 1 else text


_MAX_BYTES = 10_000_000  # a larger file is probably a table of data
_LONG_NUMBER = re.compile(r"[0-9_]{1000}")  # Python does not read integers with this many digits
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
    overridden = tuple(key for key, _ in given)
    source = Source(path.absolute(), text, overridden, overridden_by, place=place)
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
        raise StudyError(dict.fromkeys(source.problem(with_way(flaw)) for flaw in by_line))
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
    found = _LONG_NUMBER.search(source.text)
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
