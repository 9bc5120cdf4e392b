"""`[optimizer.NAME]`: an optimizer with its own state for each part of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeper.config.decay import DecayTable
from sweeper.config.kinds import is_function
from sweeper.config.model import unknown_part
from sweeper.config.optimizer import OPTIMIZERS, OptimizerTable, UserOptimizerTable
from sweeper.config.reading import Named, RawTable, Recipe, is_table, tables_of
from sweeper.config.refusals import MISSING, unknown_name
from sweeper.config.table import Flaw, Table

# tables of every optimizer
OF_EACH = ("schedule", "decay")


class OptimizersTable(Named):
    """The optimizers by the name of the part that they train."""

    @property
    def by_part(self) -> Mapping[str, OptimizerTable]:
        """The optimizers by part."""
        return tables_of(self)

    @property
    def elementwise(self) -> bool:
        """Whether each optimizer treats each number on its own."""
        return all(table.elementwise for table in self.by_part.values())

    @property
    def slots(self) -> int:
        """The most arrays of the size of its part's parameters that an optimizer keeps."""
        return max(table.slots for table in self.by_part.values())


def decays_of(optimizer: object) -> Mapping[str, DecayTable]:
    """The decay rules, by the key of their table."""
    tables: dict[str, Any] = {"optimizer": optimizer}
    if isinstance(optimizer, OptimizersTable):
        tables = {f"optimizer.{name}": table for name, table in optimizer.by_part.items()}
    return {f"{key}.decay": table.decay for key, table in tables.items() if table.decay is not None}


def has_several(raw: object) -> bool:
    """Whether a raw `[optimizer]` has several optimizers: it contains tables by name."""
    return is_table(raw) and any(is_table(raw[name]) for name in raw if name not in OF_EACH)


def optimizers_recipe(raw: RawTable, parts: Sequence[str]) -> tuple[Recipe, list[Flaw]]:
    """How to read several optimizers, and the flaws in their names."""
    faults: list[Flaw] = []
    tables: list[tuple[str, type[Table]]] = []
    for name, own in raw.items():
        key = f"optimizer.{name}"
        if not is_table(own):
            hint = "write it in the table of a part"
            faults.append(Flaw(key, "a setting next to the optimizers of parts", hint))
        elif name not in parts:
            faults.append(unknown_part(key, name, parts))
        else:
            kind, fault = _kind(f"{key}.name", own.get("name"))
            faults += fault
            tables += [] if kind is None else [(name, kind)]
    missing = [name for name in parts if name not in raw]
    faults += [
        Flaw("optimizer", f"none for '{name}'", f"write [optimizer.{name}]") for name in missing
    ]
    return Recipe(OptimizersTable, tuple(tables)), faults


def _kind(key: str, name: Any) -> tuple[type[Table] | None, list[Flaw]]:
    options = ", ".join(OPTIMIZERS)
    if name is None:
        return None, [Flaw(key, MISSING, f"write one of {options}")]
    if isinstance(name, str) and is_function(name):
        return UserOptimizerTable, []
    if not isinstance(name, str) or name not in OPTIMIZERS:
        return None, [unknown_name(key, name, f'{options}, or "module:function"', "optimizer")]
    return OPTIMIZERS[name], []


def each(raw: object, kind: type[Table]) -> Iterator[tuple[str, RawTable, type[Table]]]:
    """The raw `[optimizer]`, or each of several, with its key and type."""
    if not is_table(raw):
        return
    if not issubclass(kind, OptimizersTable):
        yield "optimizer", raw, kind
        return
    for name, field in kind.model_fields.items():
        inner: Any = field.annotation
        if is_table(raw.get(name)):
            yield f"optimizer.{name}", raw[name], inner
