"""What the values that trials draw must agree on with all else that these trials have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sweeper.config.lr_schedule import SHAPES
from sweeper.config.reading import RawTable, is_table, with_default
from sweeper.config.rules import endless_decay, idle_schedule
from sweeper.config.search import SearchEntry
from sweeper.config.space import any_value
from sweeper.config.table import Fault, field_of
from sweeper.config.train import SupervisedTable, idle_of_loss

Search = Mapping[str, SearchEntry]
"""The entries of all settings that are searched, also of those that take another's value."""


def names_of(search: Search, key: str, kept: object) -> tuple[str, ...]:
    """The names that trials have of a setting: what they draw, and what those keep that do not."""
    entry = search.get(key)
    drawn = () if entry is None else entry.values() or ()
    names = drawn if entry is not None and not entry.when else (*drawn, kept)
    return tuple(dict.fromkeys(map(str, names)))


def all_drawn(raw: RawTable, name: str, search: Search) -> RawTable:
    """The table `name` with a value for all that is searched, whichever trials draw it."""
    for key, entry in search.items():
        if key.startswith(f"{name}."):
            raw = with_default(raw, key.removeprefix(f"{name}.").split("."), any_value(entry))
    return raw


def unfit_schedules(
    key: str, optimizer: RawTable, search: Search, *, is_own: bool
) -> Iterator[Fault]:
    """Every schedule of the optimizer at `key` has a rate to change, and use for its numbers."""
    written = optimizer.get("schedule", {})
    if not is_table(written):
        return
    schedule = all_drawn(optimizer, key, search).get("schedule", {})
    kept = written.get("name", "constant")
    names = names_of(search, f"{key}.schedule.name", kept)
    if not all(name in SHAPES for name in names):
        return
    yield from idle_schedule(key, schedule, names)
    yield from endless_decay(key, written, names)
    end = search.get(f"{key}.schedule.end")
    if end is not None and end.has(0.0) is not None:
        for fault in endless_decay(key, {"end": 0}, names):
            yield replace(fault, key=f"search.{key}.schedule.end")
    if is_own and set(names) != {"constant"} and not _is_always(f"{key}.lr", optimizer, search):
        yield Fault(f"{key}.lr", "missing, and a schedule changes it", "write lr = ...")


def _is_always(key: str, optimizer: RawTable, search: Search) -> bool:
    """Whether every trial has a value of a setting."""
    entry = search.get(key)
    return key.rpartition(".")[2] in optimizer or (entry is not None and not entry.when)


def unfit_training(train: RawTable, search: Search) -> Iterable[Fault]:
    """What some trials draw alone is of use for the loss, and in a table that all have."""
    conditional = [key for key, entry in search.items() if entry.when and key.startswith("train.")]
    stops = [
        key
        for key in conditional
        if key.startswith("train.early_stop.") and not _is_required(key.partition(".")[2])
    ]
    unconditional = [key for key in search if key not in conditional]
    has_table = any(key.startswith("train.early_stop.") for key in unconditional)
    if stops and "early_stop" not in train and not has_table:
        found = "trials that do not draw it have no [train.early_stop]"
        yield Fault(f"search.{stops[0]}", found, "write [train.early_stop], with patience = ...")
    for key in conditional:
        setting = key.partition(".")[2]
        if setting not in train:
            for fault in idle_of_loss(train.get("loss"), setting):
                yield fault.under("search.train")


def _is_required(setting: str) -> bool:
    field = field_of(SupervisedTable, setting)
    return field is not None and field.is_required()
