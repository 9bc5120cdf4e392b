"""Errors that are found when data, options and functions are examined."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sweeper.config.model import PythonTable
from sweeper.config.optimizer import UserOptimizerTable
from tests.generated.bending import (
    is_searched,
    kind_of,
    pick,
    put,
)
from tests.generated.breakage import ANY, SEVERAL, Wrong, breaking
from tests.generated.frames import Draw, Study


@breaking(SEVERAL)
def unfit_option(draw: Draw, study: Study) -> Wrong:
    """Of the sampler or the pruner."""
    study["study"] |= {"metric": "val_loss", "direction": "minimize"}
    wrong: list[tuple[str, Study, str]] = [
        ("sampler", {"name": "tpe", "nonsuch": 1}, ".nonsuch"),
        ("sampler", {"name": "tpe", "n_startup_trials": -1}, ".n_startup_trials"),
        ("sampler", {"name": "tpe", "n_ei_candidates": 0.5}, ".n_ei_candidates"),
        ("sampler", {"name": "tpe", "group": True, "multivariate": False}, ".group"),
        ("sampler", {"name": "qmc", "qmc_type": "sobel"}, ".qmc_type"),
        ("sampler", {"name": "random", "seed": 1}, ".seed"),
        ("sampler", {"name": "nsgaii", "mutation_prob": 1.5}, ".mutation_prob"),
        ("sampler", {"name": "nets:Sampler", "warm": 1}, ".warm"),
        ("sampler", {"name": "nets:Sampled"}, ".name"),
        ("sampler", {"name": "nets:Pruner"}, ".name"),
        ("pruner", {"name": "percentile"}, ".percentile"),
        ("pruner", {"name": "percentile", "percentile": 101}, ".percentile"),
        ("pruner", {"name": "median", "interval_steps": 0}, ".interval_steps"),
        ("pruner", {"name": "asha", "reduction_factor": 1}, ".reduction_factor"),
        ("pruner", {"name": "threshold"}, ""),
        ("pruner", {"name": "threshold", "lower": 2, "upper": 1}, ".lower"),
        ("pruner", {"name": "hyperband", "min_resource": 99_999_999}, ".min_resource"),
        ("pruner", {"name": "patient", "patience": 1, "wrapped": 1}, ".wrapped"),
        (
            "pruner",
            {"name": "patient", "patience": 1, "wrapped": {"name": "median", "a": 1}},
            ".wrapped.a",
        ),
        ("pruner", {"name": "none", "a": 1}, ".a"),
        ("pruner", {"name": "nonsuch:Pruner"}, ".name"),
    ]
    table, value, told = draw(st.sampled_from(wrong))
    return Wrong(put(study, f"study.{table}", value), f"study.{table}{told}")


@breaking(ANY)
def unfit_data(draw: Draw, study: Study) -> Wrong:
    """Errors in the rows themselves."""
    data = study["data"]
    wrong: list[tuple[str, Any]] = []
    if "path" in data:
        wrong.append(("data.path", f"nonsuch.{data['source']}"))
    if data["source"] == "npz":
        wrong += [("data.x", "featuers"), ("data.y", "nonsuch")]
    elif "target" in data:
        wrong += [("data.target", "nonsuch"), ("data.drop", ["nonsuch"])]
        wrong.append(("data.categorical_columns", ["siez"]))
    if data["source"] == "python":
        wrong += [("data.function", "nonsuch:rows"), ("data.function", "nets:rowz")]
        wrong.append(("data.function", "nets:"))
    if data["source"] != "sklearn":
        wrong += [("data.split", {"group": "nonsuch"}), ("data.split", {"time": "nonsuch"})]
    if not is_searched(study, "train.batch_size"):
        wrong.append(("train.batch_size", 1_000_000))
    key, value = pick(draw, wrong)
    told = key if key != "data.split" else f"data.split.{next(iter(value))}"
    if key == "data.split" and "time" in value:
        study["study"].pop("folds", None)
    return Wrong(put(study, key, value), told)


@breaking(ANY)
def unfit_function(draw: Draw, study: Study) -> Wrong:
    wrong = ["nets:nonsuch", "nonsuch:f"]
    keys = []
    if kind_of(study, "optimizer") is UserOptimizerTable:
        keys.append("optimizer.name")
    if study["train"]["loss"] == "nets:error":
        keys.append("train.loss")
    if kind_of(study, "model") is PythonTable:
        keys.append("model.function")
    key = pick(draw, keys)
    return Wrong(put(study, key, draw(st.sampled_from(wrong))), key)
