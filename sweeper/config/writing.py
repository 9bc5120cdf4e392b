"""Values as TOML: the counterpart of `tomllib`, which only reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast


def toml_text(tables: Mapping[str, Any]) -> str:
    """A TOML document of `tables`; what is None is left out."""
    return "\n".join(_table_lines(tables, ())).strip("\n") + "\n"


def toml_value(value: Any) -> str:
    """A value in one line."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            # as in JSON, but for the one control character that JSON lets stand
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            inner = cast("Mapping[str, Any]", value)
            pairs = [f"{toml_key(k)} = {toml_value(v)}" for k, v in inner.items() if v is not None]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case Sequence():
            return f"[{', '.join(map(toml_value, cast('Sequence[Any]', value)))}]"
        case _:
            return repr(value)


def toml_key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    own = {name: value for name, value in table.items() if value is not None}
    values = {name: value for name, value in own.items() if not isinstance(value, Mapping)}
    if path and (values or not own):
        yield f"\n[{'.'.join(map(toml_key, path))}]"
    for name, value in values.items():
        yield f"{toml_key(name)} = {toml_value(value)}"
    for name, value in own.items():
        if isinstance(value, Mapping):
            yield from _table_lines(cast("Mapping[str, Any]", value), (*path, name))
