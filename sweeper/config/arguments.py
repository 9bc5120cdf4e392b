"""Which keys of the user's own are compiled into a program, and which it is told as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sweeper.config.model import PythonTable
from sweeper.config.named import Named, tables_of
from sweeper.config.optimizer import UserOptimizerTable
from sweeper.config.table import Table
from sweeper.config.user_program import OwnProgramTable

# tables whose own keys are traced where they are numbers with a point
WITH_TRACED_ARGUMENTS = (UserOptimizerTable, OwnProgramTable)


def structural_arguments(table: Table) -> Mapping[str, Any]:
    """What is compiled in: all that a model's function is given, and what is no float."""
    if isinstance(table, Named):
        return _of_each(table, structural_arguments)
    if isinstance(table, PythonTable):
        return table.arguments
    if isinstance(table, WITH_TRACED_ARGUMENTS):
        return {k: v for k, v in table.arguments.items() if not isinstance(v, float)}
    return {}


def traced_arguments(table: Table) -> Mapping[str, float]:
    """The floats among what an optimizer's function or a program's class is given."""
    if isinstance(table, Named):
        return _of_each(table, traced_arguments)
    if isinstance(table, WITH_TRACED_ARGUMENTS):
        return {k: v for k, v in table.arguments.items() if isinstance(v, float)}
    return {}


def _of_each(table: Named, arguments: Callable[[Table], Mapping[str, Any]]) -> dict[str, Any]:
    inner = tables_of(table).items()
    return {f"{name}.{key}": value for name, one in inner for key, value in arguments(one).items()}
