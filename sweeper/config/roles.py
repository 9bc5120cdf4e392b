"""What a setting is to a trial's program, declared as a mark where the setting stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from sweeper.config.table import Table


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
    """The settings of `table` that have `role`, in the order of the file."""
    return tuple(name for name in table.model_fields if role_of(table, name) is role)


def role_of(table: type[Table], setting: str) -> Role:
    """What the setting is to the program; keys of the user's own are structural."""
    if setting not in table.model_fields:
        return Role.STRUCTURAL
    marks = table.model_fields[setting].metadata
    return next((mark for mark in marks if isinstance(mark, Role)), Role.STRUCTURAL)


def is_fixed(table: type[Table], setting: str) -> bool:
    """Whether the setting must be the same for every trial."""
    return setting in table.model_fields and FIXED in table.model_fields[setting].metadata
