"""Searches that fit the other tables of a generated study."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sweeper.config.model import MixedTable
from sweeper.config.optimizer import (
    SHAPES,
    MixedOptimizerTable,
    UserOptimizerTable,
    takes,
)
from sweeper.config.train import WEIGHED, SupervisedTable
from tests.generated.frames import Draw, Frame, Study, some
from tests.generated.searches import Search, Target, possible, searches, targets


@st.composite
def fitting_searches(draw: Draw, study: Study, frame: Frame, *, finite: bool) -> Search:
    tables = {"model": frame.model, "optimizer": frame.optimizer, "train": SupervisedTable}
    choices = {name: targets(name, table) for name, table in tables.items()}
    unfit = {"optimizer.schedule.name"}
    if frame.loss not in WEIGHED:
        unfit.add("train.label_smoothing")
    if frame.loss != "huber":
        unfit.add("train.huber_delta")
    if "early_stop" not in study["train"]:
        unfit |= {"train.early_stop.patience", "train.early_stop.min_delta"}
    schedules = draw(schedule_names(study, frame))
    write_schedule(draw, study, schedules)
    used = {key for name in schedules for key in SHAPES[name]}
    if "exponential" in schedules:
        used -= {"end"}
    unfit |= {f"optimizer.schedule.{key}" for key in {"warmup", "flat", "start", "end"} - used}
    needed = {"model.kind"} if frame.model is MixedTable else set[str]()
    if frame.optimizer is MixedOptimizerTable:
        needed.add("optimizer.name")
    if frame.optimizer is UserOptimizerTable and "lr" not in study["optimizer"]:
        unfit.add("optimizer.lr")
    fit = {
        name: [target for target in found if target.key not in unfit]
        for name, found in choices.items()
    }
    if frame.may_be_tabm:
        few = Target("model.depth", st.integers(1, 3), ("int", "categorical"), (1, 2, 3))
        fit["model"] = [few if target.key == few.key else target for target in fit["model"]]
    if len(schedules) > 1:
        fit["optimizer"].append(
            Target("optimizer.schedule.name", st.sampled_from(schedules), ("categorical",))
        )
        needed.add("optimizer.schedule.name")
    search = draw(searches(fit, needed, finite=finite))
    if len(schedules) > 1:
        search["optimizer.schedule.name"]["choices"] = schedules
        _drop_unmet(search, "optimizer.schedule.name")
    if frame.optimizer is UserOptimizerTable and _is_drawn_by_some(search, "optimizer.warmth"):
        study["optimizer"].setdefault("warmth", 1.0)  # for those that do not draw it
    return search


def _is_drawn_by_some(search: Search, key: str) -> bool:
    entry = search.get(key, {})
    return "when" in search.get(entry.get("same_as", key), {})


def possible_names(study: Study, search: Search, key: str) -> list[str]:
    """All values in any trial of a setting that names something."""
    table, *path = key.split(".")
    kept: Any = study[table]
    for name in path:
        kept = kept.get(name, "constant") if isinstance(kept, dict) else kept
    if key not in search:
        return [kept]
    drawn = possible(search[key])
    return [*drawn, *([kept] if "when" in search[key] and kept not in drawn else [])]


def _drop_unmet(search: Search, key: str) -> None:
    for entry in search.values():
        if key in entry.get("when", {}):
            entry["when"] = {**entry["when"], key: search[key]["choices"][0]}


@st.composite
def schedule_names(draw: Draw, study: Study, frame: Frame) -> list[str]:
    if frame.optimizer is UserOptimizerTable and "lr" not in study["optimizer"]:
        return ["constant"]
    return draw(some(SHAPES, 3, 1))


def write_schedule(draw: Draw, study: Study, names: list[str]) -> None:
    """What the schedules of all trials use."""
    keys = {key for name in names for key in SHAPES[name]}
    shares = st.sampled_from([0.1, 0.5])
    table = {key: draw(shares) for key in sorted(keys) if draw(st.booleans())}
    if names and (names != ["constant"] or draw(st.booleans())):
        table = {"name": names[0], **table}
    if table:
        study["optimizer"]["schedule"] = table


def drop_idle_keys(study: Study, frame: Frame, search: Search) -> None:
    """If model or optimizer are searched, only settings that one of them accepts."""
    if frame.model is MixedTable:
        _fit_kinds(study, search)
    if frame.optimizer is not MixedOptimizerTable:
        return
    names = possible_names(study, search, "optimizer.name")
    optimizer = study["optimizer"]
    for key in [key for key in optimizer if not any(takes(name, key) for name in names)]:
        del optimizer[key]
    idle = [
        key
        for key in search
        if key.startswith("optimizer.")
        and not any(takes(name, key.partition(".")[2]) for name in names)
    ]
    for key in idle:
        _forget(search, key)
    if idle:  # on one of which the optimizer may have depended
        drop_idle_keys(study, frame, search)


def _fit_kinds(study: Study, search: Search) -> None:
    """A function and its arguments, if it builds the model of some trial."""
    model = study["model"]
    drawn = possible(search["model.kind"])
    if model["kind"] not in drawn and "when" not in search["model.kind"]:
        model["kind"] = drawn[0]
    if "python" in (*drawn, model["kind"]):
        model.setdefault("function", "nets:build")
        return
    for key in ("function", "fixed_start"):
        model.pop(key, None)
    for key in [key for key in search if key.startswith("model.")]:
        if key.partition(".")[2] not in MixedTable.model_fields:
            _forget(search, key)


@st.composite
def allow_linear_models(draw: Draw, study: Study, search: Search) -> None:
    """A depth of 0 for some trials, if none of them may be a TabM."""
    if "tabm" in possible_names(study, search, "model.kind"):
        return
    if draw(st.booleans()):
        study["model"]["depth"] = 0
    entry = search.get("model.depth")
    if entry is not None and draw(st.booleans()):
        values = "choices" if entry["type"] == "categorical" else "or"
        entry[values] = [*entry.get(values, []), 0]


def _forget(search: Search, key: str) -> None:
    """Remove an entry, and everything that depends on it."""
    if search.pop(key, None) is None:
        return
    for one in [one for one, entry in search.items() if entry.get("same_as") == key]:
        _forget(search, one)
    for entry in search.values():
        if key in entry.get("when", {}):
            entry["when"] = {name: value for name, value in entry["when"].items() if name != key}
            if not entry["when"]:
                del entry["when"]


def drop_drawn(draw: Draw, study: Study, search: Search) -> None:
    """A setting that every trial draws needs no other value."""
    for key, entry in search.items():
        table, *inner, name = key.split(".")
        holder = study[table]
        for one in inner:
            holder = holder.get(one, {})
        if "when" not in entry and "same_as" not in entry and draw(st.booleans()):
            holder.pop(name, None)


def nested(search: Search) -> Study:
    found: Study = {}
    for key, entry in search.items():
        *path, name = key.split(".")
        table = found
        for one in path:
            table = table.setdefault(one, {})
        table[name] = entry
    return found
