"""The user-defined functions that a study calls, and which of their arguments are compiled in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sweeper.config.kinds import flattened, is_function
from sweeper.config.optimizer import UserOptimizerTable, decays_of
from sweeper.config.reading import Named, tables_of
from sweeper.config.study import StudyTable
from sweeper.config.table import Table
from sweeper.config.train import OwnProgramTable

_SAMPLER_OR_PRUNER = re.compile(r"study\.(sampler|pruner(\.wrapped)*)\.name")
# tables whose own keys are traced if they are floats
WITH_TRACED_ARGUMENTS = (UserOptimizerTable, OwnProgramTable)


def arguments_of(key: str, table: Table, *, traced: bool) -> dict[str, Any]:
    """The arguments of user-defined functions and classes, by dotted key under `key`.

    Either those that are traced, or those compiled in: all for a model's function, else all except
    floats.
    """
    if isinstance(table, Named):
        inner = (arguments_of(f"{key}.{k}", v, traced=traced) for k, v in tables_of(table).items())
        return {key: value for found in inner for key, value in found.items()}
    own: Mapping[str, Any] = getattr(table, "arguments", {})
    has_traced = isinstance(table, WITH_TRACED_ARGUMENTS)
    is_traced = {name: has_traced and isinstance(value, float) for name, value in own.items()}
    return {f"{key}.{name}": own[name] for name in own if is_traced[name] is traced}


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
    """User-defined samplers and pruners, also those that a pruner wraps."""
    pruner = {"name": study.pruner.name, **study.pruner.options}
    for key, name in flattened(
        {"sampler": {"name": study.sampler.name}, "pruner": pruner}, "study"
    ):
        if _SAMPLER_OR_PRUNER.fullmatch(key) and isinstance(name, str) and is_function(name):
            yield name, key
