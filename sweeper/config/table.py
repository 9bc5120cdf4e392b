"""What the tables of a study file share: they are strict, frozen and have rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, create_model


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a dotted `key`, and how to mend it; a problem without its place."""

    key: str
    found: str
    mend: str

    def under(self, table: str) -> Fault:
        """The same fault with its key seen from outside `table`."""
        return Fault(f"{table}.{self.key}" if self.key else table, self.found, self.mend)


# what is wrong between settings: a rule takes those that it is about by name, and is asked where
# each of them is allowed by itself
Rule = Callable[..., Iterable[Fault]]


class Table(BaseModel):
    """One table of a study file: unknown settings are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    rules: ClassVar[tuple[Rule, ...]] = ()


@cache
def alone(table: type[Table], setting: str) -> type[Table]:
    """A table of one setting of `table`, to validate it apart from all the others."""
    field = table.model_fields[setting]
    definition: Any = (field.annotation, field)
    return create_model(table.__name__, __base__=Table, **{setting: definition})
