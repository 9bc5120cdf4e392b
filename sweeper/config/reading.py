"""Reads one raw TOML table into a validated one, or reports everything that is wrong in it.

A table with names chosen by the user, such as `[model.NAME]`, gets its fields when the file is
read. After that it behaves like a table declared in this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from typing import Any, ClassVar, Literal, TypeGuard, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, create_model

from sweeper.config.refusals import flaw_of, format_value, without_repeats
from sweeper.config.table import AnyTable, Flaw, Table, alone, field_of, table_in
from sweeper.errors import ProblemKind

# numbers on which tables must agree, like names
_SIZES = ("in_size", "out_size")

RawTable = dict[str, Any]


def is_table(value: object) -> TypeGuard[RawTable]:
    """Whether a TOML value is a table."""
    return isinstance(value, dict)


def settings_within(table: type[BaseModel], under: str) -> Iterator[str]:
    """The dotted keys of every setting of `table` and of the tables in it."""
    for name, field in table.model_fields.items():
        inner = table_in(field.annotation)
        if inner is not None:
            yield from settings_within(inner, f"{under}.{name}")
            continue
        yield f"{under}.{name}"
        kind = field.annotation
        for item in get_args(kind) if get_origin(kind) is tuple else ():
            if isinstance(item, type) and issubclass(item, Table):  # an array of tables
                yield from settings_within(item, f"{under}.{name}")


def read_table(
    table: type[AnyTable], raw: object, under: str, known: Sequence[str]
) -> tuple[AnyTable | None, list[Flaw]]:
    """The table at the key `under`, and its flaws; None if it cannot be built.

    Unknown settings are noted and then left out, so that the rest is still checked.
    """
    broken = [flaw.under(under) for flaw in _broken_rules(table, allowed_values(table, raw))]
    try:
        return table.model_validate(raw), broken
    except ValidationError as error:
        errors = without_repeats(error.errors(include_url=False))
    unknown = [error for error in errors if error["type"] == "extra_forbidden"]
    if not unknown:
        found = (flaw_of(error, under, known) for error in errors)
        return None, [_with_names(table, flaw, under) for flaw in found] + broken
    for error in unknown:
        raw = _without(raw, error["loc"])
    unread = [flaw_of(error, under, known) for error in unknown]
    read, flaws = read_table(table, raw, under, known)
    misspelt = {flaw.key.rpartition(".")[0] for flaw in unread}  # these tables lack a setting
    return read, unread + [flaw for flaw in flaws if flaw.key not in misspelt]


def _with_names(table: type[Table], flaw: Flaw, under: str) -> Flaw:
    """The flaw, with the names that a setting takes if it is missing and takes no others."""
    field = field_of(table, flaw.key.removeprefix(f"{under}."))
    kind = None if field is None else field.annotation
    names = [str(name) for name in get_args(kind)] if get_origin(kind) is Literal else []
    if flaw.kind is not ProblemKind.MISSING or len(names) < 2:
        return flaw
    return replace(flaw, hint=f"write one of {', '.join(names)}")


def with_numbers(
    table: type[AnyTable], raw: object, under: str, flaws: Sequence[Flaw]
) -> AnyTable | None:
    """The table with valid numbers instead of those in `flaws`; None if it has other flaws.

    Tables must agree on names, which can be checked even if a number is out of range.
    """
    if not is_table(raw):
        return None
    for flaw in flaws:
        setting = flaw.key.removeprefix(f"{under}.")
        field = field_of(table, setting)
        if field is None or setting.endswith(_SIZES):
            return None
        example = next(iter(field.examples or ()), field.default)
        if type(example) not in (int, float):
            return None
        raw = with_value(raw, setting.split("."), example)
    try:
        return table.model_validate(raw)
    except ValidationError:
        return None


def allowed_values(table: type[Table], raw: object) -> dict[str, Any]:
    """The settings that are valid by themselves, and defaults for those not written."""
    written = raw if is_table(raw) else {}
    values: dict[str, Any] = {
        name: field.get_default()
        for name, field in table.model_fields.items()
        if name not in written and not field.is_required()
    }
    for name in table.model_fields.keys() & written.keys():
        value, flaws = read_value(table, name, written[name], "")
        if not flaws:
            values[name] = value
    return values


def read_value(
    table: type[Table], setting: str, value: object, under: str
) -> tuple[Any, list[Flaw]]:
    """The value as one setting of `table` reads it, and its flaws."""
    try:
        return getattr(alone(table, setting).model_validate({setting: value}), setting), []
    except ValidationError as error:
        errors = without_repeats(error.errors(include_url=False))
    return value, [flaw_of(error, under) for error in errors]


def written(raw: RawTable, key: str) -> Any:
    """The value at a dotted key; None if nothing is written there."""
    value: Any = raw
    for name in key.split("."):
        value = value.get(name) if is_table(value) else None
    return value


def with_default(raw: RawTable, path: Sequence[str], value: object) -> RawTable:
    """`raw` with `value` at the dotted `path`, if nothing is written there."""
    name, *rest = path
    if not rest:
        return {name: value, **raw}
    inner = raw.get(name, {})
    return {**raw, name: with_default(inner, rest, value)} if is_table(inner) else raw


def with_value(raw: RawTable, path: Sequence[str], value: object) -> RawTable:
    """`raw` with `value` at the dotted `path`, whatever is written there or around it."""
    name, *rest = path
    inner = raw.get(name)
    inner = inner if is_table(inner) else {}
    return {**raw, name: with_value(inner, rest, value) if rest else value}


def _broken_rules(table: type[Table], values: Mapping[str, Any]) -> Iterator[Flaw]:
    for rule in table.rules:
        needed = signature(rule).parameters
        if needed.keys() <= values.keys():
            yield from rule(**{name: values[name] for name in needed})
    for name, value in values.items():
        if isinstance(value, Table):
            for flaw in _broken_rules(type(value), dict(value)):
                yield flaw.under(name)


def _without(raw: Any, path: Sequence[str | int]) -> Any:
    name, *rest = path
    if isinstance(name, int):  # the index of a table in an array
        return [*raw[:name], _without(raw[name], rest), *raw[name + 1 :]]
    if rest:
        return {**raw, name: _without(raw[name], rest)}
    return {key: value for key, value in raw.items() if key != name}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make a table class: the settings of `base`, and a table for each of `tables` by name.

    `facts` are attributes of the class: facts from other tables of the file.
    """

    base: type[RecipeTable]
    tables: tuple[tuple[str, type[Table] | Recipe], ...]
    facts: tuple[tuple[str, object], ...] = ()


class RecipeTable(Table):
    """A table made from a recipe; it is pickled as such, since its class is in no module."""

    recipe: ClassVar[Recipe]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self).recipe, dict(self))


def tables_of(table: Table) -> Mapping[str, Any]:
    """The tables in `table` by name, in the order of the file."""
    named = ((name, getattr(table, name)) for name in type(table).model_fields)
    return {name: inner for name, inner in named if isinstance(inner, Table)}


def named_in(annotation: object) -> type[Table] | None:
    """The class of the tables that a setting contains by user-chosen names; None for others."""
    arguments = get_args(annotation)
    holds = get_origin(annotation) is dict and isinstance(arguments[1], type)
    return arguments[1] if holds and issubclass(arguments[1], Table) else None


def check_names(
    names: Iterable[str], under: str, *tables: type[Table], taken: Sequence[str] = ()
) -> Iterator[Flaw]:
    """Check names, which become parts of columns and keys, and attributes of `tables`."""
    reserved = {*taken, *RecipeTable.__annotations__}
    for name in names:
        key = f"{under}.{name}"
        if not (name.isascii() and name.isidentifier()) or name.startswith("_"):
            hint = "write only letters, digits and '_', starting with a letter"
            yield Flaw(key, f"{format_value(name)} cannot be a name", hint)
        elif name in reserved or any(hasattr(t, name) for t in tables):
            yield Flaw(key, f"{format_value(name)} is a reserved word", "write another name")


@cache
def table_class(recipe: Recipe) -> type[RecipeTable]:
    """The table class of a recipe, the same one for equal recipes."""
    fields: dict[str, Any] = {}
    for name, table in recipe.tables:
        kind = table_class(table) if isinstance(table, Recipe) else table
        inherited = recipe.base.model_fields.get(name)
        meaning = inherited.description if inherited else kind.__doc__
        if isinstance(table, Recipe):  # empty if the file has none of them
            fields[name] = (kind, Field(default_factory=kind, description=meaning))
        else:
            fields[name] = (kind, Field(description=meaning))
    kind = create_model(recipe.base.__name__, __base__=recipe.base, **fields)
    kind.recipe = recipe
    for name, value in recipe.facts:
        setattr(kind, name, value)
    return kind


def _restore(recipe: Recipe, values: Mapping[str, Any]) -> RecipeTable:
    return table_class(recipe).model_construct(**values)
