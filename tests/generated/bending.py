"""Studies with the operations that break them: which tables and settings they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from sweeper.config.json_schema import kinds_of
from sweeper.config.optimizer import UserOptimizerTable
from sweeper.config.table import Table
from sweeper.config.tables import TABLES, Variants
from tests.generated.frames import Draw, Study
from tests.generated.searches import Entry
from tests.generated.values import form_of


def table_at(study: Study, key: str) -> Study:
    """The table at a dotted key, created if it does not exist."""
    for name in key.split("."):
        study = study.setdefault(name, {})
    return study


def put(study: Study, key: str, value: Any) -> Study:
    """The study with a different value at a dotted key; searched settings stay."""
    table, _, name = key.rpartition(".")
    (table_at(study, table) if table else study)[name] = value
    return study


def tables_of(study: Study) -> Iterator[tuple[str, type[Table]]]:
    """The tables of the file that have a fixed form, each with its reader."""
    for name in (*("study", "data", "model", "optimizer", "train"), "schedule", "execution"):
        if name in study or name in ("schedule", "execution"):
            kind = kind_of(study, name)
            yield name, kind


def kind_of(study: Study, name: str) -> type[Table]:
    """The reader of a table of the study."""
    kinds, variants = kinds_of(name), TABLES[name]
    if not isinstance(variants, Variants):
        return kinds[0]
    by = variants.by
    if by in study.get("search", {}).get(name, {}):
        return kinds[-1]
    chosen = study.get(name, {}).get(by, variants.default)
    for kind in kinds:
        form = form_of(kind)["properties"][by]
        if chosen in (form.get("const"), *form.get("enum", ())):
            return kind
    return UserOptimizerTable


def is_searched(study: Study, key: str) -> bool:
    table: Any = study.get("search", {})
    for name in key.split("."):
        table = table.get(name, {}) if isinstance(table, Mapping) else {}
    return bool(table)


def leaves(study: Study) -> list[tuple[str, Mapping[str, Any]]]:
    """The settings that are written and whose form is known, with their forms."""
    found = []
    for name, kind in tables_of(study):
        found += _leaves(study.get(name, {}), form_of(kind), name)
    return [(key, form) for key, form in found if not is_searched(study, key)]


def _leaves(
    table: Mapping[str, Any], form: Mapping[str, Any], under: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, inner in form["properties"].items():
        if name in table:
            if "properties" in inner and isinstance(table[name], Mapping):
                yield from _leaves(table[name], inner, f"{under}.{name}")
            elif "properties" not in inner:
                yield f"{under}.{name}", inner


def pick(draw: Draw, items: list[Any]) -> Any:
    assume(items)
    return draw(st.sampled_from(items))


def entries(study: Study) -> Iterator[tuple[str, Entry]]:
    """The entries of `[search]` by dotted setting."""
    return _entries(study.get("search", {}), "")


def _entries(table: Mapping[str, Any], under: str) -> Iterator[tuple[str, Entry]]:
    for name, value in table.items():
        key = f"{under}.{name}".strip(".")
        if any(word in value and not isinstance(value[word], dict) for word in ("type", "same_as")):
            yield key, value
        else:
            yield from _entries(value, key)


def entry_for(study: Study, key: str, entry: Any) -> Study:
    """The study with an entry for a setting that nothing else in it depends on."""
    every = dict(entries(study))
    leaning = [one for one, other in every.items() if key in _named_in(other)]
    assume(not leaning and "enqueue" not in study["study"])
    columns = [one.get("name", other.rpartition(".")[2]) for other, one in every.items()]
    assume(key in every or key.rpartition(".")[2] not in columns)
    return put(study, f"search.{key}", entry)


def _named_in(entry: Any) -> tuple[str, ...]:
    return (*entry.get("when", ()), entry.get("same_as", ""))
