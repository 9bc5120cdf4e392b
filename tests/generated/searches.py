"""`[search]` of generated studies: entries of every type for any settings that can be searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sweeper.config.space import types_for
from sweeper.config.table import Table, holder_of, is_fixed, table_in
from tests.generated.values import form_within, values

Entry = dict[str, Any]
Search = dict[str, Entry]  # by dotted setting

_FEW = 3  # entries in each table
_OPEN: dict[str, st.SearchStrategy[Any]] = {  # keys that user-defined functions get
    "flag": st.booleans(),
    "units": st.integers(1, 9),
    "warmth": st.sampled_from([0.5, 1.5, 2.5]),
    "mode": st.sampled_from(["a", "b"]),
}
_KINDS = {"flag": bool, "units": int, "warmth": float, "mode": str}


@dataclass(frozen=True)
class Target:
    """A setting that can be searched: its values, and which types of entry it allows."""

    key: str
    values: st.SearchStrategy[Any]
    types: tuple[str, ...]
    whole: tuple[int, ...] = ()  # of numbers those that are integers


def settings_in(table: type[Table], under: str = "") -> Iterator[str]:
    """The dotted settings of a table and of those in it."""
    for name, field in table.model_fields.items():
        inner = table_in(field.annotation)
        yield from [f"{under}{name}"] if inner is None else settings_in(inner, f"{under}{name}.")


def targets(name: str, table: type[Table]) -> list[Target]:
    """What can be searched in one table of a study."""
    found = []
    for setting in settings_in(table):
        if not is_fixed(table, setting):
            holder = holder_of(table, setting)
            assert holder is not None
            form = form_within(table, setting)
            taken, whole = values(form, f"{name}.{setting}"), (*_whole_in(form),)
            types = [one for one in types_for(*holder) if one != "int" or whole]
            found.append(Target(f"{name}.{setting}", taken, (*types,), whole))
    if table.model_config.get("extra") == "allow":
        types = {bool: ("categorical",), str: ("categorical",), float: ("float", "categorical")}
        for word, taken in _OPEN.items():
            mine = types.get(_KINDS[word], ("int", "categorical"))
            found.append(Target(f"{name}.{word}", taken, mine))
    return found


def _whole_in(form: Mapping[str, Any]) -> Iterator[int]:
    for number in range(4):
        above = number > form.get("exclusiveMinimum", -1) and number >= form.get("minimum", 0)
        below = number < form.get("exclusiveMaximum", 9) and number <= form.get("maximum", 9)
        if above and below:
            yield number


@st.composite
def searches(
    draw: st.DrawFn, choices: Mapping[str, list[Target]], needed: set[str], *, finite: bool
) -> Search:
    """Entries for all of `needed` and for some others; all finite if `finite`."""
    search: Search = {}
    every = [target for found in choices.values() for target in found]
    few = 1 if finite else _FEW
    for found in choices.values():
        keys = [target.key for target in found]
        chosen = draw(st.sets(st.sampled_from(keys), max_size=few)) if keys else set()
        for target in found:
            if target.key in chosen | needed:
                search[target.key] = draw(entries(target, finite=finite))
    for key in draw(st.permutations([*search])):
        when = draw(conditions(search, key)) if draw(st.integers(0, 3)) == 0 else {}
        if when:
            search[key]["when"] = when
    for target in every:
        if target.key not in search and draw(st.integers(0, 9)) == 0:
            drawn = [key for key, entry in search.items() if "same_as" not in entry]
            sources = [key for key in drawn if _is_like(target, search[key], key, every)]
            if sources:
                search[target.key] = {"same_as": draw(st.sampled_from(sources))}
    return _named(draw, search)


@st.composite
def entries(draw: st.DrawFn, target: Target, *, finite: bool) -> Entry:
    """An entry that fits a setting."""
    kind = draw(st.sampled_from(target.types))
    if kind == "categorical":
        few = st.lists(target.values, min_size=1, max_size=3, unique_by=_as_number)
        return {"type": kind, "choices": draw(few)}
    found = draw(st.lists(target.values, min_size=2, max_size=2))
    low, high = sorted(found)
    entry: Entry = {"type": kind}
    if kind == "int":
        entry |= draw(_whole(int(low), int(high), target))
    else:
        entry |= draw(_numbers(low, high, finite=finite))
    if draw(st.integers(0, 3)) == 0:
        beside = draw(st.lists(target.values, min_size=1, max_size=2, unique_by=_as_number))
        entry["or"] = [*dict.fromkeys(map(int, beside))] if kind == "int" else beside
        if kind == "int" and _takes_numbers(target):
            entry["or"] = [entry["low"]]
    return entry


@st.composite
def _whole(draw: st.DrawFn, low: int, high: int, target: Target) -> Entry:
    if _takes_numbers(target):  # of which integers may not fit
        low, high = sorted(draw(st.sampled_from(target.whole)) for _ in range(2))
    ways = ["plain", "step", *(["log"] if low > 0 else [])]
    powers = [2**n for n in range(8) if low <= 2**n <= high]
    way = draw(st.sampled_from([*ways, *(["base"] if powers else [])]))
    bounds: Entry = {"low": low, "high": high}
    match way:
        case "step":
            return bounds | {"step": draw(st.integers(1, 3))}
        case "log":
            return bounds | draw(st.sampled_from([{"log": True}, {"log": True, "step": 1}]))
        case "base":
            return {"low": powers[0], "high": powers[-1], "base": 2}
    return bounds


@st.composite
def _numbers(draw: st.DrawFn, low: float, high: float, *, finite: bool) -> Entry:
    bounds: Entry = {"low": low, "high": high}
    ways = ["step"] if finite else ["plain", "step", *(["log"] if low > 0 else [])]
    match draw(st.sampled_from(ways)):
        case "step":
            return bounds | {"step": max(high - low, 1e-3) / draw(st.integers(1, 4))}
        case "log":
            return bounds | {"log": True}
    return bounds


def _takes_numbers(target: Target) -> bool:
    return target.types[0] == "float"


def _as_number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def possible(entry: Entry) -> list[Any]:
    """Values that an entry has, all of them unless it is continuous."""
    if "choices" in entry:
        return list(entry["choices"])
    low, high, beside = entry["low"], entry["high"], list(entry.get("or", ()))
    if "base" in entry:
        return [2**n for n in range(20) if low <= 2**n <= high] + beside
    if entry["type"] == "int":
        return [*range(low, high + 1, entry.get("step", 1)), *beside]
    return [low, *beside, *(() if "step" in entry else (high,))]


@st.composite
def conditions(draw: st.DrawFn, search: Search, key: str) -> Entry:
    """Values of other settings, none of which depends on `key`; empty without others."""
    fit = [
        one
        for one, entry in search.items()
        if one != key and key not in above(search, one) and _is_finite(entry)
    ]
    chosen = draw(st.lists(st.sampled_from(fit), max_size=2, unique=True)) if fit else []
    when: Entry = {}
    for one in chosen:
        wanted = st.sampled_from(possible(search[one]))
        when[one] = draw(st.one_of(wanted, st.lists(wanted, min_size=1, max_size=3)))
    return when


def _is_finite(entry: Entry) -> bool:
    return entry["type"] != "float" or "step" in entry


def above(search: Search, key: str) -> set[str]:
    """Everything that a setting depends on."""
    parents = set(search[key].get("when", ()))
    return parents.union(*(above(search, parent) for parent in parents))


def _is_like(target: Target, entry: Entry, key: str, every: list[Target]) -> bool:
    """Whether a setting accepts every value of another's entry: they have the same values."""
    source = next(one for one in every if one.key == key)
    known = target.key.partition(".")[2], key.partition(".")[2]
    alike = {"b1", "b2", "ema", "dropout", "label_smoothing", "decay", "momentum"}
    return source.types == target.types and (
        set(known) <= alike
        or set(known) <= {"width", "batch_size", "epochs"}
        or set(known) <= {"layer_norm", "nesterov", "multiply_by_parameter_scale"}
    )


def _named(draw: st.DrawFn, search: Search) -> Search:
    """With a column for each: written if the last part of the key is already used."""
    taken = {"json"}
    for key, entry in search.items():
        if "same_as" in entry:
            continue
        column = key.rpartition(".")[2]
        if column in taken or draw(st.integers(0, 4)) == 0:
            column = entry["name"] = key.replace(".", "_")
        taken.add(column)
    return search


def column(key: str, entry: Entry) -> str:
    """The column of an entry."""
    return entry.get("name", key.rpartition(".")[2])
