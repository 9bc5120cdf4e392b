"""`[[study.enqueue]]`: values of searched settings that are tried first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from sweeper.config.conditions import is_active
from sweeper.config.kinds import flattened, items_of
from sweeper.config.reading import is_table
from sweeper.config.refusals import shown
from sweeper.config.search import CategoricalSearch, SearchEntry
from sweeper.config.table import Fault
from sweeper.trial import Scalar


def read_enqueue(
    raw: object, search: Mapping[str, SearchEntry]
) -> tuple[list[dict[str, Scalar]], list[Fault]]:
    """The values of each trial by column, and what is wrong with them."""
    written = items_of(raw) or ()
    if items_of(raw) == ():
        return [], []
    given = [table for table in written if is_table(table)]
    if not given or len(given) < len(written):
        mend = "write [[study.enqueue]] above the values of each trial"
        return [], [Fault("study.enqueue", f"{shown(raw)} is no array of tables", mend)]
    tables: list[dict[str, Scalar]] = []
    faults: list[Fault] = []
    for index, table in enumerate(given):
        values, found = _read_trial(table, f"study.enqueue.{index}", search)
        tables.append(values)
        faults += found
    return tables, faults


def _read_trial(
    table: Mapping[str, object], under: str, search: Mapping[str, SearchEntry]
) -> tuple[dict[str, Scalar], list[Fault]]:
    settings = {entry.column(key): key for key, entry in search.items()}
    values: dict[str, Scalar] = {}
    faults: list[Fault] = []
    for name, value in flattened(table):
        place, key = f"{under}.{name}", settings.get(name, name)
        if key not in search:
            faults.append(_not_searched(place, name, search, settings))
        elif key in values:
            faults.append(Fault(place, f"'{key}' is given twice", "remove one"))
        elif not isinstance(value, Scalar) or (fit := search[key].has(value)) is None:
            faults.append(Fault(place, *_outside(value, search[key])))
        else:
            values[key] = fit
    faults += _idle(values, under, search)
    return {search[key].column(key): value for key, value in values.items()}, faults


def _not_searched(
    place: str, name: str, search: Mapping[str, SearchEntry], columns: Mapping[str, str]
) -> Fault:
    """Only what trials draw can be given to one of them."""
    mend = "remove it: nothing is searched"
    if near := get_close_matches(name, (*search, *columns), n=1):
        mend = f"did you mean '{near[0]}'?"
    elif search:
        mend = f"write what is searched, by key or column: {', '.join((*search, *columns))}"
    return Fault(place, "not searched, so every trial has what the file says", mend)


def _idle(
    values: Mapping[str, Scalar], under: str, search: Mapping[str, SearchEntry]
) -> Iterator[Fault]:
    """A value that its own condition forbids would never be tried."""
    for key in values:
        when = search[key].when or {}
        known = {one: values[one] for one in when if one in values}
        if len(known) == len(when) and not is_active(search[key], known):
            wanted = ", ".join(f"{one} = {shown(values[one])}" for one in when)
            yield Fault(f"{under}.{key}", f"of no use beside {wanted}", "remove one of the two")


def _outside(value: object, entry: SearchEntry) -> tuple[str, str]:
    found = f"{shown(value)} is none of its values"
    if isinstance(entry, CategoricalSearch):
        return found, f"write one of {', '.join(map(shown, entry.choices))}"
    steps = f" in steps of {entry.step}" if entry.step not in (None, 1) else ""
    powers = ", a power of 2" if entry.type == "int" and entry.base else ""
    beside = "".join(f", or {shown(one)}" for one in entry.beside)
    return found, f"write {entry.low} to {entry.high}{steps}{powers}{beside}"
