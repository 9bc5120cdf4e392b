"""Settings given as a mapping in Python: nested tables, dotted keys, or both."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, cast

from sweeper.config.kinds import is_function
from sweeper.config.main_source import MAIN
from sweeper.config.optimizer import has_several
from sweeper.config.reading import RawTable, is_table
from sweeper.config.refusals import keys_around, unknown_setting
from sweeper.config.space import is_entry
from sweeper.config.table import Flaw
from sweeper.config.tables import TABLES, UNDER_NAMES, all_settings
from sweeper.config.toml import MAX_WITHIN, TOO_DEEP, UNNEST
from sweeper.errors import did_you_mean

# settings that may name a user-defined function, which has arguments of its own
_OF_FUNCTIONS = ("function", "name", "program")
# tables that have other settings by their kind, or keys that users choose
_WITH_NAMES = (
    *("study.sampler", "study.pruner", "data.class_weights", "data.args", "optimizer.decay"),
    *("train.losses", "train.phases"),
)
# a rate or schedule, for which schedules of Optax are given
_OF_RATE = re.compile(r"optimizer\.(.+\.)?(lr|schedule)|train\.phases\..+\.lr")
_SCHEDULED = "write a number as lr, and {'name': 'cosine'} or another table as optimizer.schedule"
_TWICE = "given twice", "remove one of the two"
_BY_NAME = {
    "study.sampler": "write its name and options, such as {'name': 'tpe', 'seed': 1}",
    "study.pruner": "write its name and options, such as {'name': 'halving', 'min_resource': 3}",
    "optimizer": "write its name and settings, such as {'name': 'adam', 'lr': 0.001}, or a "
    "function that returns it",
}


def raw_tables(mapping: Mapping[Any, Any]) -> tuple[RawTable, set[str], list[Flaw]]:
    """The tables that a mapping describes, as TOML would have them, what it omits, and its flaws.

    None omits a setting or a table, by its dotted key. Functions and classes become their names.
    """
    raw: RawTable = {}
    omitted: set[str] = set()
    flaws: list[Flaw] = []
    for path, value in _leaves(mapping, (), flaws):
        if value is None:
            omitted.add(".".join(path))
        else:
            flaws += _put(raw, path, value)
    return raw, omitted, flaws


def unknown_omitted(omitted: Iterable[str], raw: RawTable) -> Iterator[Flaw]:
    """The flaws of keys that a mapping omits, as None, though no setting or table has that name."""
    known = dict.fromkeys(around for one in all_settings() for around in keys_around(one))
    others = "search", "version", "edition", "traced_arguments"
    for key in sorted(omitted):
        setting = key.removeprefix("search.")
        if setting not in (*known, *others) and not _may_exist(setting, raw):
            tables = [*TABLES, "search"]
            is_table_name = "." not in key and did_you_mean(key, tables)
            yield unknown_setting(key, setting, tables if is_table_name else [*known])


def _may_exist(key: str, raw: RawTable) -> bool:
    """Whether a key may be a setting, though it is not one of all studies.

    It may be an argument of a user-defined function, a setting of a part, or a name in a table.
    """
    first, *rest = key.split(".")
    table = raw.get(first)
    if first in UNDER_NAMES and is_table(table) and has_several(table):
        return True
    if first in (*UNDER_NAMES, "train") and is_table(table) and _names_function(table):
        return True
    return len(rest) > 1 and f"{first}.{rest[0]}" in _WITH_NAMES


def _names_function(table: RawTable) -> bool:
    return any(isinstance(table.get(name), str) and ":" in table[name] for name in _OF_FUNCTIONS)


def _leaves(
    mapping: Mapping[Any, Any], under: tuple[str, ...], flaws: list[Flaw]
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Each value with its path; adds to `flaws` what TOML cannot represent."""
    if len(under) >= MAX_WITHIN:
        flaws.append(Flaw(".".join(under[:3]), TOO_DEEP, UNNEST))
        return
    for key, value in mapping.items():
        if not isinstance(key, str):
            found = f"the key {key!r} is not a string"
            flaws.append(Flaw(".".join(under), found, "write names of settings as strings"))
            continue
        path = (*under, *(key.split(".") if _holds_settings(under) else (key,)))
        is_mapping = isinstance(value, Mapping)
        inner: Mapping[Any, Any] = cast("Mapping[Any, Any]", value) if is_mapping else {}
        if inner and not _is_entry(path, inner):
            yield from _leaves(inner, path, flaws)
        else:
            plain, wrong = plain_value(".".join(path), cast("object", value))
            flaws += wrong
            if plain is not None or value is None:
                yield path, plain


def _holds_settings(path: tuple[str, ...]) -> bool:
    """Whether keys of this table are those of settings; deeper down they may be names of classes
    or layers, in which a dot is a dot."""
    return len(path) < 2 or path[0] == "search"


def _is_entry(path: tuple[str, ...], value: Mapping[Any, Any]) -> bool:
    return path[0] == "search" and len(path) > 1 and is_entry(dict(value))


def _put(raw: RawTable, path: tuple[str, ...], value: object) -> Iterator[Flaw]:
    *tables, name = path
    for table in tables:
        raw = raw.setdefault(table, {})
        if not is_table(raw):
            yield Flaw(".".join(path), *_TWICE)
            return
    if name in raw:
        yield Flaw(".".join(path), *_TWICE)
    raw[name] = value


def plain_value(key: str, value: object, depth: int = 0) -> tuple[Any, list[Flaw]]:
    """A value as TOML has it, and its flaws; None for a value that is left out."""
    if depth >= MAX_WITHIN:
        return None, [Flaw(key, TOO_DEEP, UNNEST)]
    match value:
        case None | bool():
            return value, []
        case str():
            return str.__str__(value), []  # str() of a member of an enum is its name
        case int():
            return int(value), []
        case float():
            return float(value), []
        case PurePath():
            return str(value), []
        case Mapping():
            table = cast("Mapping[Any, Any]", value)
            flaws = [
                Flaw(key, f"the key {name!r} is not a string", "write names as strings")
                for name in table
                if not isinstance(name, str)
            ]
            read = {
                str(name): plain_value(f"{key}.{name}", one, depth + 1)
                for name, one in table.items()
            }
            flaws += [flaw for _, found in read.values() for flaw in found]
            return {name: one for name, (one, _) in read.items() if one is not None}, flaws
        case list() | tuple() if not hasattr(cast("object", value), "update"):  # as of Optax
            items = [plain_value(key, one, depth + 1) for one in cast("list[object]", value)]
            flaws = [flaw for _, found in items for flaw in found]
            if any(one is None for one in cast("list[object]", value)):
                flaws.append(Flaw(key, "None in an array", "leave it out"))
            return [one for one, _ in items if one is not None], flaws
        case _ if hasattr(value, "tolist") and not isinstance(value, type):
            return plain_value(key, cast("Any", value).tolist(), depth + 1)
        case _ if callable(value) and _OF_RATE.fullmatch(key):
            return None, [Flaw(key, "a function is not supported here", _SCHEDULED)]
        case _ if callable(value):
            return _name_of(key, value)
        case _:
            found = f"{type(value).__name__} is not a type of settings"
            return None, [Flaw(key, found, _hint_for(key, value))]


_ENTRY = {"type": "float", "low": 1e-4, "high": 1e-2, "log": True}
_OF_ENTRIES = ("type", "low", "high", "step", "log", "base", "choices", "name", "when", "or")


def _hint_for(key: str, value: object) -> str:
    """What to write instead of an object that no setting has."""
    parts = key.split(".")
    if parts[0] == "search" and parts[-1] not in _OF_ENTRIES:
        return f"write an entry, such as {_entry_like(value) or _ENTRY}"
    table = key.removesuffix(".name")
    if isinstance(value, tuple) and parts[0] == "optimizer":  # the functions of Optax
        table = "optimizer"
    return _BY_NAME.get(table, "write a number, text, true or false, an array, or a table of these")


def _entry_like(distribution: object) -> dict[str, Any]:
    """An entry of [search] like a distribution of Optuna; empty for other values."""
    choices = getattr(distribution, "choices", None)
    if isinstance(choices, list | tuple):
        return {"type": "categorical", "choices": [*cast("list[Any]", choices)]}
    names = ("low", "high", "log", "step")
    low, high, log, step = (getattr(distribution, name, None) for name in names)
    if not (isinstance(low, int | float) and isinstance(high, int | float)):
        return {}
    kind = "float" if isinstance(low, float) else "int"
    if log:
        return {"type": kind, "low": low, "high": high, "log": True}
    stepped = {} if step is None or (kind == "int" and step == 1) else {"step": step}
    return {"type": kind, "low": low, "high": high, **stepped}


def _name_of(key: str, function: object) -> tuple[str | None, list[Flaw]]:
    """The name `module:function` of a function or class, and why it cannot be found by it."""
    name = getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        found = f"{type(function).__name__} has no name by which worker processes could find it"
        return None, [Flaw(key, found, "define a function with def, and pass that")]
    if name == "<lambda>":
        found = "a lambda has no name by which worker processes could find it"
        return None, [Flaw(key, found, "define a function with def, and pass that")]
    there = getattr(sys.modules.get(module), name, None)
    inner = getattr(function, "__qualname__", name)
    if there is not function and callable(there) and inner == name:
        again = "run the cell or code with the settings again"
        again = again if module == MAIN else "import it again, and write the settings again"
        return None, [Flaw(key, f"'{name}' has been defined again in '{module}' since", again)]
    if there is not function or not is_function(f"{module}:{name}"):
        found = f"'{inner}' cannot be found by its name in the module '{module}'"
        return None, [Flaw(key, found, "define it at the top level of a module or notebook")]
    return f"{module}:{name}", []
