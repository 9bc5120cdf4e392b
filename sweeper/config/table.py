"""The base class of all tables of a study file, and marks for how settings are compiled.

Tables are strict and frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, create_model
from pydantic.fields import FieldInfo

from sweeper.errors import Problem, ProblemKind


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong at a dotted `key`, and how to fix it; a problem without its file and line.

    `meant` is the key that an unknown one was probably meant to be. A `kind` that is about
    a value comes with this `value`.
    """

    key: str
    found: str
    hint: str
    meant: str = ""
    kind: ProblemKind | None = None
    value: object = None

    def at(self, where: str) -> Problem:
        """The flaw as a problem at a place, such as a file and line."""
        return Problem(where, self.key, self.found, self.hint, self.kind)

    def under(self, table: str) -> Flaw:
        """The same flaw with its key prefixed by `table`."""
        return replace(self, key=f"{table}.{self.key}" if self.key else table)


# a rule between settings: it takes them as arguments by name, and is only checked if each of them
# is valid by itself
Rule = Callable[..., Iterable[Flaw]]


class Table(BaseModel):
    """One table of a study file: unknown settings are rejected, and values are not converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    rules: ClassVar[tuple[Rule, ...]] = ()

    @property
    def idle(self) -> tuple[str, ...]:
        """Settings without effect, because of others."""
        return ()


AnyTable = TypeVar("AnyTable", bound=Table)


def table_in(annotation: object) -> type[Table] | None:
    """The table type of a setting, even of an optional one; None for a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    is_optional = get_origin(annotation) in (Union, UnionType) and len(kinds) == 1
    return table_in(kinds[0]) if is_optional else None


@cache
def holder_of(table: type[Table], setting: str) -> tuple[type[Table], str] | None:
    """The table that contains a dotted `setting` of `table`, and its name there."""
    name, _, rest = setting.partition(".")
    if not rest:
        return (table, name) if name in table.model_fields else None
    inner = table_in(table.model_fields[name].annotation) if name in table.model_fields else None
    return None if inner is None else holder_of(inner, rest)


def field_of(table: type[Table], setting: str) -> FieldInfo | None:
    """The field of a dotted `setting` of `table`; None if it does not exist."""
    found = holder_of(table, setting)
    return None if found is None else found[0].model_fields[found[1]]


def value_of(table: Table, setting: str) -> Any:
    """The value of a dotted `setting`; None if a table around it was left out."""
    value: Any = table
    for name in setting.split("."):
        value = None if value is None else getattr(value, name)
    return value


def with_values(table: AnyTable, values: Mapping[str, Any]) -> AnyTable:
    """`table` with new values for dotted settings, which have been validated before."""
    own = {name: value for name, value in values.items() if "." not in name}
    inner: dict[str, dict[str, Any]] = {}
    for setting in values.keys() - own.keys():
        name, _, rest = setting.partition(".")
        inner.setdefault(name, {})[rest] = values[setting]
    own |= {name: with_values(getattr(table, name), drawn) for name, drawn in inner.items()}
    return table.model_copy(update=own)


@cache
def alone(table: type[Table], setting: str) -> type[Table]:
    """A table of only one setting of `table`, to validate it without the others."""
    field = table.model_fields[setting]
    definition: Any = (field.annotation, field)
    return create_model(table.__name__, __base__=Table, **{setting: definition})


class Role(Enum):
    """How a setting affects a trial's program; structural unless declared otherwise."""

    STRUCTURAL = "another value needs another program"
    TRACED = "a number that the program gets at run time"
    BOUND = "where training stops"
    DECLARED = "a fact that the user declares; no program depends on it"
    INITIAL = "used to draw initial weights; no program depends on it"


TRACED = Role.TRACED
BOUND = Role.BOUND
DECLARED = Role.DECLARED
INITIAL = Role.INITIAL


@dataclass(frozen=True, slots=True)
class Fixed:
    """Marks a structural setting that must be the same for every trial of a study."""


FIXED = Fixed()


@dataclass(frozen=True, slots=True)
class Later:
    """Marks a structural setting that did not exist when some recorded studies began.

    It is left out of what is compiled into a program if it has its default.
    """


LATER = Later()


@cache
def settings_with_role(table: type[Table], role: Role) -> tuple[str, ...]:
    """The settings of `table` and of the tables in it with this `role`, in the file's order.

    Tables in it that must be the same for every trial are left out.
    """
    found: list[str] = []
    for name, field in table.model_fields.items():
        inner = table_in(field.annotation)
        if inner is not None and is_fixed(table, name):
            continue
        if inner is not None:
            found += [f"{name}.{setting}" for setting in settings_with_role(inner, role)]
        elif role_of(table, name) is role:
            found.append(name)
    return tuple(found)


def role_of(table: type[Table], setting: str) -> Role:
    """The role of the setting in the program; user-defined keys are structural."""
    marks = _marks(table, setting)
    return next((mark for mark in marks if isinstance(mark, Role)), Role.STRUCTURAL)


def is_fixed(table: type[Table], setting: str) -> bool:
    """Whether the setting, or a table that it is in, must be the same for every trial."""
    return fixed_part(table, setting) is not None


def fixed_part(table: type[Table], setting: str) -> str | None:
    """The setting, or a table around it, that must be the same for every trial; else None."""
    names = setting.split(".")
    parts = (".".join(names[:end]) for end in range(1, len(names) + 1))
    return next((part for part in parts if FIXED in _marks(table, part)), None)


def is_left_out(table: Table, setting: str) -> bool:
    """Whether a setting marked `LATER` has its default, or no effect."""
    holder, _, name = setting.rpartition(".")
    if LATER not in _marks(type(table), setting):
        return False
    own: Table = value_of(table, holder) if holder else table
    return name in own.idle or getattr(own, name) == type(own).model_fields[name].default


def _marks(table: type[Table], setting: str) -> list[object]:
    found = field_of(table, setting)
    return [] if found is None else found.metadata
