"""Classes in words: what a reader is shown, who would be told nothing by a hash."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sweeper.config.search import SearchEntry
from sweeper.scheduler.classes import ProgramClass
from sweeper.trial import Scalar

_LISTED = 4  # values of a setting that a name still has one by one


def class_name(program: ProgramClass, search: Mapping[str, SearchEntry]) -> str:
    """The strategy of a class, and what it compiles in of what its study searches.

    Such as `exact depth=2 width=64`; of a padded class the largest that it holds,
    `padded depth<=4 width<=64`. Two classes can be called the same, their lanes being different.
    """
    names = {key: entry.column(key) for key, entry in search.items()}
    words: list[str] = [program.strategy]
    branches: list[dict[str, Any]] = [json.loads(program.settings or "{}")]
    if program.strategy == "switch":
        branches = json.loads(program.settings)
        words.append(f"of {len(branches)} structures")
    words += _room(program)
    for key, name in names.items():
        # a setting with several values in one branch is told to the program at run time
        values = [branch[key] for branch in branches if not isinstance(branch.get(key, []), list)]
        words += [f"{name}={_shown(values)}"] if values else []
    return " ".join(words)


def _room(program: ProgramClass) -> list[str]:
    """What a padded class has room for, of a model of parts as width by depth of each."""
    if program.padded_parts:
        return program.padded_parts.replace("=", "<=").split(",")
    if program.padded_width is None:
        return []
    return [f"depth<={program.padded_depth}", f"width<={program.padded_width}"]


def _shown(values: Sequence[Scalar]) -> str:
    """The one value that all have, or all that there are."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        low, high = min(values), max(values)  # type: ignore[type-var]
        return str(low) if low == high else f"{low}..{high}"
    told = [str(value) for value in dict.fromkeys(values)]
    return "|".join(told) if len(told) <= _LISTED else f"{len(told)} values"
