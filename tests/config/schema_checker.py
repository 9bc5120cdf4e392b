"""The part of JSON Schema that the schema of study files uses: what an editor would report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
}
_LIMITS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
}
_SIZES: dict[str, Callable[[int, int], bool]] = {
    "minLength": lambda size, limit: size >= limit,
    "maxLength": lambda size, limit: size <= limit,
    "minItems": lambda size, limit: size >= limit,
    "maxItems": lambda size, limit: size <= limit,
    "minProperties": lambda size, limit: size >= limit,
}
_SAYS_NOTHING = {"$schema", "title", "description", "default", "examples"}
_OF_OBJECTS = {"properties", "patternProperties", "additionalProperties", "required"}
_APPLIED = {
    "type",
    "const",
    "enum",
    "anyOf",
    "allOf",
    "if",
    "then",
    "else",
    "items",
    "prefixItems",
    "pattern",
}
_KNOWN = {*_SAYS_NOTHING, *_OF_OBJECTS, *_APPLIED, *_LIMITS, *_SIZES}


def faults(value: Any, schema: Any, path: str = "") -> Iterator[str]:
    """Where `value` violates `schema`, and which keyword."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{path}: not allowed"
        return
    assert schema.keys() <= _KNOWN, f"a keyword that is not checked: {schema.keys() - _KNOWN}"
    if "type" in schema and not _TYPES[schema["type"]](value):
        yield f"{path}: type"
        return
    yield from _by_value(value, schema, path)
    yield from _by_schemas(value, schema, path)
    if isinstance(value, dict):
        yield from _by_keys(value, schema, path)
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        for index, inner in enumerate(value):
            own = first[index] if index < len(first) else schema.get("items", True)
            yield from faults(inner, own, f"{path}[{index}]")


def _by_value(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    if "const" in schema and (type(value), value) != (type(schema["const"]), schema["const"]):
        yield f"{path}: const"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: enum"
    for keyword in schema.keys() & _LIMITS.keys():
        if _TYPES["number"](value) and not _LIMITS[keyword](value, schema[keyword]):
            yield f"{path}: {keyword}"
    for keyword in schema.keys() & _SIZES.keys():
        if isinstance(value, str | list | dict) and not _SIZES[keyword](
            len(value), schema[keyword]
        ):
            yield f"{path}: {keyword}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{path}: pattern"


def _by_schemas(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    if "anyOf" in schema and all([*faults(value, one, path)] for one in schema["anyOf"]):
        yield f"{path}: anyOf"
    for one in schema.get("allOf", ()):
        yield from faults(value, one, path)
    if "if" in schema:
        branch = "else" if [*faults(value, schema["if"], path)] else "then"
        yield from faults(value, schema.get(branch, True), path)


def _by_keys(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{path}.{key}: required"
    for key, inner in value.items():
        patterns = schema.get("patternProperties", {})
        found = [one for pattern, one in patterns.items() if re.search(pattern, key)]
        if key in schema.get("properties", {}):
            found.append(schema["properties"][key])
        for one in found or [schema.get("additionalProperties", True)]:
            yield from faults(inner, one, f"{path}.{key}")
