"""Turns pydantic's errors into messages of this package: what was found and what to write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, time
from difflib import get_close_matches
from itertools import zip_longest

from pydantic_core import ErrorDetails, PydanticCustomError

from sweeper.config.table import Flaw

MISSING = "missing"
_MAX_LETTERS = 80  # of quoted text in a message

# what was found, what to write; {value} is shown as in TOML, other names are pydantic's context
_WORDS = {
    "missing": (MISSING, "write {name} = ..."),
    "int_type": ("{value} is not an integer", "write an integer"),
    "float_type": ("{value} is not a number", "write a number"),
    "bool_type": ("{value} is not true or false", "write true or false"),
    "string_type": ("{value} is not text", "write text in quotes"),
    "tuple_type": ("{value} is not an array", "write an array, [...]"),
    "model_type": ("{value} is not a table", "write a table"),
    "too_short": ("{value} is empty", "write {min_length} or more"),
    "greater_than": ("{value} is too small", "write a number above {gt}"),
    "greater_than_equal": ("{value} is too small", "write {ge} or more"),
    "less_than": ("{value} is too large", "write a number below {lt}"),
    "less_than_equal": ("{value} is too large", "write {le} or less"),
    "finite_number": ("{value} is not a finite number", "write a finite number"),
    "string_too_short": ("the text is empty", "write some text"),
    "string_too_long": ("the text is too long", "write {max_length} characters or fewer"),
    "string_pattern_mismatch": (
        "{value} cannot name a directory or a column",
        "write letters, digits and '_' only",
    ),
}

# settings of other tables, and what they are called for arrays with names
_OTHER_NAMES = {"target": "y", "features": "x"}
# what to call a value of a setting, if not by the name of the setting
_NOUNS = {"metrics": "metric", "source": "data source"}


def refusal(found: str, hint: str) -> PydanticCustomError:
    """The error of a value that a setting does not take; "{value}" in `found` stands for it."""
    return PydanticCustomError("refused", "refused", {"found": found, "hint": hint})


def fault_of(error: ErrorDetails, under: str, known: Sequence[str] = ()) -> Flaw:
    """The flaw that pydantic found in the table `under`; `known` are settings to suggest."""
    key = ".".join([under, *_path(error["loc"])])
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            setting = [under, *(name for name in error["loc"] if isinstance(name, str))]
            return unknown_setting(key, ".".join(setting), known)
        case "literal_error":
            options = str(context["expected"]).replace(" or ", ", ").replace("'", "")
            return unknown_name(key, error["input"], options)
        case "refused":
            found = context["found"].replace("{value}", format_value(error["input"]))
            return Flaw(key, found, context["hint"])
        case "one_of":
            return unknown_name(key, error["input"], context["options"])
        case kind if kind in _WORDS:
            found, hint = _WORDS[kind]
            words = {
                **context,
                "value": format_value(error["input"]),
                "name": key.rpartition(".")[2],
            }
            return Flaw(key, found.format(**words), hint.format(**words))
        case _:
            return Flaw(key, f"{format_value(error['input'])} is not allowed", error["msg"])


def _path(loc: Sequence[str | int]) -> Iterator[str]:
    """The keys of a location; indices only for tables in arrays."""
    for part, inner in zip_longest(loc, loc[1:]):
        if isinstance(part, str) or isinstance(inner, str):
            yield str(part)


def unknown_setting(key: str, setting: str, known: Sequence[str]) -> Flaw:
    """The flaw of naming a `setting` that does not exist, at `key`."""
    near = _nearest(setting, known)
    if near:
        return Flaw(key, "no such setting", f"did you mean '{near}'?")
    table = setting.rpartition(".")[0]
    there = ", ".join(_last(one) for one in known if one.rpartition(".")[0] == table)
    listed = f"[{table}] has {there}" if there and table else f"there are {', '.join(known)}"
    return Flaw(key, "no such setting", listed)


def unknown_name(key: str, value: object, options: str, noun: str | None = None) -> Flaw:
    """The flaw of a name at `key` that is not one of `options`, which are names of a `noun`."""
    found = f"no {noun or _noun(key)} {format_value(value)}"
    # a form such as "module:function" is not a name to suggest
    by_lower = {name.lower(): name for name in options.split(", ") if '"' not in name}
    if isinstance(value, str) and (near := get_close_matches(value.lower(), by_lower, n=1)):
        return Flaw(key, found, f"did you mean '{by_lower[near[0]]}'?")
    return Flaw(key, found, f"write one of {options}")


def format_value(value: object) -> str:
    """A TOML value, formatted for messages."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float() | date() | time():
            return str(value)
        case str():
            return f"'{value if len(value) <= _MAX_LETTERS else value[:_MAX_LETTERS] + ' ...'}'"
        case dict():
            return "a table"
        case _:
            return "an array"


def _noun(key: str) -> str:
    """What the value at `key` names: `study.sampler.name` names a sampler."""
    parent, _, last = key.rpartition(".")
    if parent.startswith("train.losses."):
        return "loss"
    return _last(parent) if last in {"name", "kind"} else _NOUNS.get(last, last.replace("_", " "))


def _nearest(setting: str, known: Sequence[str]) -> str | None:
    """The setting that was probably meant, first in the same table, then elsewhere."""
    table, _, name = setting.rpartition(".")
    siblings = {_last(one): one for one in known if one.rpartition(".")[0] == table}
    if (other := _OTHER_NAMES.get(name)) in siblings:
        return siblings[other]
    for close in get_close_matches(name, siblings, n=1):
        return siblings[close]
    namesakes = [one for one in known if _last(one) == name]
    return next(iter(namesakes or get_close_matches(setting, known, n=1, cutoff=0.8)), None)


def _last(key: str) -> str:
    return key.rpartition(".")[2]
