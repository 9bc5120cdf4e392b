"""The tables of a study file, and which type each has in a given file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sweeper.config.alternating import DATA, AlternatingTable, alternating_recipe
from sweeper.config.coupled import CoupledTable, coupled_recipe
from sweeper.config.data import CsvTable, FunctionTable, NpzTable, ParquetTable, SklearnTable
from sweeper.config.execution import ExecutionTable, ResultsTable, ScheduleTable
from sweeper.config.kinds import is_function
from sweeper.config.model import (
    MODELS,
    PARTS,
    MixedTable,
    PartsTable,
    has_parts,
    unknown_part,
)
from sweeper.config.optimizer import (
    OF_EACH,
    OPTIMIZERS,
    MixedOptimizerTable,
    OptimizersTable,
    UserOptimizerTable,
    has_several,
)
from sweeper.config.reading import (
    RawTable,
    Recipe,
    RecipeTable,
    check_names,
    is_table,
    settings_within,
    table_class,
)
from sweeper.config.refusals import format_value, missing, unknown_name
from sweeper.config.space import SEARCHED_TABLES
from sweeper.config.study import StudyTable
from sweeper.config.table import Flaw, Table
from sweeper.config.train import SupervisedTable, UserProgramTable
from sweeper.config.trial import TRIAL

Kind = tuple[type[Table] | None, list[Flaw]]


@dataclass(frozen=True, slots=True)
class Variants:
    """A table whose settings depend on one of them, `by`; `of` maps its values to types.

    `default` is the value if none is written, `mixed` the type if it is searched, and
    `user_defined` the type for user-defined functions or classes, which are named in this `form`.
    """

    by: str
    of: Mapping[str, type[Table]]
    default: str | None = None
    mixed: type[Table] | None = None
    user_defined: type[Table] | None = None
    form: str = "module:function"

    def type_of(self, under: str, raw: RawTable, noun: str | None = None) -> Kind:
        """The type of the table at `under`, which is not searched, and flaws in what says it."""
        key, options = f"{under}.{self.by}", ", ".join(self.of)
        options += f', or "{self.form}"' if self.user_defined is not None else ""
        chosen = raw.get(self.by, self.default)
        if chosen is None:
            return None, [missing(key, f"write one of {options}")]
        if self.user_defined is not None and isinstance(chosen, str) and is_function(chosen):
            return self.user_defined, []
        if not isinstance(chosen, str) or chosen not in self.of:
            return None, [unknown_name(key, chosen, options, noun)]
        return self.of[chosen], []


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
    "model": Variants("kind", MODELS, "mlp", MixedTable),
    "optimizer": Variants("name", OPTIMIZERS, None, MixedOptimizerTable, UserOptimizerTable),
    "train": Variants(
        "program",
        {
            "supervised": SupervisedTable,
            "alternating": AlternatingTable,
            "coupled": CoupledTable,
        },
        "supervised",
        user_defined=UserProgramTable,
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


def settings_of_searched_tables() -> tuple[str, ...]:
    """The dotted keys of all settings in tables that may be searched, of each of their kinds."""
    return _settings_of(SEARCHED_TABLES)


@cache
def all_settings() -> tuple[str, ...]:
    """The dotted keys of all settings in all tables, of each of their kinds."""
    return _settings_of(TABLES)


def _settings_of(tables: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in tables:
        table = TABLES[name]
        kinds = [*table.of.values(), table.user_defined] if isinstance(table, Variants) else [table]
        for kind in kinds:
            found |= dict.fromkeys(() if kind is None else settings_within(kind, name))
    return tuple(found)


def kind_of(name: str, raw: RawTable, searches: Callable[[str], bool]) -> Kind:
    """The type of the table `name` of a raw study file, and flaws in what determines it.

    None if the file does not say. `searches` returns whether a dotted key is searched.
    """
    own = raw.get(name, {})
    if not is_table(own):
        hint = f"write [{name}]"
        if name == "optimizer" and isinstance(own, str):
            given = own if ":" in own else own.lower()
            hint = f"write {{ name = {json.dumps(given)}, lr = 0.001 }}"
        return None, [Flaw(name, f"{format_value(own)} is not a table", hint)]
    if name == "model" and has_parts(own):
        return _parts(own)
    if name == "optimizer" and has_parts(raw.get("model")) and has_several(own):
        return _optimizers(own, [part for part, table in raw["model"].items() if is_table(table)])
    kind = TABLES[name]
    if not isinstance(kind, Variants):
        return kind, []
    if kind.mixed is not None and searches(f"{name}.{kind.by}"):
        return kind.mixed, []
    chosen, flaws = kind.type_of(name, own)
    if chosen is AlternatingTable:
        for key in ("losses", "phases"):
            if is_table(names := own.get(key)):
                flaws += check_names(names, f"train.{key}", RecipeTable)
        return (None if flaws else table_class(alternating_recipe(own))), flaws
    if chosen is CoupledTable and is_table(raw.get("model", {})):
        return table_class(coupled_recipe(raw)), flaws
    return chosen, flaws


def _parts(raw: RawTable) -> Kind:
    tables, taken = (PartsTable, OptimizersTable), (DATA, *OF_EACH)
    first = next(name for name, value in raw.items() if is_table(value))
    misplaced = "a setting next to parts", f"write it in one of the parts, [model.{first}]"
    flaws = [*check_names(raw, "model", *tables, taken=taken)]
    variants = Variants("kind", PARTS, "mlp")
    return _by_name(PartsTable, "model", raw, variants, misplaced, flaws)


def _optimizers(raw: RawTable, parts: Sequence[str]) -> Kind:
    others = [name for name, value in raw.items() if is_table(value) and name not in parts]
    known = {name: value for name, value in raw.items() if name not in others}
    misplaced = "a setting next to the optimizers of parts", "write it in the table of a part"
    variants = Variants("name", OPTIMIZERS, user_defined=UserOptimizerTable)
    missing = [name for name in parts if name not in raw]
    flaws = [unknown_part(f"optimizer.{name}", name, parts) for name in others]
    flaws += [
        Flaw("optimizer", f"none for '{name}'", f"write [optimizer.{name}]") for name in missing
    ]
    return _by_name(OptimizersTable, "optimizer", known, variants, misplaced, flaws)


def _by_name(
    base: type[RecipeTable],
    under: str,
    raw: RawTable,
    variants: Variants,
    misplaced: tuple[str, str],
    flaws: list[Flaw],
) -> Kind:
    """The type of a table that holds tables by name; adds to `flaws` those in their types.

    `misplaced` is what is wrong with settings next to these tables.
    """
    tables: list[tuple[str, type[Table]]] = []
    for name, own in raw.items():
        if not is_table(own):
            flaws.append(Flaw(f"{under}.{name}", *misplaced))
            continue
        kind, unfit = variants.type_of(f"{under}.{name}", own, under)
        flaws += unfit
        tables += [] if kind is None else [(name, kind)]
    return (None if flaws else table_class(Recipe(base, tuple(tables)))), flaws
