"""Whole valid studies, with the rules that the types of settings do not express."""

from __future__ import annotations

from hypothesis import strategies as st

from sweeper.config.model import MixedTable, PythonTable, RowMlpTable
from sweeper.config.optimizer import (
    OPTIMIZERS,
    AdafactorTable,
    MixedOptimizerTable,
    UserOptimizerTable,
)
from sweeper.config.settings import OPTIONAL_SETTINGS
from sweeper.config.table import Table
from sweeper.config.train import TASK_OF_LOSS, WEIGHED, SupervisedTable
from sweeper.config.validate import TABLES
from tests.generated.data import data_tables
from tests.generated.frames import Draw, Frame, Study, frames, rarely, some
from tests.generated.proposing import pruners, queues, samplers
from tests.generated.spaces import (
    allow_linear_models,
    drop_drawn,
    drop_idle_keys,
    fitting_searches,
    nested,
    schedule_names,
    write_schedule,
)
from tests.generated.values import form_of, settings, values


@st.composite
def studies(
    draw: Draw,
    *,
    is_trial: bool | None = None,
    sampler: str | None = None,
    optimizers: tuple[type[Table], ...] | None = None,
) -> Study:
    """Valid study files as nested tables, of one given trial or of several, by one sampler."""
    if is_trial is None:
        is_trial = rarely(draw)
    fit = frames().filter(lambda frame: not is_trial or _may_be_a_trial(frame))
    frame = draw(fit.filter(lambda frame: optimizers is None or frame.optimizer in optimizers))
    study: Study = {
        "version": 1,
        "data": draw(data_tables(frame)),
        "model": draw(model_tables(frame)),
        "optimizer": draw(settings(form_of(frame.optimizer), "optimizer", but=("schedule",))),
        "train": draw(train_tables(frame)),
        **draw(rest_of_study()),
    }
    draw(_as_one_trial(study, frame) if is_trial else _as_several(study, frame, sampler))
    fit_execution(study)
    if "time" in study["data"].get("split", ()):
        study["study"].pop("folds", None)
    return {name: table for name, table in study.items() if table != {}}


_BY_HAND = {
    "study": ("metric", "direction", "constraints", "stop", "enqueue", "sampler", "pruner"),
    "train": ("loss", "task", "metrics", "label_smoothing", "huber_delta", "early_stop"),
}


@st.composite
def rest_of_study(draw: Draw) -> Study:
    """The tables that do not depend on the others."""
    but = {"study": _BY_HAND["study"]}
    return {
        name: draw(settings(form_of(TABLES[name]), name, but=but.get(name, ())))
        for name in ("study", "schedule", "execution", "results")
    }


@st.composite
def train_tables(draw: Draw, frame: Frame) -> Study:
    train = draw(settings(form_of(SupervisedTable), "train", but=_BY_HAND["train"]))
    train |= {"loss": frame.loss, "metrics": frame.metrics}
    form = form_of(SupervisedTable)["properties"]
    if frame.loss not in TASK_OF_LOSS or rarely(draw):
        train["task"] = frame.task
    if frame.loss in WEIGHED and rarely(draw):
        train["label_smoothing"] = draw(values(form["label_smoothing"], "train.label_smoothing"))
    if frame.loss == "huber" and draw(st.booleans()):
        train["huber_delta"] = draw(values(form["huber_delta"], "train.huber_delta"))
    if rarely(draw):
        train["early_stop"] = draw(
            settings(form["early_stop"], "train.early_stop", but=("metric",))
        )
        if draw(st.booleans()):
            known = [name for name in frame.reported if name != "val_spread"]
            train["early_stop"]["metric"] = draw(st.sampled_from(known))
    return train


@st.composite
def model_tables(draw: Draw, frame: Frame) -> Study:
    table = draw(settings(form_of(frame.model), "model"))
    if frame.may_be_tabm:
        table["depth"] = max(table["depth"], 1)
    if frame.model is PythonTable:
        own = {"units": st.integers(1, 9), "mode": st.just("a"), "flag": st.booleans()}
        table |= draw(st.fixed_dictionaries({}, optional=own))
    return table


def _may_be_a_trial(frame: Frame) -> bool:
    return frame.model is not MixedTable and frame.optimizer is not MixedOptimizerTable


@st.composite
def _as_one_trial(draw: Draw, study: Study, frame: Frame) -> None:
    """A file that repeats one trial."""
    write_objectives(draw, study, frame)
    study["study"]["n_trials"] = 1
    write_schedule(draw, study, draw(schedule_names(study, frame))[:1])
    model, train, optimizer = study["model"], study["train"], study["optimizer"]
    is_mlp = frame.model is RowMlpTable
    elementwise = frame.optimizer not in (AdafactorTable, UserOptimizerTable)
    may_pad = bool(is_mlp and model["depth"] and elementwise)
    study["trial"] = draw(given_trials(train["epochs"], may_pad=may_pad))
    own = study["trial"]["class"]
    if own["strategy"] == "padded":
        own |= {name: model[name] + draw(st.integers(0, 3)) for name in ("width", "depth")}
    tables = {"model": model, "optimizer": optimizer, "train": train}
    written = [
        key
        for key in OPTIONAL_SETTINGS
        for table, _, name in (key.partition("."),)
        if tables[table].get(name)
    ]
    if written or draw(st.booleans()):
        own["parts"] = written
    if is_mlp and own["lane_loop"] == "map" and rarely(draw):
        mine = model.get("activation", "relu")
        own["traced"] = {"model.activation": [mine, *({"relu", "tanh"} - {mine})]}


@st.composite
def given_trials(draw: Draw, epochs: int, *, may_pad: bool) -> Study:
    """`[trial]` of a trial that trains this many epochs; padding of its class is left out."""
    strategies = ["exact", "process", *(["padded"] * may_pad)]
    own: Study = {
        "strategy": draw(st.sampled_from(strategies)),
        "lane_loop": draw(st.sampled_from(["map", "vmap"])),
        "capacity": draw(st.integers(1, 4)),
        "epochs": epochs + draw(st.integers(0, 3)),
    }
    number, last = draw(st.integers(0, 99)), draw(st.integers(1, epochs))
    return {"number": number, "epochs": last, "class": own}


@st.composite
def _as_several(draw: Draw, study: Study, frame: Frame, name: str | None) -> None:
    """A study of several trials: what it searches, how, and for what."""
    write_objectives(draw, study, frame)
    n_objectives = 1 if isinstance(study["study"]["metric"], str) else len(study["study"]["metric"])
    sampler = draw(samplers(n_objectives)) if name is None else {"name": name}
    pruner = draw(pruners(study)) if n_objectives == 1 else {"name": "none"}
    for name, table in (("sampler", sampler), ("pruner", pruner)):
        if table["name"] not in ("tpe", "none") or draw(st.booleans()):
            study["study"][name] = table
    finite = sampler["name"] == "grid"
    search = draw(fitting_searches(study, frame, finite=finite))
    drop_idle_keys(study, frame, search)
    if frame.model is MixedTable:
        draw(allow_linear_models(study, search))
    drop_drawn(draw, study, search)
    study["search"] = nested(search)
    if not finite and rarely(draw):
        study["study"]["enqueue"] = draw(queues(search))


def write_objectives(draw: Draw, study: Study, frame: Frame) -> None:
    """The goals of a study."""
    known = [*frame.reported, "n_parameters"]
    metrics = draw(some(known, 3, 1))
    ways = [draw(st.sampled_from(["minimize", "maximize"])) for _ in metrics]
    alone = len(metrics) == 1 and draw(st.booleans())
    study["study"] |= {
        "metric": metrics[0] if alone else metrics,
        "direction": ways[0] if alone else ways,
    }
    if len(metrics) == 1 and rarely(draw):
        rules = [{"value": 0.5}, {"patience": 3}, {"value": -1, "patience": 50}]
        study["study"]["stop"] = draw(st.sampled_from(rules))
    if rarely(draw):
        bounds = [{"max": 2000}, {"min": 0.5}, {"min": 0, "max": 0.5}]
        study["study"]["constraints"] = [
            {"metric": draw(st.sampled_from(known)), **draw(st.sampled_from(bounds))}
            for _ in range(draw(st.integers(1, 2)))
        ]


def fit_execution(study: Study) -> None:
    """Remove from `[execution]` what does not fit the other tables."""
    execution = study["execution"]
    if "trial_timeout" in execution or "engine" in execution:
        execution.pop("threads", None)
        execution.pop("workers", None)
    if execution.get("workers") == 0 and (
        execution.get("threads") == 0 or execution.get("strategy") == "process"
    ):
        execution["workers"] = 1
    if execution.get("strategy") == "switch" and execution.get("lane_loop") == "vmap":
        execution["lane_loop"] = "map"
    entry = study.get("search", {}).get("optimizer", {}).get("name", {})
    names = [study["optimizer"].get("name"), *entry.get("choices", ())]
    kept = [name for name in names if name is not None]
    is_padded = execution.get("strategy") == "padded"
    if is_padded and any(
        name not in OPTIMIZERS or not OPTIMIZERS[name].elementwise for name in kept
    ):
        execution["strategy"] = "auto"
