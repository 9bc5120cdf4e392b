"""From the text of a study file to a `StudyConfig`, or to everything that is wrong in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from sweeper.config.draft import Draft
from sweeper.config.overrides import TOO_DEEP, UNNEST, overridden, read_overrides
from sweeper.config.reading import RawTable
from sweeper.config.source import Source, given_twice
from sweeper.config.study_config import StudyConfig
from sweeper.errors import Problem, StudyError

# how tomllib begins to say that a key or a table stands there twice
_OF_TWICE = ("Cannot overwrite a value", "Cannot declare", "Duplicate inline table key")


def load(path: Path, overrides: Sequence[str] = ()) -> StudyConfig:
    """The study that the file at `path` describes; `overrides` are texts `key=value`.

    Raises:
        StudyError: there is no such file, or the study cannot be run as it stands; it names
            every problem with its line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StudyError(Problem(str(path), "", "no such file", "write its path")) from None
    except (OSError, UnicodeDecodeError) as error:
        mend = "name a readable TOML file in UTF-8"
        raise StudyError(Problem(str(path), "", f"cannot be read ({error})", mend)) from error
    return parse(text, path, overrides)


def parse(text: str, path: Path, overrides: Sequence[str] = ()) -> StudyConfig:
    """The study that `text` describes; `path` is the file that messages name.

    Raises:
        StudyError: as `load`.
    """
    given = read_overrides(overrides)
    source = Source(path, text, tuple(override.key for override in given))
    draft = Draft(overridden(_toml(source), given))
    tables = draft.read()
    if draft.faults:
        by_line = sorted(draft.faults, key=lambda fault: source.line(fault.key) or 0)
        raise StudyError(source.problem(fault) for fault in by_line)
    return StudyConfig.of(tables, source)


def _toml(source: Source) -> RawTable:
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
    except RecursionError:
        raise StudyError(Problem(source.path.name, "", TOO_DEEP, UNNEST)) from None
    place = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message)
    what, line = place.groups() if place else (message, str(source.text.count("\n") + 1))
    where = f"{source.path.name}:{line}"
    if what.startswith(_OF_TWICE) and (twice := given_twice(source.text)):
        where = f"{source.path.name}:{twice.second}"
        found = f"given twice, on line {twice.first} already"
        raise StudyError(Problem(where, twice.key, found, "remove one of the two"))
    raise StudyError(Problem(where, "", f"not TOML: {what}", "write key = value, text in quotes"))
