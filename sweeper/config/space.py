"""From the raw `[search]` to entries that fit the settings they fill."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import NoneType, UnionType
from typing import Annotated, Union, cast, get_args, get_origin

from sweeper.config.reading import (
    RawTable,
    is_table,
    read_table,
    read_value,
    settings_within,
    written,
)
from sweeper.config.refusals import format_value, missing, unknown_name, unknown_setting
from sweeper.config.search import (
    CategoricalSearch,
    FloatSearch,
    IntSearch,
    SameAs,
    SearchEntry,
    check_order,
)
from sweeper.config.table import (
    Flaw,
    Table,
    field_of,
    fixed_part,
    holder_of,
    is_fixed,
    table_in,
)
from sweeper.config.toml import toml_value
from sweeper.errors import ProblemKind, did_you_mean

SEARCHED_TABLES = ("model", "optimizer", "train")

ENTRIES: dict[str, type[SearchEntry]] = {
    "int": IntSearch,
    "float": FloatSearch,
    "categorical": CategoricalSearch,
}
_ENTRY_WORDS = frozenset(
    word for entry in (*ENTRIES.values(), SameAs) for word in entry.model_fields
)

# what a setting of a type takes, and the search types that provide it, the most natural first
_TAKES: dict[object, tuple[str, tuple[str, ...]]] = {
    int: ("an integer", ("int", "categorical")),
    float: ("a number", ("float", "int", "categorical")),
    bool: ("true or false", ("categorical",)),
}
_TAKES_A_NAME = ("a name", ("categorical",))

# how many values a range of integers may have; for depths, each pair is compared
_MAX_VALUES = {"depth": 200}
_MAX_OF_OTHERS = 100_000


def flat_search(raw: RawTable, under: str = "") -> Iterator[tuple[str, object]]:
    """The raw entries of `[search]` by dotted setting, however the tables were nested."""
    for name, value in raw.items():
        key = f"{under}.{name}" if under else name
        if is_table(value) and not is_entry(value):
            yield from flat_search(value, key)
        else:
            yield key, value


def read_entry(
    setting: str, raw: object, tables: Mapping[str, type[Table] | None]
) -> tuple[SearchEntry | SameAs | None, list[Flaw]]:
    """The entry that fills `setting`, or None if something is wrong, and its flaws.

    `tables` are the tables that may be searched; None is a table whose kind is unknown.
    """
    key = f"search.{setting}"
    name, _, last = setting.partition(".")
    table = tables.get(name)
    misplaced = list(_target_flaws(setting, tables))
    holder = None if table is None else holder_of(table, last)
    entry, flaws = _read_by_type(raw, key, holder)
    if entry is not None and not isinstance(entry, SameAs) and holder and not misplaced:
        entry, unfit = _fit_entry(entry, *holder, key)
        if unfit and isinstance(entry, IntSearch | FloatSearch):  # one of the ends is wrong
            crossed = [flaw.under(key) for flaw in check_order(entry.low, entry.high)]
            flaws = [flaw for flaw in flaws if flaw not in crossed]
        reported = {flaw.key for flaw in flaws}
        flaws += [flaw for flaw in unfit if flaw.key not in reported]
    if is_table(raw) or not _is_around_settings(setting, tables):
        flaws += misplaced
    return (None if flaws else entry), flaws


def taken_columns(search: Mapping[str, SearchEntry]) -> Iterator[Flaw]:
    """Check that no two entries share a column, or use one that the results already have.

    Columns that differ only by case count as equal, as in DuckDB.
    """
    first = {"json": ("all parameters", "")}  # params_json
    for setting, entry in search.items():
        column = entry.column(setting)
        if column.lower() in first:
            whose, called = first[column.lower()]
            alike = f" ('{called}'; case does not matter)" if called not in ("", column) else ""
            found = f"the column '{column}' already belongs to {whose}{alike}"
            yield Flaw(f"search.{setting}", found, 'write another, name = "..."')
        first.setdefault(column.lower(), (setting, column))


def check_links(
    links: Mapping[str, str],
    search: Mapping[str, SearchEntry],
    tables: Mapping[str, type[Table] | None],
) -> Iterator[Flaw]:
    """Check that a setting with `same_as` accepts every value of the other setting."""
    for setting, source in links.items():
        key = f"search.{setting}.same_as"
        if source in links:
            found = f"neither '{setting}' nor '{source}' has values of its own"
            if source == setting:
                found = f"'{setting}' refers to itself, so it has no values"
            yield Flaw(key, found, "name a setting with values, or give one of them a type = ...")
            continue
        if source not in search:
            yield unsearched_flaw(key, source, search)
            continue
        name, _, last = setting.partition(".")
        table = tables[name]
        holder = None if table is None else holder_of(table, last)
        if holder is not None:
            for flaw in _fit_entry(search[source], *holder, key)[1]:
                yield replace(flaw, key=key, hint=f"name another setting, or fix search.{source}")


def unsearched_flaw(key: str, setting: str, search: Mapping[str, SearchEntry]) -> Flaw:
    """The flaw of naming a setting that no trial draws."""
    hint = did_you_mean(setting, [*search]) or f"[search] has {', '.join(search) or 'none'}"
    return Flaw(key, f"'{setting}' is not searched", hint)


def any_value(entry: SearchEntry) -> object:
    """A value of the entry, the same one in every call."""
    return entry.choices[0] if isinstance(entry, CategoricalSearch) else entry.low


def is_entry(raw: RawTable) -> bool:
    """Whether a table below [search] is an entry, not a table of entries."""
    # a setting may have the name of a key of an entry, such as optimizer.name: then this is a table
    words = {word for word in _ENTRY_WORDS & raw.keys() if not is_table(raw[word])}
    if words == {"name"}:  # a setting without its entry, if there are others
        return not any(is_table(value) for key, value in raw.items() if key != "when")
    return not raw or bool(words)


def _target_flaws(setting: str, tables: Mapping[str, type[Table] | None]) -> Iterator[Flaw]:
    key = f"search.{setting}"
    name, _, last = setting.partition(".")
    table = tables.get(name)
    if name in tables and table is None:
        return
    fixed = None if table is None else fixed_part(table, last)
    if fixed is not None:
        where = name if fixed == last else f"{name}.{fixed}"
        yield Flaw(key, "must be the same for every trial", f"write it only in [{where}]")
        return
    if table is not None and _has_setting(table, last):
        return
    searchable = [
        setting
        for name, table in tables.items()
        if table is not None
        for setting in settings_within(table, name)
        if not is_fixed(table, setting.partition(".")[2])
    ]
    flaw = unknown_setting(key, setting, searchable)
    yield flaw if name in tables else replace(flaw, found="not a setting that can be searched")


def _is_around_settings(setting: str, tables: Mapping[str, type[Table] | None]) -> bool:
    """Whether a dotted key is that of a table, not of a setting."""
    name, _, last = setting.partition(".")
    table = tables.get(name)
    found = None if table is None or not last else field_of(table, last)
    return setting in tables or (found is not None and table_in(found.annotation) is not None)


def _has_setting(table: type[Table], setting: str) -> bool:
    """Whether there is such a setting; a table for a user-defined function may have any."""
    found = holder_of(table, setting)
    if found is None:
        around = table_around(table, setting)
        return around is not None and around.model_config.get("extra") == "allow"
    return table_in(found[0].model_fields[found[1]].annotation) is None


def table_around(table: type[Table], setting: str) -> type[Table] | None:
    """The table that a dotted `setting` of `table` would be in; None if there is none."""
    parent, _, last = setting.rpartition(".")
    if not parent or not last:
        return table if last else None
    found = holder_of(table, parent)
    return None if found is None else table_in(found[0].model_fields[found[1]].annotation)


def _read_by_type(
    raw: object, key: str, holder: tuple[type[Table], str] | None
) -> tuple[SearchEntry | SameAs | None, list[Flaw]]:
    """The entry of its type; `holder` is the table with the setting, and its name there."""
    if not is_table(raw):
        hint = f"write {_example(raw, holder)}"
        return None, [Flaw(key, f"{format_value(raw)} is not a table", hint)]
    if "same_as" in raw:
        return read_table(SameAs, raw, key, [f"{key}.same_as"])
    options = ", ".join(ENTRIES)
    if "type" not in raw:
        return None, [missing(f"{key}.type", f"write one of {options}")]
    entry_type = ENTRIES.get(raw["type"]) if isinstance(raw["type"], str) else None
    if entry_type is None:
        return None, [unknown_name(f"{key}.type", raw["type"], options)]
    entry, flaws = read_table(entry_type, raw, key, list(settings_within(entry_type, key)))
    takes_floats = holder is None or "float" in types_for(*holder)
    if entry_type is IntSearch and takes_floats:
        flaws = [_with_type(flaw, written(raw, flaw.key.rpartition(".")[2])) for flaw in flaws]
    return entry, flaws


def _with_type(flaw: Flaw, value: object) -> Flaw:
    """The flaw of an entry of integers, which advises another type if the value is a float."""
    is_float = isinstance(value, float) and flaw.kind is ProblemKind.NOT_AN_INTEGER
    return replace(flaw, hint=f'{flaw.hint}, or type = "float"') if is_float else flaw


def _are_ends(choices: list[object], type_name: str) -> bool:
    """Whether two values may be the ends of a range of numbers of this type."""
    wanted = (int,) if type_name == "int" else (int, float)
    return len({*choices}) == len(choices) == 2 and all(type(one) in wanted for one in choices)


def _example(raw: object, holder: tuple[type[Table], str] | None) -> str:
    """An entry for a setting, with the values of `raw` if it is an array of them."""
    types = ("int",) if holder is None else types_for(*holder)
    choices = cast("list[object]", raw) if isinstance(raw, list) else []
    if choices and all(isinstance(one, str | int | float) for one in choices):
        entry = f'{{ type = "categorical", choices = {toml_value(choices)} }}'
        if types[0] != "categorical" and _are_ends(choices, types[0]):
            low, high = map(toml_value, sorted(cast("list[float]", choices)))
            entry += f', or {{ type = "{types[0]}", low = {low}, high = {high} }} for a range'
        return entry
    if types[0] == "int":
        return 'e.g. { type = "int", low = 1, high = 4 }'
    if types[0] == "float":
        return 'e.g. { type = "float", low = 0.001, high = 0.1 }'
    assert holder is not None, "only then is it not an integer"
    kind = _kind(holder[0].model_fields[holder[1]].annotation)
    names = [True, False] if kind is bool else [*get_args(kind)][:2]
    is_listed = len(names) == 2 and all(isinstance(one, str | bool) for one in names)
    shown = toml_value(names) if is_listed else "[...]"
    return f'e.g. {{ type = "categorical", choices = {shown} }}'


def types_for(table: type[Table], name: str) -> tuple[str, ...]:
    """The search types whose values the setting accepts, the most natural first."""
    return _taking(table, name)[1]


def _taking(table: type[Table], name: str) -> tuple[str, tuple[str, ...]]:
    return _TAKES.get(_kind(table.model_fields[name].annotation), _TAKES_A_NAME)


def _fit_entry(
    entry: SearchEntry, table: type[Table], name: str, key: str
) -> tuple[SearchEntry, list[Flaw]]:
    taken, types = _taking(table, name)
    if entry.type not in types:
        found = f"{entry.type}, but the setting takes {taken}"
        return entry, [Flaw(f"{key}.type", found, f'write type = "{types[0]}"')]
    if isinstance(entry, CategoricalSearch):
        return _fitted_choices(entry, table, name, key)
    flaws: list[Flaw] = []
    extra = (("or", value) for value in entry.or_values)
    for word, value in (("low", entry.low), ("high", entry.high), *extra):
        _, found = read_value(table, name, value, key)
        flaws += [replace(flaw, key=f"{key}.{word}") for flaw in found]
    return entry, flaws or [*_too_many(entry, name, key)]


def _too_many(entry: IntSearch | FloatSearch, name: str, key: str) -> Iterator[Flaw]:
    """Refuse too many values of an integer setting: planning goes through each, for hours."""
    most = _MAX_VALUES.get(name, _MAX_OF_OTHERS)
    if isinstance(entry, IntSearch) and entry.count() > most:
        found = f"{entry.count()} values from {entry.low} to {entry.high}"
        yield Flaw(key, found, f"write a larger step, for at most {most} values")


def _kind(annotation: object) -> object:
    """The type of a setting without its bounds, even if the setting is optional."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    is_optional = get_origin(annotation) in (Union, UnionType) and len(kinds) == 1
    return _kind(kinds[0]) if is_optional else annotation


def _fitted_choices(
    entry: CategoricalSearch, table: type[Table], name: str, key: str
) -> tuple[SearchEntry, list[Flaw]]:
    read = [read_value(table, name, choice, key) for choice in entry.choices]
    flaws = [replace(flaw, key=f"{key}.choices") for _, found in read for flaw in found]
    # converted to the setting's type: a 0 among rates is 0.0
    return entry.model_copy(update={"choices": tuple(value for value, _ in read)}), flaws
