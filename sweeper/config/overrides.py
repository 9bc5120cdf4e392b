"""Reads settings that override those of a study file: texts `key=value`, or values in Python."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from sweeper.config.mapping import plain_value
from sweeper.config.reading import RawTable
from sweeper.config.space import is_entry
from sweeper.config.table import Flaw
from sweeper.config.tables import TABLES, UNDER_NAMES, all_settings
from sweeper.config.toml import (
    COMMAND_LINE,
    IN_PYTHON,
    MAX_WITHIN,
    PATHS,
    TOO_DEEP,
    UNNEST,
    number_in_toml,
    split_override,
    toml_value,
)
from sweeper.errors import Problem, ProblemKind, StudyError

LONG_NUMBER = re.compile(r"[0-9_]{1000}")  # Python does not read integers with this many digits
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
        if not all(split_override(text))
    ]
    problems += [
        Problem(given_by, key, TOO_DEEP, UNNEST)
        for key, _ in map(split_override, texts)
        if key.count(".") >= MAX_WITHIN
    ]
    problems += [
        Problem(given_by, key, f"{value} is not TOML", _quoted(key, value, given_by))
        for key, value in map(split_override, texts)
        if value.startswith(("[", "{")) and key not in _TEXTS and not _is_value(value)
    ]
    if problems:
        raise StudyError(problems)
    try:
        return [(key, _value(value)) for key, value in map(split_override, texts)]
    except RecursionError:
        halves = map(split_override, texts)
        deepest, _ = max(halves, key=lambda pair: len(_BRACKETS.findall(pair[1])))
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
    is_several = isinstance(given, Iterable) and not isinstance(given, bytes | bytearray)
    texts: list[Any] = [*given] if is_several else [given]
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
        raise StudyError(flaw.at(IN_PYTHON) for flaw in flaws)
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
    entry of a search that says its type.
    """
    first, *rest = key.split(".")
    if not rest:
        return first in (*TABLES, "search")
    if first == "search":
        return not is_entry(table) or (bool(table) and table.keys().isdisjoint(_OF_ENTRIES))
    is_kind = not {"name", "kind"}.isdisjoint(table)
    if not table or is_kind or key in _BY_LAYER or any("." in str(name) for name in table):
        return False
    around = key.rpartition(".")[0]
    is_part = around in UNDER_NAMES and key not in all_settings()
    is_named = not {key, around}.isdisjoint(_BY_NAME)
    return is_part or is_named or any(one.startswith(f"{key}.") for one in all_settings())


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


def _is_value(text: str) -> bool:
    """Whether a text is a value of TOML; one that is nested too deeply is reported elsewhere."""
    try:
        return len(tomllib.loads(f"value = {text}")) == 1
    except RecursionError:
        return True
    except ValueError:  # not TOML, or a number with more digits than Python reads
        return bool(LONG_NUMBER.search(text))


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
    *("data.weight", "data.mode", "data.x", "data.y"),
    *("data.split.group", "data.split.time", "data.split.column", "execution.engine.address"),
)


def _quoted(key: str, value: str, given_by: str) -> str:
    """How to write an array or a table on a command line, whose shell removes quotes."""
    if numbers := number_in_toml(f"={value}"):
        return f"write {' or '.join(numbers)}"
    quoted = _WORD.sub(lambda found: found[1] or _OF_TOML.get(found[2], f'"{found[2]}"'), value)
    begin = "write"
    if not _is_value(quoted) or "'" in quoted:
        begin, quoted = "write e.g.", '["a", "b"]' if value.startswith("[") else '{name = "a"}'
    if given_by != COMMAND_LINE:
        return f"{begin} '{key}={quoted}', with text in quotes"
    both = "text in double quotes, and the whole in single ones"
    return f"{begin} {given_by} '{key}={quoted}', with {both}"


def as_typed(flaw: Flaw, overrides: Sequence[str], given_by: str = COMMAND_LINE) -> Flaw:
    """The flaw, with a hint if an override was read as a value of another type.

    A shell removes the outer quotes, and 2024 without quotes is a number, but .5 is text.
    """
    text = dict(map(split_override, overrides)).get(flaw.key, "[")
    numbers = number_in_toml(f"={text}")
    if flaw.kind is ProblemKind.NOT_AN_INTEGER:
        numbers = tuple(one for one in numbers if one.lstrip("+-").isdigit())
    if numbers and flaw.kind in (ProblemKind.NOT_A_NUMBER, ProblemKind.NOT_AN_INTEGER):
        return replace(flaw, hint=f"write {' or '.join(numbers)}")
    is_in_shell = given_by == COMMAND_LINE
    if flaw.kind is not ProblemKind.NOT_TEXT or not is_in_shell or text.startswith(("[", "{")):
        return flaw
    both = "with text in double quotes, and the whole in single ones"
    return replace(flaw, hint=f"write {COMMAND_LINE} '{flaw.key}={toml_value(text)}', {both}")


def _value(text: str) -> object:
    try:
        read = tomllib.loads(f"value = {text}")
    except ValueError:  # not TOML, or a number with more digits than Python reads
        return text
    return read["value"] if len(read) == 1 else text
