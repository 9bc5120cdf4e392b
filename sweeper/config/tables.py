"""The tables of a study file, and which type each has in a given file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sweeper.config.alternating import DATA, AlternatingTable, alternating_recipe
from sweeper.config.coupled import CoupledTable, coupled_recipe
from sweeper.config.data import CsvTable, FunctionTable, NpzTable, ParquetTable, SklearnTable
from sweeper.config.execution import ExecutionTable, ResultsTable, ScheduleTable
from sweeper.config.kinds import is_function
from sweeper.config.model import (
    PARTS,
    MixedTable,
    MlpTable,
    PartsTable,
    PythonTable,
    has_parts,
    parts_recipe,
)
from sweeper.config.optimizer import OPTIMIZERS, MixedOptimizerTable, UserOptimizerTable
from sweeper.config.optimizers import OF_EACH, OptimizersTable, has_several, optimizers_recipe
from sweeper.config.reading import Named, RawTable, check_names, is_table
from sweeper.config.refusals import MISSING, format_value, unknown_name
from sweeper.config.study import StudyTable
from sweeper.config.table import Flaw, Table
from sweeper.config.train import SupervisedTable
from sweeper.config.trial import TRIAL
from sweeper.config.user_program import OwnProgramTable


@dataclass(frozen=True, slots=True)
class Variants:
    """A table whose settings depend on one of them, `by`; `of` maps its values to types.

    `default` is the value if none is written, `mixed` the type if it is searched, and `own` the
    type for user-defined functions or classes, which are named in this `form`.
    """

    by: str
    of: Mapping[str, type[Table]]
    default: str | None = None
    mixed: type[Table] | None = None
    own: type[Table] | None = None
    form: str = "module:function"


TABLES: dict[str, type[Table] | Variants] = {
    "study": StudyTable,
    "data": Variants(
        "source",
        {
            "sklearn": SklearnTable,
            "csv": CsvTable,
            "parquet": ParquetTable,
            "npz": NpzTable,
            "python": FunctionTable,
        },
    ),
    "model": Variants("kind", {"mlp": MlpTable, "python": PythonTable}, "mlp", MixedTable),
    "optimizer": Variants("name", OPTIMIZERS, None, MixedOptimizerTable, UserOptimizerTable),
    "train": Variants(
        "program",
        {
            "supervised": SupervisedTable,
            "alternating": AlternatingTable,
            "coupled": CoupledTable,
        },
        "supervised",
        own=OwnProgramTable,
        form="module:Class",
    ),
    "schedule": ScheduleTable,
    "execution": ExecutionTable,
    "results": ResultsTable,
    "trial": TRIAL,
}
DISCRIMINATORS = {name: kind.by for name, kind in TABLES.items() if isinstance(kind, Variants)}

# tables with user-chosen names, for models with several parts
UNDER_NAMES: Mapping[str, tuple[type[Table], ...]] = {
    "model": tuple(PARTS.values()),
    "optimizer": (*OPTIMIZERS.values(), UserOptimizerTable),
}

Kind = tuple[type[Table] | None, list[Flaw]]


def kind_of(name: str, raw: RawTable, searches: Callable[[str], bool]) -> Kind:
    """The type of the table `name` of a raw study file, and flaws in what determines it.

    None if the file does not say. `searches` returns whether a dotted key is searched.
    """
    own = raw.get(name, {})
    if not is_table(own):
        return None, [Flaw(name, f"{format_value(own)} is not a table", f"write [{name}]")]
    if name == "model" and has_parts(own):
        return _parts(own)
    if name == "optimizer" and has_parts(raw.get("model")) and has_several(own):
        parts = [part for part, table in raw["model"].items() if is_table(table)]
        recipe, faults = optimizers_recipe(own, parts)
        return (None if faults else recipe.made()), faults
    kind = TABLES[name]
    if not isinstance(kind, Variants):
        return kind, []
    chosen, faults = _variant(name, kind, own, searches)
    if chosen is AlternatingTable:
        faults += _unfit_names_in(own, "losses", "phases")
        return (None if faults else alternating_recipe(own).made()), faults
    if chosen is CoupledTable and is_table(raw.get("model", {})):
        return coupled_recipe(raw).made(), faults
    return chosen, faults


def _variant(name: str, kind: Variants, raw: RawTable, searches: Callable[[str], bool]) -> Kind:
    key, options = f"{name}.{kind.by}", ", ".join(kind.of)
    options += f', or "{kind.form}"' if kind.own is not None else ""
    if kind.mixed is not None and searches(key):
        return kind.mixed, []
    chosen = raw.get(kind.by, kind.default)
    if chosen is None:
        return None, [Flaw(key, MISSING, f"write one of {options}")]
    if kind.own is not None and isinstance(chosen, str) and is_function(chosen):
        return kind.own, []
    if not isinstance(chosen, str) or chosen not in kind.of:
        return None, [unknown_name(key, chosen, options)]
    return kind.of[chosen], []


def _parts(raw: RawTable) -> Kind:
    tables, taken = (PartsTable, OptimizersTable), (DATA, *OF_EACH)
    faults = [*check_names(raw, "model", *tables, taken=taken)]
    recipe, unfit = parts_recipe(raw)
    faults += unfit
    return (None if faults else recipe.made()), faults


def _unfit_names_in(raw: RawTable, *names: str) -> list[Flaw]:
    inner = {name: raw.get(name) for name in names}
    return [
        fault
        for name, table in inner.items()
        if is_table(table)
        for fault in check_names(table, f"train.{name}", Named)
    ]
