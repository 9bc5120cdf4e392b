"""The names of classes, as people see them: what distinguishes a class in the searched settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sweeper.config.search import SearchEntry
from sweeper.scheduler.classes import ProgramClass
from sweeper.trial import Scalar

_LISTED = 4  # a name lists at most this many values of a setting


def class_name(program: ProgramClass, search: Mapping[str, SearchEntry]) -> str:
    """The strategy of a class, and which of the searched settings it compiles in.

    For example `exact depth=2 width=64`, or for a padded class the largest sizes that it holds:
    `padded depth<=4 width<=64`. Two classes with different lanes can have the same name.
    """
    names = {key: entry.column(key) for key, entry in search.items()}
    words: list[str] = [program.strategy]
    branches: list[dict[str, Any]] = [json.loads(program.settings or "{}")]
    if program.strategy == "switch":
        branches = json.loads(program.settings)
        words.append(f"of {len(branches)} structures")
    words += _size_words(program)
    for key, name in names.items():
        # a setting with several values in one branch is passed to the program at run time
        values = [branch[key] for branch in branches if not isinstance(branch.get(key, []), list)]
        words += [f"{name}={_describe_values(values)}"] if values else []
    return " ".join(words)


def _size_words(program: ProgramClass) -> list[str]:
    """The sizes that a padded class holds; for a model with parts, width by depth of each part."""
    if program.padded_parts:
        return program.padded_parts.replace("=", "<=").split(",")
    if program.padded_width is None:
        return []
    return [f"depth<={program.padded_depth}", f"width<={program.padded_width}"]


def _describe_values(values: Sequence[Scalar]) -> str:
    """The value if all are equal, else the range of numbers, or all different values."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        low, high = min(values), max(values)  # type: ignore[type-var]
        return str(low) if low == high else f"{low}..{high}"
    texts = [str(value) for value in dict.fromkeys(values)]
    return "|".join(texts) if len(texts) <= _LISTED else f"{len(texts)} values"
