"""One setting that no table accepts, or that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from sweeper.config.tables import DISCRIMINATORS
from tests.generated.bending import (
    is_searched,
    leaves,
    pick,
    put,
    table_at,
    tables_of,
)
from tests.generated.breakage import ANY, Wrong, breaking
from tests.generated.frames import Draw, Study
from tests.generated.values import form_of


@breaking(ANY)
def unknown_setting(draw: Draw, study: Study) -> Wrong:
    closed = [
        name
        for name, kind in tables_of(study)
        if kind.model_config.get("extra") != "allow" and name in study
    ]
    closed += [f"{name}.split" for name in ("data",)] + ["results"]
    key = f"{pick(draw, closed)}.{draw(st.sampled_from(['nonsuch', 'a_b', 'x-y']))}"
    return Wrong(put(study, key, draw(st.sampled_from([1, "text", True, [], {}]))), key, True)


@breaking(ANY)
def misspelt_setting(draw: Draw, study: Study) -> Wrong:
    """As an unknown setting, in addition to the right spelling or instead of it."""
    optional = [
        (key, form)
        for key, form in leaves(study)
        if key.partition(".")[0] in ("schedule", "execution", "results")
    ]
    key, _ = pick(draw, optional)
    table, _, name = key.rpartition(".")
    holder = table_at(study, table)
    wrong = f"{name[:-1]}" if name[-1] != "s" else f"{name}s"
    holder[wrong] = holder.pop(name)
    return Wrong(study, f"{table}.{wrong}", True, other=key)


@breaking(ANY)
def unknown_table(draw: Draw, study: Study) -> Wrong:
    name = draw(st.sampled_from(["nonsuch", "optimiser", "serach", "Study"]))
    return Wrong({**study, name: {"lr": 1e-3}}, name, True)


@breaking(ANY)
def no_table(draw: Draw, study: Study) -> Wrong:
    name = draw(st.sampled_from(["study", "data", "train", "execution", "schedule", "results"]))
    return Wrong({**study, name: draw(st.sampled_from([1, "text", []]))}, name, True)


@breaking(ANY)
def another_version(draw: Draw, study: Study) -> Wrong:
    return Wrong(put(study, "version", draw(st.sampled_from([0, 2, "1", True]))), "version", True)


@breaking(ANY)
def wrong_type(draw: Draw, study: Study) -> Wrong:
    """A value that no setting of its type accepts."""
    typed = [
        (key, form)
        for key, form in leaves(study)
        if form.get("type") in ("integer", "number", "boolean", "string") or "enum" in form
    ]
    key, form = pick(draw, typed)
    wrong: list[Any] = [[[]], {"a": {}}]
    if form.get("type") in ("integer", "number", "boolean"):
        wrong += ["text", "1"]
    if form.get("type") in ("integer", "boolean"):
        wrong += [0.5]
    if form.get("type") in ("string", "integer", "number") or "enum" in form:
        wrong += [True]
    return Wrong(put(study, key, draw(st.sampled_from(wrong))), key, True)


@breaking(ANY)
def out_of_range(draw: Draw, study: Study) -> Wrong:
    """Below the minimum of a setting, or above its maximum."""
    key, form = pick(draw, [(key, form) for key, form in leaves(study) if _beyond(form)])
    return Wrong(put(study, key, draw(st.sampled_from(_beyond(form)))), key, True)


def _beyond(form: Mapping[str, Any]) -> list[float]:
    found = [form[name] for name in ("exclusiveMinimum", "exclusiveMaximum") if name in form]
    found += [form["minimum"] - 1] if "minimum" in form else []
    if form.get("maximum", 1e30) < 1e30:
        found.append(form["maximum"] + 1)
    whole = form.get("type") == "integer"
    return [int(number) if whole else float(number) for number in found]


@breaking(ANY)
def misspelt_choice(draw: Draw, study: Study) -> Wrong:
    key, form = pick(draw, [(key, form) for key, form in leaves(study) if "enum" in form])
    wrong = draw(st.sampled_from([f"{form['enum'][0]}x", "nonsuch", ""]))
    return Wrong(put(study, key, wrong), key, True)


@breaking(ANY)
def misspelt_kind(draw: Draw, study: Study) -> Wrong:
    """Which source, model or optimizer."""
    fixed = [key for key in ("data", "optimizer") if not is_searched(study, f"{key}.name")]
    table = pick(draw, [key for key in fixed if key in study])
    key = f"{table}.{DISCRIMINATORS[table]}"
    return Wrong(put(study, key, draw(st.sampled_from(["adan", "csw", "nets:", ":a"]))), key, True)


@breaking(ANY)
def malformed_text(draw: Draw, study: Study) -> Wrong:
    """Text that does not have the form which a setting requires."""
    wrong: dict[str, list[Any]] = {
        "study.name": ["", "a b", "a/b", "x" * 101],
        "study.timeout": ["", "30", "m", "-3m", "0s", "1 h", 30],
        "study.direction": ["minimise", "", ["up"], []],
        "study.metric": [[], 1, [1]],
        "train.loss": ["mes", "nets", ":f"],
        "train.metrics": [["accuracyy"], "accuracy", [1]],
        "execution.threads": [-1, "all", 1.5],
        "execution.workers": [-1, "all", True],
        "data.impute": ["zero", {"constant": "a"}, {"value": 0}, 0],
        "data.class_weights": ["even", {"a": 0}, {"a": "b"}, {}, 1],
        "results.dir": ["", "a\nb"],
        "study.sampler": [{"name": "tpee"}, {"name": 1}],
        "study.pruner": [{"name": "medina"}, {"name": "own:"}],
    }
    key = draw(st.sampled_from([*wrong]))
    assume(key != "data.class_weights" or study["train"]["loss"] in ("cross_entropy",))
    assume("trial" not in study or key != "study.pruner")
    several = not isinstance(study["study"]["metric"], str) and len(study["study"]["metric"]) > 1
    assume(not (several and key == "study.pruner"))
    value = draw(st.sampled_from(wrong[key]))
    told = f"{key}.name" if key in ("study.sampler", "study.pruner") else key
    return Wrong(put(study, key, value), told)


@breaking(ANY)
def missing_setting(draw: Draw, study: Study) -> Wrong:
    needed = []
    for name, kind in tables_of(study):
        for setting in form_of(kind).get("required", ()):
            key = f"{name}.{setting}"
            if setting in study.get(name, {}) and not is_searched(study, key):
                needed.append(key)
    key = pick(draw, needed)
    assume(key not in ("model.kind",))  # without it the others are unknown
    table, _, name = key.partition(".")
    del study[table][name]
    in_schema = table not in ("model", "optimizer", "train") or name in ("loss", "name")
    return Wrong(study, key, in_schema)


@breaking(ANY)
def missing_version(_draw: Draw, study: Study) -> Wrong:
    del study["version"]
    return Wrong(study, "version", True)
