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


TRACED = Role.TRACED
BOUND = Role.BOUND


@dataclass(frozen=True, slots=True)
class Fixed:
    """Marks a structural setting that is the same for every trial of a study."""


FIXED = Fixed()


@cache
def settings_of(table: type[Table], role: Role) -> tuple[str, ...]:
    """The settings of `table` and of the tables in it that have `role`, in the file's order."""
    found: list[str] = []
    for name, field in table.model_fields.items():
        inner = table_in(field.annotation)
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
    """Whether the setting must be the same for every trial."""
    return FIXED in _marks(table, setting)


def _marks(table: type[Table], setting: str) -> list[object]:
    found = field_of(table, setting)
    return [] if found is None else found.metadata
