"""`--set key=value`: settings given on the command line instead of in the study file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweeper.config.limits import MOST_WITHIN, TOO_DEEP, UNNEST
from sweeper.config.reading import RawTable, is_table
from sweeper.config.toml import COMMAND_LINE
from sweeper.errors import Problem, StudyError

_BRACKETS = re.compile(r"[\[{]")


@dataclass(frozen=True, slots=True)
class Override:
    """One setting given instead of the file's."""

    key: str
    value: object


def read_overrides(texts: Sequence[str]) -> tuple[Override, ...]:
    """What `texts` of the form `key=value` ask for; values are TOML, else the text itself.

    Raises:
        StudyError: a text has no key or no value, or a value is nested too deeply to be read.
    """
    problems = [_malformed(text) for text in texts if not all(_halves(text))]
    problems += [
        Problem(COMMAND_LINE, key, TOO_DEEP, UNNEST)
        for key, _ in map(_halves, texts)
        if key.count(".") >= MOST_WITHIN
    ]
    if problems:
        raise StudyError(problems)
    try:
        return tuple(Override(key, _value(value)) for key, value in map(_halves, texts))
    except RecursionError:
        deepest = max(map(_halves, texts), key=lambda halves: len(_BRACKETS.findall(halves[1])))[0]
        raise StudyError(Problem(COMMAND_LINE, deepest, TOO_DEEP, UNNEST)) from None


def overridden(raw: RawTable, overrides: Iterable[Override]) -> RawTable:
    """The tables of `raw` with the overrides in place; what they do not touch is shared."""
    for override in overrides:
        raw = _put(raw, override.key.split("."), override.value)
    return raw


def _put(raw: RawTable, path: Sequence[str], value: object) -> RawTable:
    name, *rest = path
    if not rest:
        return {**raw, name: value}
    inner = raw.get(name)
    # a setting that is no table gives way, and validation names what is then unknown
    return {**raw, name: _put(inner if is_table(inner) else {}, rest, value)}


def _halves(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key.strip(), value.strip()


def _value(text: str) -> object:
    try:
        read = tomllib.loads(f"value = {text}")
    except ValueError:  # no TOML, or a number of more digits than Python reads
        return text
    return read["value"] if len(read) == 1 else text


def _malformed(text: str) -> Problem:
    return Problem(COMMAND_LINE, text, "not of the form key=value", "write e.g. train.epochs=5")
