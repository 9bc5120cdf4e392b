"""Tables under names of the user's own, such as `[model.NAME]`: their keys are known with the file.

A table that holds some is made when the file is read, with a field for each name. From there on
nothing tells it from a table that is written down in this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, get_args, get_origin

from pydantic import Field, create_model

from sweeper.config.refusals import shown
from sweeper.config.table import Fault, Table


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a table is made: the settings of `base`, and tables at these names beside them.

    `told` are attributes of its class: what other tables of the file say, and it depends on.
    """

    base: type[Named]
    tables: tuple[tuple[str, type[Table] | Recipe], ...]
    told: tuple[tuple[str, object], ...] = ()

    def made(self) -> type[Named]:
        """The table, the same one for equal recipes."""
        return _made(self)


class Named(Table):
    """A table that is made of a recipe; it is pickled as such, for its type is in no module."""

    recipe: ClassVar[Recipe]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self).recipe, dict(self))


def tables_of(table: Table) -> Mapping[str, Any]:
    """The tables of `table` by name, in the order of the file."""
    named = ((name, getattr(table, name)) for name in type(table).model_fields)
    return {name: inner for name, inner in named if isinstance(inner, Table)}


def named_in(annotation: object) -> type[Table] | None:
    """What each table is that a setting holds under names of the user's own; None for others."""
    arguments = get_args(annotation)
    holds = get_origin(annotation) is dict and isinstance(arguments[1], type)
    return arguments[1] if holds and issubclass(arguments[1], Table) else None


def unfit_names(
    names: Iterable[str], under: str, *tables: type[Table], taken: Sequence[str] = ()
) -> Iterator[Fault]:
    """Names become parts of columns and keys, and attributes of `tables`."""
    for name in names:
        key = f"{under}.{name}"
        if not (name.isascii() and name.isidentifier()) or name.startswith("_"):
            mend = "write letters, digits and '_' alone, a letter first"
            yield Fault(key, f"{shown(name)} cannot be a name", mend)
        elif name in (*taken, *Named.__annotations__) or any(hasattr(t, name) for t in tables):
            yield Fault(key, f"{shown(name)} is a word of this program", "write another name")


@cache
def _made(recipe: Recipe) -> type[Named]:
    fields: dict[str, Any] = {}
    for name, table in recipe.tables:
        kind = table.made() if isinstance(table, Recipe) else table
        inherited = recipe.base.model_fields.get(name)
        meaning = inherited.description if inherited else kind.__doc__
        if isinstance(table, Recipe):  # empty where the file has none of them
            fields[name] = (kind, Field(default_factory=kind, description=meaning))
        else:
            fields[name] = (kind, Field(description=meaning))
    made = create_model(recipe.base.__name__, __base__=recipe.base, **fields)
    made.recipe = recipe
    for name, value in recipe.told:
        setattr(made, name, value)
    return made


def _restored(recipe: Recipe, values: Mapping[str, Any]) -> Named:
    return recipe.made().model_construct(**values)
