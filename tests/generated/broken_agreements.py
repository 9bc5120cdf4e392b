"""Settings that cannot be combined."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from sweeper.config.optimizer import OPTIMIZERS, MixedOptimizerTable, UserOptimizerTable
from sweeper.config.train import TASK_OF_LOSS, TASK_OF_METRIC
from tests.generated.bending import (
    entries,
    entry_for,
    is_searched,
    kind_of,
    pick,
    put,
)
from tests.generated.breakage import (
    ADAPTIVE,
    ANY,
    GRID,
    ONE,
    SEVERAL,
    WHOLE_ARRAYS,
    Wrong,
    breaking,
)
from tests.generated.frames import Draw, Study
from tests.generated.searches import Entry


@breaking(ANY)
def metric_of_another_task(draw: Draw, study: Study) -> Wrong:
    task = TASK_OF_LOSS.get(study["train"]["loss"], study["train"].get("task"))
    metric = pick(draw, [name for name, of in TASK_OF_METRIC.items() if of != task])
    study["train"]["metrics"] = [*study["train"]["metrics"], metric]
    return Wrong(study, "train.metrics")


@breaking(ANY)
def setting_of_another_loss(draw: Draw, study: Study) -> Wrong:
    loss = study["train"]["loss"]
    wrong = ["huber_delta"] if loss != "huber" else []
    wrong += ["label_smoothing"] if "cross" not in loss else []
    key = f"train.{pick(draw, wrong)}"
    return Wrong(put(study, key, 0.5), key)


@breaking(ANY)
def unreported_metric(draw: Draw, study: Study) -> Wrong:
    wrong = draw(st.sampled_from(["accuracy", "val_nonsuch", "test_loss", "loss", ""]))
    key = draw(st.sampled_from(["study.metric", "study.constraints", "train.early_stop"]))
    if key == "study.metric":
        several = study["study"]["metric"]
        many = [*several[:-1], wrong] if isinstance(several, list) else wrong
        return Wrong(put(study, key, many), key)
    if key == "study.constraints":
        bounds = [*study["study"].get("constraints", ()), {"metric": wrong, "max": 1}]
        told = f"{key}.{len(bounds) - 1}.metric"
        return Wrong(put(study, key, bounds), told)
    return Wrong(put(study, key, {"patience": 3, "metric": wrong}), f"{key}.metric")


@breaking(SEVERAL)
def unfit_objectives(draw: Draw, study: Study) -> Wrong:
    study["study"].pop("constraints", None)
    study["study"].pop("pruner", None)
    wrong: list[tuple[Study, str]] = [
        ({"metric": "val_loss", "direction": ["minimize", "maximize"]}, "direction"),
        ({"metric": ["val_loss", "n_parameters"], "direction": "minimize"}, "direction"),
        ({"metric": ["val_loss", "val_loss"], "direction": ["minimize"] * 2}, "metric"),
        (
            {
                "metric": ["val_loss", "n_parameters"],
                "direction": ["minimize"] * 2,
                "pruner": {"name": "median"},
            },
            "pruner.name",
        ),
        ({"constraints": [{"metric": "n_parameters"}]}, "constraints.0"),
        ({"constraints": [{"metric": "n_parameters", "max": 1, "min": 2}]}, "constraints.0.min"),
        ({"constraints": [{"max": 1}]}, "constraints.0.metric"),
        ({"constraints": [{"metric": "n_parameters", "max": 1, "mix": 2}]}, "constraints.0.mix"),
    ]
    change, told = draw(st.sampled_from(wrong))
    study["study"] |= change
    # some samplers only support one objective
    return Wrong(study, f"study.{told}", other="study.sampler.name")


@breaking(ANY)
def unfit_split(draw: Draw, study: Study) -> Wrong:
    wrong: list[tuple[Study, str]] = [
        ({"val": 0.6, "test": 0.5}, ""),
        ({"stratify": True, "group": "size"}, ".group"),
        ({"group": "size", "time": "id"}, ".time"),
        ({"as_feature": True}, ".as_feature"),
        ({"val": 0}, ".val"),
        ({"test": 1}, ".test"),
        ({"group": ""}, ".group"),
    ]
    split, told = draw(st.sampled_from(wrong))
    return Wrong(put(study, "data.split", split), f"data.split{told}")


_CLUSTER = {"name": "dask", "address": "tcp://10.0.0.1:8786"}


@breaking(ANY)
def unfit_execution(draw: Draw, study: Study) -> Wrong:
    wrong: list[tuple[Study, str]] = [
        ({"threads": 0, "workers": 0}, "workers"),
        ({"strategy": "process", "workers": 0}, "workers"),
        ({"engine": _CLUSTER, "workers": 0}, "workers"),
        ({"engine": _CLUSTER, "threads": 2}, "threads"),
        ({"engine": {"name": "dask"}}, "engine.address"),
    ]
    change, told = draw(st.sampled_from(wrong))
    study["execution"] = change
    return Wrong(study, f"execution.{told}")


@breaking(WHOLE_ARRAYS)
def optimizer_that_cannot_be_padded(_draw: Draw, study: Study) -> Wrong:
    return Wrong(put(study, "execution.strategy", "padded"), "execution.strategy")


@breaking(ANY)
def idle_number_of_a_schedule(draw: Draw, study: Study) -> Wrong:
    assume(kind_of(study, "optimizer") is not UserOptimizerTable)
    assume("schedule" not in study.get("search", {}).get("optimizer", {}))
    wrong: list[tuple[Study, str]] = [
        ({"warmup": 0.1}, "warmup"),
        ({"name": "cosine", "warmup": 0.1}, "warmup"),
        ({"name": "exponential", "start": 0.1}, "start"),
        ({"name": "exponential", "end": 0}, "end"),
        ({"name": "cosine", "end": 1.5}, "end"),
    ]
    schedule, told = draw(st.sampled_from(wrong))
    return Wrong(put(study, "optimizer.schedule", schedule), f"optimizer.schedule.{told}")


@breaking(ANY)
def key_of_another_optimizer(draw: Draw, study: Study) -> Wrong:
    kind = kind_of(study, "optimizer")
    assume(kind is not UserOptimizerTable and kind is not MixedOptimizerTable)
    others = {name for one in OPTIMIZERS.values() for name in one.model_fields}
    key = f"optimizer.{pick(draw, sorted(others - kind.model_fields.keys()))}"
    assume(not is_searched(study, key))
    return Wrong(put(study, key, 0.5), key, True)


@breaking(GRID)
def unfit_grid(draw: Draw, study: Study) -> Wrong:
    assume(study["study"].get("sampler", {}).get("name") == "grid")
    if draw(st.booleans()):
        return Wrong(put(study, "study.enqueue", [{}]), "study.enqueue")
    return Wrong(
        entry_for(study, "train.ema", {"type": "float", "low": 0.1, "high": 0.5}),
        "search.train.ema",
    )


@breaking(ONE)
def unfit_trial(draw: Draw, study: Study) -> Wrong:
    epochs = study["train"]["epochs"]
    is_alone = isinstance(study["study"]["metric"], str)
    wrong: list[tuple[str, Any, str]] = [
        ("study.n_trials", 2, "study.n_trials"),
        *([("study.pruner", {"name": "median"}, "study.pruner")] if is_alone else []),
        ("search", {"train": {"epochs": {"type": "int", "low": 2, "high": 8}}}, "search"),
        ("trial.epochs", epochs + 1, "trial.epochs"),
        ("trial.number", -1, "trial.number"),
        ("trial.class.parts", ["model.nonsuch"], "trial.class.parts"),
        ("trial.class.capacity", 0, "trial.class.capacity"),
        ("trial.class.nonsuch", 0, "trial.class.nonsuch"),
        ("trial.class.lane_loop", "auto", "trial.class.lane_loop"),
        ("trial.class.traced", {"model.width": [4, 8]}, "trial.class.traced"),
    ]
    if "depth" in study["model"]:
        wrong.append(("trial.class.traced", {"model.activation": []}, "trial.class.traced"))
    if study["trial"]["class"]["strategy"] != "padded":
        wrong.append(("trial.class.width", 8, "trial.class.width"))
    elif study["model"]["width"] > 1:
        wrong.append(("trial.class.width", study["model"]["width"] - 1, "trial.class.width"))
    key, value, told = draw(st.sampled_from(wrong))
    return Wrong(put(study, key, value), told)


@breaking(ADAPTIVE)
def search_of_no_use(draw: Draw, study: Study) -> Wrong:
    """A setting that no trial uses."""
    loss, schedules = study["train"]["loss"], _schedules(study)
    wrong = ["huber_delta"] if loss != "huber" else []
    wrong += ["label_smoothing"] if "cross" not in loss else []
    keys = [f"train.{name}" for name in wrong]
    if schedules == ["constant"]:
        keys += ["optimizer.schedule.end"]
    share = {"type": "float", "low": 0.1, "high": 0.5}
    return _searched(draw, study, pick(draw, keys), share)


@breaking(ADAPTIVE)
def search_of_an_end_at_0(draw: Draw, study: Study) -> Wrong:
    """Of an exponential decay, which does not end there."""
    assume("schedule" not in study.get("search", {}).get("optimizer", {}))
    assume(study["optimizer"].get("lr"))
    study["optimizer"]["schedule"] = {"name": "exponential", "end": 0.5}
    share = {"type": "float", "low": 0.1, "high": 0.5}
    choices = {"type": "categorical", "choices": [0.5, 0]}
    wrong = [{**share, "low": 0.0}, {**share, "or": [0.0]}, choices]
    return _searched(draw, study, "optimizer.schedule.end", draw(st.sampled_from(wrong)))


def _schedules(study: Study) -> list[str]:
    """The schedules that trials may have."""
    own = study["optimizer"].get("schedule", {}).get("name", "constant")
    entry = study.get("search", {}).get("optimizer", {}).get("schedule", {}).get("name")
    return [own] if entry is None else [own, *entry["choices"]]


def _searched(draw: Draw, study: Study, key: str, entry: Entry) -> Wrong:
    """With an entry that all trials draw, or some."""
    other = [
        (one, found["choices"][0])
        for one, found in entries(study)
        if found.get("type") == "categorical" and one != key
    ]
    entry = {**entry, "when": dict(other[:1])} if other and draw(st.booleans()) else entry
    return Wrong(entry_for(study, key, entry), f"search.{key}")
