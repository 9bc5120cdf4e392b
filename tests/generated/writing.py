"""Study files in the many notations of TOML, with the line of each key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Lines = dict[str, int]


@dataclass
class _File:
    """The lines so far, and the first line of each dotted key."""

    draw: st.DrawFn
    text: list[str] = field(default_factory=list)
    lines: Lines = field(default_factory=dict)
    around: Lines = field(default_factory=dict)  # tables without a header

    def put(self, line: str, *keys: str) -> None:
        self.text.append(line)
        for key in keys:
            self.lines.setdefault(key, len(self.text))

    def table(self, path: tuple[str, ...], table: Mapping[str, Any]) -> None:
        """A table under its header; tables in it that are inline or dotted come first."""
        below: dict[str, Mapping[str, Any]] = {}
        arrays: dict[str, list[Mapping[str, Any]]] = {}
        here: dict[str, Any] = {}
        dotted: dict[str, Mapping[str, Any]] = {}
        for name, value in table.items():
            if isinstance(value, Mapping):
                ways = ["header", "inline", "dots"] if path and value else ["header"]
                way = self.draw(st.sampled_from(ways))
                {"header": below, "inline": here, "dots": dotted}[way][name] = value
            elif _is_tables(value) and self.draw(st.booleans()):
                arrays[name] = value
            else:
                here[name] = value
        key = ".".join(path)
        if path and (here or dotted or not (below or arrays) or self.draw(st.booleans())):
            if self.draw(st.booleans()):
                self.put("")
            self.put(f"[{_dotted(path)}]  # a table", key)
            for n in range(1, len(path)):
                self.around.setdefault(".".join(path[:n]), len(self.text))
        for name, value in here.items():
            self.value(key, (name,), value)
        for name, value in dotted.items():
            self.by_dots(key, (name,), value)
        for name, value in arrays.items():
            self.array(key, (*path, name), value)
        for name, value in below.items():
            self.table((*path, name), value)

    def value(self, under: str, path: tuple[str, ...], value: Any) -> None:
        key = f"{under}.{'.'.join(path)}".strip(".")
        names = [".".join(path[: n + 1]) for n in range(len(path))]
        spaces = self.draw(st.sampled_from([" = ", "=", "  =  "]))
        line = f"{_dotted(path)}{spaces}{_value(value)}"
        self.put(line, *(f"{under}.{name}".strip(".") for name in names), *_inner(key, value))

    def by_dots(self, under: str, path: tuple[str, ...], table: Mapping[str, Any]) -> None:
        for name, value in table.items():
            if isinstance(value, Mapping) and value:
                self.by_dots(under, (*path, name), value)
            else:
                self.value(under, (*path, name), value)

    def array(self, under: str, path: tuple[str, ...], tables: list[Mapping[str, Any]]) -> None:
        key = ".".join(path)
        for n in range(1, len(path)):
            self.around.setdefault(".".join(path[:n]), len(self.text) + 1)
        for index, table in enumerate(tables):
            self.put(f"[[{_dotted(path)}]]", key, f"{key}.{index}")
            for name, value in table.items():
                self.value(f"{key}.{index}", (name,), value)


@st.composite
def written(draw: st.DrawFn, study: Mapping[str, Any]) -> tuple[str, Lines]:
    """The text of a study file, and the lines of its keys, with indices for tables in arrays."""
    file = _File(draw)
    if draw(st.booleans()):
        file.put("# a study")
    for name, value in study.items():
        if not isinstance(value, Mapping):
            file.value("", (name,), value)
    file.table((), {name: value for name, value in study.items() if isinstance(value, Mapping)})
    return "\n".join(file.text) + "\n", file.around | file.lines


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _inner(key: str, value: Any) -> list[str]:
    """The keys within a value on one line."""
    if isinstance(value, Mapping):
        inner = [(f"{key}.{name}", one) for name, one in value.items()]
    elif _is_tables(value):
        inner = [(f"{key}.{index}", one) for index, one in enumerate(value)]
    else:
        return []
    return [one for name, below in inner for one in (name, *_inner(name, below))]


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(map(_key, path))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _value(value: Any) -> str:
    match value:
        case bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            pairs = [f"{_key(name)} = {_value(inner)}" for name, inner in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return repr(value)
