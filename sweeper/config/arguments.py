"""The user-defined functions that a study calls, and which of their arguments are compiled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from sweeper.config.kinds import is_function
from sweeper.config.model import PythonTable
from sweeper.config.optimizer import UserOptimizerTable
from sweeper.config.optimizers import decays_of
from sweeper.config.reading import Named, tables_of
from sweeper.config.study import StudyTable
from sweeper.config.table import Table
from sweeper.config.user_program import OwnProgramTable

# tables whose own keys are traced if they are floats
WITH_TRACED_ARGUMENTS = (UserOptimizerTable, OwnProgramTable)


def structural_arguments(table: Table) -> Mapping[str, Any]:
    """The arguments that are compiled in: all for a model's function, else all except floats."""
    if isinstance(table, Named):
        return _of_each(table, structural_arguments)
    if isinstance(table, PythonTable):
        return table.arguments
    if isinstance(table, WITH_TRACED_ARGUMENTS):
        return {k: v for k, v in table.arguments.items() if not isinstance(v, float)}
    return {}


def traced_arguments(table: Table) -> Mapping[str, float]:
    """The float arguments of an optimizer's function or of a program's class."""
    if isinstance(table, Named):
        return _of_each(table, traced_arguments)
    if isinstance(table, WITH_TRACED_ARGUMENTS):
        return {k: v for k, v in table.arguments.items() if isinstance(v, float)}
    return {}


def _of_each(table: Named, arguments: Callable[[Table], Mapping[str, Any]]) -> dict[str, Any]:
    inner = tables_of(table).items()
    return {f"{name}.{key}": value for name, one in inner for key, value in arguments(one).items()}


def functions_of_tables(tables: Mapping[str, Table]) -> Iterator[tuple[str, str]]:
    """Functions that build models or return rows, by the dotted keys of their tables."""
    for key, table in tables.items():
        if function := getattr(table, "function", ""):
            yield function, f"{key}.function"


def functions_of_optimizers(whole: Table, each: Mapping[str, Table]) -> Iterator[tuple[str, str]]:
    """Functions that build optimizers, and layer classes that their decay rules name."""
    for key, table in each.items():
        if isinstance(table, UserOptimizerTable):
            yield table.name, f"{key}.name"
    for key, decay in decays_of(whole).items():
        yield from ((rule.layer, key) for rule in decay.rules_in_order if is_function(rule.layer))


def functions_of_study(study: StudyTable) -> Iterator[tuple[str, str]]:
    """User-defined samplers and pruners."""
    key, wrapped = "study.pruner", study.pruner.options.get("wrapped")
    named: list[tuple[str, Any]] = [
        ("study.sampler.name", study.sampler.name),
        (f"{key}.name", study.pruner.name),
    ]
    while isinstance(wrapped, Mapping):  # as in `patient`, which wraps another pruner
        table = cast("Mapping[str, Any]", wrapped)
        key, wrapped = f"{key}.wrapped", table.get("wrapped")
        named.append((f"{key}.name", table.get("name")))
    yield from ((name, key) for key, name in named if isinstance(name, str) and is_function(name))
