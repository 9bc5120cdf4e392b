"""The JSON Schema of one table, as pydantic has it, with everything written out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from sweeper.config.table import Table

Schema = dict[str, Any]

_LEFT_OUT = ("title", "$ref", "$defs")
_OF_A_SCHEMA = ("items", "additionalProperties")


@cache
def plain(kind: type[Table]) -> Schema:
    """The schema of a table as pydantic has it, with every reference written out."""
    schema = kind.model_json_schema()
    return _tidy(schema, schema.get("$defs", {}))


def _tidy(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    """Without titles, references, and nulls, which TOML has not."""
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
    """`schema` with what it refers to."""
    if "$ref" not in schema:
        return schema
    return {**known[schema["$ref"].rpartition("/")[2]], **schema}


def _tidy_value(key: str, value: Any, known: Mapping[str, Schema]) -> Any:
    """The value of a keyword, with the schemas in it tidied."""
    if key == "properties":
        return {name: _tidy(inner, known) for name, inner in value.items()}
    if key == "anyOf":
        return [_tidy(inner, known) for inner in value]
    return _tidy(value, known) if key in _OF_A_SCHEMA and not isinstance(value, bool) else value


def any_of(schemas: Iterable[Schema]) -> Schema:
    """A schema for whatever one of `schemas` is for."""
    different: list[Schema] = []
    for schema in schemas:
        if schema not in different:
            different.append(schema)
    return different[0] if len(different) == 1 else {"anyOf": different}
