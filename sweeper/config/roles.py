"""What a setting is to a trial's program, declared as a mark where the setting stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from sweeper.config.table import Table, field_of, table_in


class Role(Enum):
    """What a setting is to a trial's program; structural where nothing else is declared."""

    STRUCTURAL = "another value is another program"
    TRACED = "only a number in the program"
    BOUND = "where training stops"
    DECLARED = "what the user says of the study; no program depends on it"


TRACED = Role.TRACED
BOUND = Role.BOUND
DECLARED = Role.DECLARED


@dataclass(frozen=True, slots=True)
class Fixed:
    """Marks a structural setting that is the same for every trial of a study."""


FIXED = Fixed()


@cache
def settings_of(table: type[Table], role: Role) -> tuple[str, ...]:
    """The settings of `table` and of the tables in it that have `role`, in the file's order.

    Tables in it that are fixed as a whole are left out.
    """
    found: list[str] = []
    for name, field in table.model_fields.items():
        inner = table_in(field.annotation)
        if inner is not None and is_fixed(table, name):
            continue
        if inner is not None:
            found += [f"{name}.{setting}" for setting in settings_of(inner, role)]
        elif role_of(table, name) is role:
            found.append(name)
    return tuple(found)


def role_of(table: type[Table], setting: str) -> Role:
    """What the setting is to the program; keys of the user's own are structural."""
    marks = _marks(table, setting)
    return next((mark for mark in marks if isinstance(mark, Role)), Role.STRUCTURAL)


def is_fixed(table: type[Table], setting: str) -> bool:
    """Whether the setting, or a table that it is in, must be the same for every trial."""
    return fixed_part(table, setting) is not None


def fixed_part(table: type[Table], setting: str) -> str | None:
    """The setting, or the table that it is in, which is the same for every trial; None if none."""
    names = setting.split(".")
    parts = (".".join(names[:end]) for end in range(1, len(names) + 1))
    return next((part for part in parts if FIXED in _marks(table, part)), None)


def _marks(table: type[Table], setting: str) -> list[object]:
    found = field_of(table, setting)
    return [] if found is None else found.metadata
