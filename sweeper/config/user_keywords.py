"""Checks that the keys of a table match the arguments of a user-defined function or class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from sweeper.config import StudyConfig
from sweeper.errors import Problem


def keywords_of(function: Callable[..., Any]) -> tuple[Mapping[str, inspect.Parameter], bool]:
    """Its arguments by name, and whether it accepts any other name as well.

    For functions written in C, Python may not know; then any name is accepted.
    """
    try:
        taken = inspect.signature(function).parameters.values()
    except ValueError:
        return {}, True
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {one.name: one for one in taken if one.kind in by_name}
    return named, any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken)


def check_keywords(
    config: StudyConfig,
    table: str,
    name: str,
    function: Callable[..., Any],
    given: Collection[str],
    apart: Collection[str] = (),
) -> Iterator[Problem]:
    """Keys of `[table]` that `function`, called `name`, does not accept, and missing ones.

    Keys in `apart` are checked elsewhere.
    """
    named, is_open = keywords_of(function)
    for key in given:
        if key not in named and key not in apart and not is_open:
            near = get_close_matches(key, named, n=1)
            takes = f"it takes {', '.join(named)}" if named else "remove it"
            hint = f"did you mean '{table}.{near[0]}'?" if near else takes
            place = f"{table}.{key}"
            place = f"search.{place}" if place in config.search else place
            yield config.problem(place, f"'{name}' has no argument '{key}'", hint)
    for key, one in named.items():
        is_needed = one.default is inspect.Parameter.empty
        if is_needed and key not in given and key not in apart:
            found = f"missing, but '{name}' needs it"
            yield config.problem(f"{table}.{key}", found, f"write {key} = ...")
