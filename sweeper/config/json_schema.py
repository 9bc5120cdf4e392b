"""The JSON Schema of a study file, for editors, generated from the tables that read it.

It checks less than `load`: settings that may be searched are never required, and rules between
several settings are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sweeper.config.reading import named_in
from sweeper.config.search import SameAs
from sweeper.config.space import ENTRIES, SEARCHED_TABLES, types_for
from sweeper.config.study import EDITION
from sweeper.config.table import Table, is_fixed, table_in
from sweeper.config.tables import TABLES, UNDER_NAMES, Variants

Schema = dict[str, Any]

_LEFT_OUT = ("title", "$ref", "$defs")
_OF_A_SCHEMA = ("items", "additionalProperties")


@cache
def plain(kind: type[Table]) -> Schema:
    """Pydantic's schema of a table, with all references resolved."""
    schema = kind.model_json_schema()
    return _tidy(schema, schema.get("$defs", {}))


def _tidy(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    """The schema without titles, references and nulls, which TOML does not have."""
    schema = _resolved(schema, known)
    not_null = [inner for inner in schema.get("anyOf", ()) if inner.get("type") != "null"]
    if len(not_null) == 1:
        rest = {key: schema[key] for key in schema if key != "anyOf"}
        schema = {**_resolved(not_null[0], known), **rest}
    left_out = [*_LEFT_OUT] if schema.get("default") is not None else [*_LEFT_OUT, "default"]
    return {
        key: _tidy_value(key, value, known) for key, value in schema.items() if key not in left_out
    }


def _resolved(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    """`schema` with its reference resolved."""
    if "$ref" not in schema:
        return schema
    return {**known[schema["$ref"].rpartition("/")[2]], **schema}


def _tidy_value(key: str, value: Any, known: Mapping[str, Schema]) -> Any:
    """The value of a keyword, with schemas in it tidied."""
    if key == "properties":
        return {name: _tidy(inner, known) for name, inner in value.items()}
    if key == "anyOf":
        return [_tidy(inner, known) for inner in value]
    return _tidy(value, known) if key in _OF_A_SCHEMA and not isinstance(value, bool) else value


def any_of(schemas: Iterable[Schema]) -> Schema:
    """A schema that accepts whatever one of `schemas` accepts."""
    different: list[Schema] = []
    for schema in schemas:
        if schema not in different:
            different.append(schema)
    return different[0] if len(different) == 1 else {"anyOf": different}


DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SCALARS: tuple[Schema, ...] = ({"type": "string"}, {"type": "number"}, {"type": "boolean"})
_VERSION: Schema = {"const": 1, "description": "version of the file format"}
_EDITION: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": EDITION,
    "description": "version of the rules that the study began with; written by sweeper",
}
_TRACED: Schema = {
    "type": "array",
    "items": {"type": "string"},
    "description": "searched floats of user-defined models that programs get at run time; written "
    "by sweeper",
}


def study_schema() -> Schema:
    """The JSON Schema of a study file."""
    tables = {name: _table(name) for name in TABLES}
    needed = [
        name
        for name in TABLES
        if name != "trial" and all(_form(name, kind).get("required") for kind in _written(name))
    ]
    return {
        "$schema": DIALECT,
        "title": "A study file of sweeper",
        "type": "object",
        "properties": {
            "version": _VERSION,
            "edition": _EDITION,
            "traced_arguments": _TRACED,
            **tables,
            "search": _search(),
        },
        "required": ["version", *needed],
        "additionalProperties": False,
        "allOf": [*_unless_searched(), *_unless_user_defined()],
    }


def kinds_of(name: str) -> tuple[type[Table], ...]:
    """The possible types of a table of a study file; the last is for a searched kind."""
    kind = TABLES[name]
    mixed = kind.mixed if isinstance(kind, Variants) else None
    return _written(name) if mixed is None else (*_written(name), mixed)


def _written(name: str) -> tuple[type[Table], ...]:
    """The types of a table whose kind is written, not searched."""
    kind = TABLES[name]
    if not isinstance(kind, Variants):
        return (kind,)
    return (*kind.of.values(), *(() if kind.user_defined is None else (kind.user_defined,)))


def _table(name: str) -> Schema:
    """The schema of a table, split by its kind where that is usual, for better completion."""
    kind = TABLES[name]
    if not isinstance(kind, Variants) or kind.default is None or kind.mixed is not None:
        return any_of(_forms(name, kinds_of(name)))
    schema = _form(name, kind.of[kind.default])
    for value, table in kind.of.items():
        if value != kind.default:
            condition = {"properties": {kind.by: {"const": value}}, "required": [kind.by]}
            schema = {"if": condition, "then": _form(name, table), "else": schema}
    if kind.user_defined is not None:
        condition = _within(kind.by, plain(kind.user_defined)["properties"][kind.by])
        schema = {"if": condition, "then": _form(name, kind.user_defined), "else": schema}
    return {"type": "object", **schema}


def _forms(name: str, kinds: Iterable[type[Table]]) -> Iterator[Schema]:
    """The schemas of a table of these types, and of one that holds such tables by name."""
    yield from (_form(name, kind) for kind in kinds)
    if name in UNDER_NAMES:
        yield {
            "type": "object",
            "additionalProperties": any_of(_form(name, kind) for kind in UNDER_NAMES[name]),
            "minProperties": 1,
        }


def _form(name: str, kind: type[Table]) -> Schema:
    """The schema of a table; settings that `[search]` may provide are not required."""
    if name not in SEARCHED_TABLES:
        return plain(kind)
    variants = TABLES[name]
    by = variants.by if isinstance(variants, Variants) and kind is variants.mixed else None
    return _searchable(kind, plain(kind), by)


def _searchable(kind: type[Table], schema: Schema, by: str | None = None) -> Schema:
    """The schema of a table that only requires settings that cannot be searched."""
    properties = dict(schema["properties"])
    for setting, field in kind.model_fields.items():
        table, each = table_in(field.annotation), named_in(field.annotation)
        if table is not None:
            properties[setting] = _searchable(table, properties[setting])
        elif each is not None:
            one = _searchable(each, properties[setting]["additionalProperties"])
            properties[setting] = {**properties[setting], "additionalProperties": one}
    required = [key for key in schema.get("required", ()) if is_fixed(kind, key) and key != by]
    rest = {key: value for key, value in schema.items() if key != "required"}
    return {**rest, "properties": properties, **({"required": required} if required else {})}


def _unless_searched() -> Iterator[Schema]:
    """A rule: a table has settings of several kinds only if its kind is searched."""
    for name, kind in TABLES.items():
        if isinstance(kind, Variants) and kind.mixed is not None:
            searched = _within("search", _within(name, {"required": [kind.by]}))
            only = any_of(_forms(name, _written(name)))
            yield {
                "if": searched,
                "then": {"properties": {name: _form(name, kind.mixed)}},
                "else": {"properties": {name: only}},
            }


def _unless_user_defined() -> Iterator[Schema]:
    """A rule: unknown keys are searched only if a user-defined function gets them."""
    for name, kind in TABLES.items():
        if name not in SEARCHED_TABLES or not isinstance(kind, Variants):
            continue
        own = [
            _within(name, _within(kind.by, plain(one)["properties"][kind.by]))
            for one in _written(name)
            if _is_open(one)
        ]
        if kind.mixed is not None and _is_open(kind.mixed):
            own.append(_within("search", _within(name, {"required": [kind.by]})))
        if own:
            yield {"if": any_of(own), "else": _only_known(name)}


def _only_known(name: str) -> Schema:
    """A schema for files that search only known settings of a table, apart from named parts."""

    def searched(other_keys: Sequence[Schema]) -> Schema:
        known = _search()["properties"][name] | _for_other_keys(other_keys)
        return {"properties": {"search": {"properties": {name: known}}}}

    tables = {"properties": {"model": {"additionalProperties": any_of(_SCALARS)}}}
    return {"if": tables, "then": searched(()), "else": searched(_named_entries(name))}


def _is_open(kind: type[Table]) -> bool:
    """Whether a table accepts user-defined keys."""
    return kind.model_config.get("extra") == "allow"


def _within(name: str, schema: Schema) -> Schema:
    return {"properties": {name: schema}, "required": [name]}


def _search() -> Schema:
    """The schema of `[search]`, with dotted keys or tables."""
    tables = {
        name: _searched(kinds_of(name))
        | _for_other_keys(
            ([_any_entry()] if any(map(_is_open, kinds_of(name))) else []) + _named_entries(name)
        )
        for name in SEARCHED_TABLES
    }
    described = {"description": "what each trial draws: entries by the dotted key of a setting"}
    return _entry_tables(tables, tables) | described


def _named_entries(name: str) -> list[Schema]:
    """The tables of entries under user-defined names, if the table has any."""
    if name not in UNDER_NAMES:
        return []
    return [_searched(UNDER_NAMES[name]) | _for_other_keys([_any_entry()])]


def _for_other_keys(forms: Sequence[Schema]) -> Schema:
    """A schema for the keys of a table that are not named in it."""
    return {"additionalProperties": any_of(forms) if forms else False}


def _searched(kinds: Sequence[type[Table]]) -> Schema:
    """The schema of the entries for the settings of a table of one of these `kinds`."""
    entries: dict[str, list[Schema]] = {}
    inner: dict[str, list[type[Table]]] = {}
    named: dict[str, type[Table]] = {}
    for kind in kinds:
        for setting, field in kind.model_fields.items():
            table = table_in(field.annotation)
            if is_fixed(kind, setting):
                continue
            if table is not None:
                inner.setdefault(setting, []).append(table)
            elif under := named_in(field.annotation):
                named[setting] = under
            else:
                entries.setdefault(setting, []).extend(_entries(kind, setting))
    link = plain(SameAs)
    found = {setting: any_of([*forms, link]) for setting, forms in entries.items()}
    tables = {setting: _searched(of) for setting, of in inner.items()}
    tables |= {
        setting: {"type": "object", "additionalProperties": _searched([of])}
        for setting, of in named.items()
    }
    # listed, since a table with user-defined keys would accept them under any other name
    fixed: dict[str, Schema | bool] = dict.fromkeys(_fixed(kinds), False)
    return _entry_tables(fixed | found | tables, tables)


def _fixed(kinds: Sequence[type[Table]]) -> Iterator[str]:
    """The settings that are the same for every trial in all of these `kinds`."""
    for setting in dict.fromkeys(setting for kind in kinds for setting in kind.model_fields):
        if all(
            is_fixed(kind, setting) if setting in kind.model_fields else not _is_open(kind)
            for kind in kinds
        ):
            yield setting


def _entry_tables(properties: Mapping[str, Schema | bool], tables: Iterable[str] = ()) -> Schema:
    """The schema of a table of entries; names in `tables` may also occur in quoted dotted keys."""
    names = [*tables]
    in_quotes = f"^({'|'.join(names)})\\."
    by_dots = {"patternProperties": {in_quotes: _any_entry()}} if names else {}
    return {
        "type": "object",
        "properties": dict(properties),
        **by_dots,
        "additionalProperties": False,
    }


def _any_entry() -> Schema:
    """The schema of an entry for an unknown setting."""
    return any_of(plain(entry) for entry in (*ENTRIES.values(), SameAs))


def _entries(kind: type[Table], setting: str) -> Iterator[Schema]:
    """The entries that fit a setting, with its own bounds for what they draw."""
    own = plain(kind)["properties"][setting]
    bounds = {bound: own[bound] for bound in _BOUNDS if bound in own}
    values = {key: value for key, value in own.items() if key not in ("default", "examples")}
    for entry_type in types_for(kind, setting):
        schema = plain(ENTRIES[entry_type])
        properties = dict(schema["properties"])
        for name in properties.keys() & {"low", "high"}:
            properties[name] = {**properties[name], **bounds}
        if "choices" in properties:
            properties["choices"] = {**properties["choices"], "items": values}
        yield {**schema, "description": own.get("description", ""), "properties": properties}
