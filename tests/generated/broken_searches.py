"""One entry of `[search]`, or of the trials tried first, that draws nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from sweeper.config.model import MixedTable, PythonTable
from sweeper.config.optimizer import UserOptimizerTable
from tests.generated.bending import (
    entries,
    entry_for,
    kind_of,
    pick,
    put,
)
from tests.generated.breakage import ADAPTIVE, SEVERAL, Wrong, breaking
from tests.generated.frames import Draw, Study
from tests.generated.searches import Entry, above, possible

_INT: Entry = {"type": "int", "low": 2, "high": 8}
_FLOAT: Entry = {"type": "float", "low": 0.1, "high": 0.5}
_CHOICE: Entry = {"type": "categorical", "choices": [1, 2]}
# an entry for train.epochs, the word at which it is reported, and whether a schema detects it
_BAD_ENTRIES: list[tuple[Entry | Any, str, bool]] = [
    ({**_INT, "setp": 1}, ".setp", True),
    ({**_INT, "choices": [1]}, ".choices", True),
    ({**_INT, "type": "itn"}, ".type", True),
    ({**_INT, "type": 1}, ".type", True),
    ({"low": 1, "high": 2}, ".type", True),
    ({"type": "int", "low": 1}, ".high", True),
    ({"type": "int", "high": 1}, ".low", True),
    ({"type": "categorical"}, ".choices", True),
    ({**_INT, "low": "a"}, ".low", True),
    ({**_INT, "high": 8.5}, ".high", True),
    ({**_INT, "low": 0}, ".low", True),
    ({**_INT, "high": 20_000_000}, ".high", True),
    ({**_INT, "low": 9}, ".low", False),
    ({**_INT, "step": 0}, ".step", True),
    ({**_INT, "step": 2, "log": True}, ".step", False),
    ({**_INT, "log": 1}, ".log", True),
    ({**_INT, "base": 2, "log": True}, ".base", False),
    ({**_INT, "base": 2, "step": 2}, ".base", False),
    ({**_INT, "base": 3}, ".base", True),
    ({**_INT, "low": 3, "base": 2}, ".low", False),
    ({**_INT, "or": [0]}, ".or", False),
    ({**_INT, "or": 9}, ".or", True),
    ({**_INT, "or": [99, 99]}, ".or", False),
    ({**_INT, "name": "a b"}, ".name", True),
    ({**_INT, "name": "json"}, "", False),
    ({**_INT, "when": {}}, ".when", True),
    ({**_INT, "when": {"model.nonsuch": 1}}, ".when", False),
    ({**_INT, "when": True}, ".when", True),
    ({**_CHOICE, "choices": []}, ".choices", True),
    ({**_CHOICE, "choices": [1, 1]}, ".choices", False),
    ({**_CHOICE, "choices": [0, 1]}, ".choices", True),
    ({**_CHOICE, "choices": ["a", 1]}, ".choices", True),
    ({**_CHOICE, "low": 1}, ".low", True),
    (_FLOAT, ".type", True),
    ({"same_as": "nonsuch"}, ".same_as", False),
    ({"same_as": 1}, ".same_as", True),
    ({"same_as": "train.epochs"}, ".same_as", False),
    ({"same_as": "model.width", "low": 1}, ".low", True),
    (1, "", True),
    ([1, 2], "", True),
    ({}, ".type", True),
]


@breaking(SEVERAL)
def bad_entry(draw: Draw, study: Study) -> Wrong:
    entry, told, in_schema = draw(st.sampled_from(_BAD_ENTRIES))
    study = entry_for(study, "train.epochs", entry)
    study["train"].setdefault("epochs", 4)  # for trials that do not draw it
    # a grid has too many of some
    return Wrong(study, f"search.train.epochs{told}", in_schema, other="search.train.epochs")


@breaking(ADAPTIVE)
def bad_numbers(draw: Draw, study: Study) -> Wrong:
    """Entries for a number that is above 0."""
    wrong: list[tuple[Entry, str, bool]] = [
        ({**_FLOAT, "low": 0}, ".low", True),
        ({**_FLOAT, "low": -1, "log": True}, ".low", True),
        ({**_FLOAT, "log": True, "step": 1.0}, ".step", False),
        ({**_FLOAT, "step": 1e-300}, ".step", False),
        ({**_FLOAT, "step": 0}, ".step", True),
        ({**_FLOAT, "high": 0.05}, ".low", False),
        ({**_FLOAT, "or": [0.0]}, ".or", False),
        ({"type": "categorical", "choices": [0.1, "a"]}, ".choices", True),
    ]
    if kind_of(study, "optimizer") is UserOptimizerTable:
        assume("lr" in study["optimizer"])
    entry, told, in_schema = draw(st.sampled_from(wrong))
    assume(study["study"].get("sampler", {}).get("name") != "grid")
    return Wrong(entry_for(study, "optimizer.lr", entry), f"search.optimizer.lr{told}", in_schema)


@breaking(SEVERAL)
def unsearchable_setting(draw: Draw, study: Study) -> Wrong:
    wrong: dict[str, bool] = {
        "train.loss": True,
        "train.nonsuch": True,
        "train.early_stop.metric": True,
        "train.early_stop.nonsuch": True,
        "optimizer.schedule.nonsuch": True,
        "optimizer.decay.linear": True,
        "model.function": True,
        "train.task": True,
        "schedule.parallel": True,
        "data.scale": True,
        "study.seed": True,
        "nonsuch.at_all": True,
    }
    if kind_of(study, "model") not in (PythonTable, MixedTable):
        wrong["model.nonsuch"] = True
        wrong["model.kind"] = False
    if kind_of(study, "optimizer") is not UserOptimizerTable:
        wrong["optimizer.nonsuch"] = True
    key = draw(st.sampled_from([one for one in wrong if one != "model.kind"]))
    return Wrong(entry_for(study, key, dict(_CHOICE)), f"search.{key}", wrong[key])


@breaking(ADAPTIVE)
def unfit_value(draw: Draw, study: Study) -> Wrong:
    """A search of values that the setting does not accept."""
    wrong: list[tuple[str, Entry, str]] = [
        ("train.batch_size", {"type": "categorical", "choices": [4, 0]}, ".choices"),
        ("train.batch_size", {"type": "categorical", "choices": ["a"]}, ".choices"),
        ("train.ema", {**_FLOAT, "high": 1.0}, ".high"),
        ("train.ema", {"type": "categorical", "choices": [True]}, ".choices"),
    ]
    if kind_of(study, "model") not in (PythonTable,):
        wrong += [
            ("model.depth", {**_INT, "low": -1}, ".low"),
            ("model.depth", {**_INT, "high": 1001}, ".high"),
            ("model.width", {**_FLOAT}, ".type"),
            ("model.activation", {"type": "categorical", "choices": ["relu", "rely"]}, ".choices"),
            ("model.activation", {**_INT}, ".type"),
            ("model.layer_norm", {**_INT}, ".type"),
            ("model.layer_norm", {"type": "categorical", "choices": [0, 1]}, ".choices"),
            ("model.dropout", {**_FLOAT, "high": 1.0}, ".high"),
        ]
    key, entry, told = draw(st.sampled_from(wrong))
    assume(study["study"].get("sampler", {}).get("name") != "grid")
    return Wrong(entry_for(study, key, entry), f"search.{key}{told}", True)


@breaking(ADAPTIVE)
def unmet_condition(draw: Draw, study: Study) -> Wrong:
    drawn = {key: entry for key, entry in entries(study) if "same_as" not in entry}
    child = pick(draw, [key for key in drawn if _keeps_its_value(study, key)])
    parent = pick(draw, [key for key in drawn if key != child and child not in above(drawn, key)])
    entry = drawn[parent]
    continuous = entry["type"] == "float" and "step" not in entry
    wrong = [possible(entry)[0]] if continuous else ["nonsuch", -99, [possible(entry)[0], "no"]]
    drawn[child]["when"] = {parent: draw(st.sampled_from(wrong))}
    study["study"].pop("enqueue", None)
    return Wrong(study, f"search.{child}.when")


def _keeps_its_value(study: Study, key: str) -> bool:
    """Whether the file has a value for trials that do not draw one."""
    table, *path = key.split(".")
    holder: Any = study.get(table)
    for name in path:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder is not None and not key.endswith("name")


@breaking(SEVERAL)
def circle_of_conditions(draw: Draw, study: Study) -> Wrong:
    drawn = {
        key: entry
        for key, entry in entries(study)
        if entry.get("type") in ("int", "categorical") and _keeps_its_value(study, key)
    }
    key = pick(draw, [*drawn])
    assume("when" not in drawn[key])
    drawn[key]["when"] = {key: possible(drawn[key])[0]}
    study["study"].pop("enqueue", None)
    return Wrong(study, f"search.{key}.when")


@breaking(SEVERAL)
def column_of_another(draw: Draw, study: Study) -> Wrong:
    drawn = {key: entry for key, entry in entries(study) if "same_as" not in entry}
    assume(len(drawn) > 1 and "enqueue" not in study["study"])
    _, second = [*drawn][:2]
    for entry in drawn.values():
        entry.pop("name", None)
    columns = [key.rpartition(".")[2] for key in drawn]
    assume(len({*columns, "json"}) == len(columns) + 1)
    drawn[second]["name"] = columns[0].upper()
    first = next(iter(drawn))
    return Wrong(study, f"search.{second}", other=f"search.{first}")


@breaking(ADAPTIVE)
def unfit_queue(draw: Draw, study: Study) -> Wrong:
    assume(study["study"].get("sampler", {}).get("name") != "grid")
    drawn = {key: entry for key, entry in entries(study) if "same_as" not in entry}
    key = pick(draw, [*drawn])
    wrong: list[tuple[Any, str]] = [
        ([{"nonsuch": 1}], ".0.nonsuch"),
        ([{key: possible(drawn[key])[0]}, {"nonsuch": 1}], ".1.nonsuch"),
        ([{key: "no such"}], f".0.{key}"),
        ([{key: [1]}], f".0.{key}"),
        ("text", ""),
        ([1], ""),
        ({"depth": 1}, ""),
    ]
    queue, told = draw(st.sampled_from(wrong))
    return Wrong(put(study, "study.enqueue", queue), f"study.enqueue{told}")
