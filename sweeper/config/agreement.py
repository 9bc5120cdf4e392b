"""Rules between tables of a study file, for written and for searched settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from sweeper.config.alternating import (
    DATA,
    AlternatingTable,
    check_metrics,
    check_phases,
    idle_parts,
)
from sweeper.config.coupled import CoupledTable, check_models, sizes_of
from sweeper.config.data import NpzTable
from sweeper.config.kinds import is_function
from sweeper.config.model import PartsTable, check_wiring
from sweeper.config.optimizer import SHAPES
from sweeper.config.reading import RawTable, is_table, with_default
from sweeper.config.refusals import MISSING
from sweeper.config.rules import endless_decay, idle_schedule
from sweeper.config.search import SearchEntry
from sweeper.config.space import any_value
from sweeper.config.table import Flaw, Table, field_of
from sweeper.config.train import EpochsTable, SupervisedTable, idle_of_loss
from sweeper.config.user_program import OwnProgramTable, check_dropout


def check_parts(
    model: Table | None, train: Table | None, searched: Collection[str]
) -> Iterator[Flaw]:
    """Check that the program fits the model: one model, or the parts that it names."""
    if isinstance(train, OwnProgramTable) and model is not None:
        yield from check_dropout(model, searched)
    if not isinstance(train, AlternatingTable | CoupledTable):
        if isinstance(model, PartsTable) and isinstance(train, SupervisedTable | OwnProgramTable):
            found = f"several parts, but the program {train.program} trains one model"
            hint = 'write train.program = "alternating" or "coupled", or one [model]'
            yield Flaw("model", found, hint)
        return
    if not isinstance(model, PartsTable):
        if model is not None:
            found = f"one model, but the program {train.program} trains parts"
            yield Flaw("model", found, "write a table [model.NAME] for each part")
        return
    if isinstance(train, CoupledTable):
        yield from check_models(train, model, searched)
        return
    inputs = inputs_of(model)
    faults = [*check_wiring(inputs), *check_phases(train, inputs)]
    yield from faults
    yield from check_metrics(train)
    if not faults:
        yield from _unfit_sizes(model, train)


def check_rows(data: Table | None, train: Table | None) -> Iterator[Flaw]:
    """Check that rows have a target only if something predicts it, and modes only if generated."""
    if data is None or not isinstance(train, EpochsTable):
        return
    of_rows = isinstance(train, CoupledTable)
    if of_rows and train.target is None:
        found = f"the objective {train.loss} predicts nothing"
        if not isinstance(data, NpzTable):
            hint = 'write source = "npz", whose rows need no target'
            if is_function(train.loss):
                hint += ", or write train.task and a target"
            yield Flaw("data.source", f"rows have a target, but {found}", hint)
        elif data.y is not None:
            yield Flaw("data.y", found, "remove it")
    if isinstance(data, NpzTable) and data.mode is not None and not (of_rows and train.generates):
        found = "no model generates rows to compare with the modes"
        yield Flaw("data.mode", found, "remove it")


def inputs_of(model: PartsTable) -> dict[str, str | None]:
    """The part that feeds each part; None if it is fed by the data."""
    return {name: part.input for name, part in model.parts.items()}


def sizes_of_parts(
    model: PartsTable, train: AlternatingTable | CoupledTable, features: int, targets: int
) -> Mapping[str, tuple[int, int]]:
    """The input and output size of each part, given those of the data."""
    if isinstance(train, CoupledTable):
        return sizes_of(model, features)
    outs = out_sizes(model, train, targets)
    return {
        name: (features if source is None else outs[source], outs[name])
        for name, source in inputs_of(model).items()
    }


def out_sizes(model: PartsTable, train: AlternatingTable, of_data: int) -> Mapping[str, int]:
    """The output size of each part, if the data has `of_data` targets."""
    return {name: _size(name, model, train, of_data) or 0 for name in model.parts}


def _size(
    name: str, model: PartsTable, train: AlternatingTable, of_data: int, seen: tuple[str, ...] = ()
) -> int | None:
    """The part's own output size, or the size that a loss compares it with; None if unknown."""
    own = model.parts[name].out_size
    if own is not None or name in seen:
        return own
    for loss in train.by_loss.values():
        if loss.of == name and loss.against == DATA:
            return of_data
    others = [loss.against for loss in train.by_loss.values() if loss.of == name]
    others += [loss.of for loss in train.by_loss.values() if loss.against == name]
    sizes = (_size(other, model, train, of_data, (*seen, name)) for other in others)
    return next((size for size in sizes if size is not None), None)


def _unfit_sizes(model: PartsTable, train: AlternatingTable) -> Iterator[Flaw]:
    of_data = -1  # a size that no part can have
    idle = idle_parts(train, inputs_of(model))
    for name in model.parts:
        if name in idle and model.parts[name].out_size is None:
            found = "no loss depends on this part, so nothing trains it"
            yield Flaw(f"model.{name}", found, "remove it, or add a loss that uses it")
        elif _size(name, model, train, of_data) is None:
            found = f"{MISSING}, and no loss determines the size of '{name}'"
            yield Flaw(f"model.{name}.out_size", found, "write out_size = ...")
    for name, part in model.parts.items():
        if part.in_size is not None:
            source = "the data" if part.input is None else f"the output of '{part.input}'"
            found = f"{part.in_size}, but the input of '{name}' is {source}"
            yield Flaw(f"model.{name}.in_size", found, "remove it")
    for name, loss in train.by_loss.items():
        own = _size(loss.of, model, train, of_data)
        other = of_data if loss.against == DATA else _size(loss.against, model, train, of_data)
        if None in (own, other) or own == other:
            continue
        if loss.against == DATA:
            found = f"{own}, but the loss {name} compares '{loss.of}' with the data"
            yield Flaw(
                f"model.{loss.of}.out_size", found, "remove it: the data determines the size"
            )
        else:
            own, other = ("as many as the data" if n == of_data else n for n in (own, other))
            found = f"outputs of '{loss.of}': {own}, of '{loss.against}': {other}"
            yield Flaw(f"train.losses.{name}", found, "write the same out_size for both")


Search = Mapping[str, SearchEntry]
"""All entries of `[search]`, including settings that take the value of another."""


def names_of(search: Search, key: str, kept: object) -> tuple[str, ...]:
    """The values that trials have of a setting: those drawn, and the one kept if none is drawn."""
    entry = search.get(key)
    drawn = () if entry is None else entry.values() or ()
    names = drawn if entry is not None and not entry.when else (*drawn, kept)
    return tuple(dict.fromkeys(map(str, names)))


def all_drawn(raw: RawTable, name: str, search: Search) -> RawTable:
    """The table `name` with a value for every searched setting, whichever trials draw it."""
    for key, entry in search.items():
        if key.startswith(f"{name}."):
            raw = with_default(raw, key.removeprefix(f"{name}.").split("."), any_value(entry))
    return raw


def check_schedules(
    key: str, optimizer: RawTable, search: Search, *, is_own: bool
) -> Iterator[Flaw]:
    """Check that every schedule has a learning rate to change and uses all of its numbers."""
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
        yield Flaw(f"{key}.lr", "missing, but a schedule changes it", "write lr = ...")


def _is_always(key: str, optimizer: RawTable, search: Search) -> bool:
    """Whether every trial has a value for a setting."""
    entry = search.get(key)
    return key.rpartition(".")[2] in optimizer or (entry is not None and not entry.when)


def check_training(train: RawTable, search: Search) -> Iterable[Flaw]:
    """Check that settings drawn by some trials only are used by the loss and in tables of all."""
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
        yield Flaw(f"search.{stops[0]}", found, "write [train.early_stop] with patience = ...")
    for key in conditional:
        setting = key.partition(".")[2]
        if setting not in train:
            for fault in idle_of_loss(train.get("loss"), setting):
                yield fault.under("search.train")


def _is_required(setting: str) -> bool:
    field = field_of(SupervisedTable, setting)
    return field is not None and field.is_required()
