"""Valid studies of models with several parts: taking turns, or feeding each other."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from sweeper.config.alternating import AlternatingTable, PhaseTable, WarmupTable
from sweeper.config.coupled import OBJECTIVES, CoupledTable
from sweeper.config.model import MlpPart, PythonPart
from sweeper.config.optimizer import AdafactorTable, AdamWTable, RmspropTable, SgdTable
from sweeper.config.settings import OPTIONAL_SETTINGS
from sweeper.config.table import Table
from sweeper.config.train import TASK_OF_LOSS
from tests.generated.data import data_tables
from tests.generated.frames import Draw, Frame, Study, frames, rarely, some
from tests.generated.proposing import pruners, queues, samplers
from tests.generated.searches import Search, Target, searches, targets
from tests.generated.spaces import drop_drawn, nested
from tests.generated.studies import (
    fit_execution,
    given_trials,
    rest_of_study,
    write_objectives,
)
from tests.generated.values import form_of, settings, values

_NAMES = ("a", "b", "head_2", "trunk")
_KINDS: dict[str, type[Table]] = {"mlp": MlpPart, "python": PythonPart}
_OPTIMIZERS: tuple[type[Table], ...] = (AdamWTable, RmspropTable, SgdTable, AdafactorTable)
_NUMBERS = ("mse", "mae", "huber")
_WIRING = ("input", "in_size", "out_size")
Targets = dict[str, list[Target]]


@dataclass(frozen=True)
class PartsFrame(Frame):
    """A frame whose losses have names; `loss` is the kind of the first."""

    losses: tuple[str, ...] = ()

    @property
    def reported(self) -> tuple[str, ...]:
        own = [f"{part}_loss_{name}" for part in ("train", "val") for name in self.losses]
        return (*own, *(name for name in super().reported if not name.endswith("_loss")))


@st.composite
def turns(draw: Draw, *, is_trial: bool | None = None) -> Study:
    """Studies of `alternating`, of one given trial or of several."""
    frame = draw(frames())
    names = draw(some(_NAMES, least=1, most=4))
    inputs = {name: draw(st.sampled_from([None, *names[:n]])) for n, name in enumerate(names)}
    losses, sized = _losses(draw, frame, names)
    model: Study = {}
    for name in names:
        part = draw(part_tables())
        if inputs[name] is not None:
            part["input"] = inputs[name]
        if name not in sized:
            part["out_size"] = draw(st.integers(1, 5))
        model[name] = part
    ways = {name: _upstream(loss["of"], inputs) for name, loss in losses.items()}
    phases = draw(phase_tables(ways))
    train = draw(_train(AlternatingTable, ("losses", "phases", "warmup", "cycle", "metrics")))
    train |= {"losses": losses, "phases": phases, "cycle": draw(st.permutations([*phases]))}
    if draw(st.booleans()):
        train["warmup"] = draw(settings(form_of(WarmupTable), "train.warmup", but=("phase",)))
        train["warmup"]["phase"] = draw(st.sampled_from([*phases]))
    train["metrics"] = frame.metrics
    if any(loss["kind"] not in TASK_OF_LOSS for loss in losses.values()) or rarely(draw):
        train["task"] = frame.task
    lengths = [f"phases.{name}" for name in phases]
    tables: Targets = {
        **_searchable(model),
        "train.lengths": [one for name in lengths for one in targets(f"train.{name}", PhaseTable)],
    }
    whole = PartsFrame(**{**frame.__dict__, "losses": tuple(losses)})
    data = draw(data_tables(frame))
    return _whole(draw, whole, data, model, train, tables, is_trial=is_trial)


@st.composite
def games(draw: Draw, *, is_trial: bool | None = None) -> Study:
    """Studies of `coupled`, of one given trial or of several."""
    objective = draw(st.sampled_from([*OBJECTIVES, "nets:rivals"]))
    if objective in OBJECTIVES:
        names = draw(st.permutations(["generator", "critic"]))
    else:
        names = draw(some(("critic", *_NAMES), least=1, most=3))
    is_own = objective == "nets:rivals"
    model: Study = {}
    for name in names:
        part = draw(part_tables())
        if is_own:
            part.pop("dropout", None)
            part["out_size"] = draw(st.integers(1, 3))
        elif name == "generator":
            part["in_size"] = draw(st.integers(1, 4))
            part |= draw(st.sampled_from([{}, {"out_size": 3}]))
        else:
            part |= draw(st.sampled_from([{}, {"out_size": 1}, {"input": "generator"}]))
        model[name] = part
    train = draw(_train(CoupledTable, ("objective", "gradient_penalty", "clip", "critic_steps")))
    train["objective"] = objective
    form = form_of(CoupledTable)["properties"]
    own = {"wgan": "clip", "wgan_gp": "gradient_penalty"}.get(objective)
    if own and draw(st.booleans()):
        train[own] = draw(values(form[own], f"train.{own}"))
    if "critic" in names and draw(st.booleans()):
        train["critic_steps"] = draw(st.integers(1, 3))
    file = draw(st.sampled_from(["table", "gaps"]))
    data: Study = {"source": "npz", "path": f"{file}.npz", "x": "features"}
    if file == "gaps":
        data["impute"] = "mean"
    if not is_own and draw(st.booleans()):
        data["mode"] = "label"
    measures = [] if is_own else ["sliced_wasserstein", *(["modes_covered"] * ("mode" in data))]
    frame = PartsFrame(MlpPart, SgdTable, "numbers", "mse", [], tuple(names))
    frame = Measured(**{**frame.__dict__, "measures": tuple(measures)})
    tables: Targets = _searchable(model)
    if is_own:
        tables = {
            name: [one for one in found if not one.key.endswith(".dropout")]
            for name, found in tables.items()
        }
    return _whole(draw, frame, data, model, train, tables, optimizer_each=True, is_trial=is_trial)


@dataclass(frozen=True)
class Measured(PartsFrame):
    """A frame of models that generate rows, which are measured."""

    measures: tuple[str, ...] = ()

    @property
    def reported(self) -> tuple[str, ...]:
        return (*super().reported, *(f"val_{name}" for name in self.measures))


@st.composite
def part_tables(draw: Draw) -> Study:
    kind = draw(st.sampled_from([*_KINDS]))
    table = draw(settings(form_of(_KINDS[kind]), "model", but=(*_WIRING, "kind")))
    if kind == "python" or draw(st.booleans()):
        table["kind"] = kind
    if kind == "python":
        table |= draw(st.fixed_dictionaries({}, optional={"units": st.integers(1, 9)}))
    return table


@st.composite
def phase_tables(draw: Draw, ways: dict[str, list[str]]) -> Study:
    """Phases, each of a loss and of some of the parts that it depends on."""
    found: Study = {}
    for name in draw(some(("fit", "follow", "polish"), least=1)):
        loss = draw(st.sampled_from([*ways]))
        phase = draw(settings(form_of(PhaseTable), "train.phases", but=("loss", "trains")))
        phase |= {"loss": loss, "trains": draw(some(ways[loss], least=1))}
        found[name] = phase
    return found


def _losses(draw: Draw, frame: Frame, names: list[str]) -> tuple[Study, set[str]]:
    """Losses by name, and the parts whose sizes they determine."""
    first = draw(st.sampled_from(names))
    losses: Study = {"data": {"of": first, "kind": frame.loss}}
    if draw(st.booleans()):
        losses["data"]["against"] = "y"
    sized = {first}
    for name in draw(some(("near", "far"))):
        free = [part for part in names if part not in sized]
        if free:
            part, other = draw(st.sampled_from(free)), draw(st.sampled_from(sorted(sized)))
            kind = draw(st.sampled_from([*_NUMBERS, "nets:error"]))
            losses[name] = {"of": part, "against": other, "kind": kind}
            sized.add(part)
    return losses, sized


def _upstream(name: str | None, inputs: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    while name is not None:
        found.append(name)
        name = inputs[name]
    return found


@st.composite
def _train(draw: Draw, table: type[Table], by_hand: tuple[str, ...]) -> Study:
    but = ("task", "early_stop", *by_hand)
    return draw(settings(form_of(table), "train", but=but))


def _searchable(model: Study) -> Targets:
    """What can be searched in each part."""
    found: Targets = {}
    for name, part in model.items():
        kind = _KINDS[part.get("kind", "mlp")]
        every = targets(f"model.{name}", kind)
        found[f"model.{name}"] = [
            one for one in every if one.key.rpartition(".")[2] not in (*_WIRING, "function")
        ]
    return found


@st.composite
def _optimizers(draw: Draw, names: list[str], *, each: bool) -> Study:
    """One optimizer for all parts, or one for each."""

    def one() -> Study:
        kind = draw(st.sampled_from(_OPTIMIZERS))
        return draw(settings(form_of(kind), "optimizer", but=("schedule",)))

    return {name: one() for name in names} if each else one()


def _whole(
    draw: Draw,
    frame: Frame,
    data: Study,
    model: Study,
    train: Study,
    tables: Targets,
    *,
    optimizer_each: bool = False,
    is_trial: bool | None = None,
) -> Study:
    each = optimizer_each or draw(st.booleans())
    study: Study = {
        "version": 1,
        "data": data,
        "model": model,
        "optimizer": draw(_optimizers([*model], each=each)),
        "train": train,
        **draw(rest_of_study()),
    }
    write_objectives(draw, study, frame)
    if rarely(draw) if is_trial is None else is_trial:
        _as_one_trial(draw, study)
    else:
        _as_several(draw, study, tables)
    fit_execution(study)
    if _of_whole_arrays(study) and study["execution"].get("strategy") == "padded":
        study["execution"]["strategy"] = "auto"
    if "time" in data.get("split", ()):
        study["study"].pop("folds", None)
    return {name: table for name, table in study.items() if table != {}}


def _as_one_trial(draw: Draw, study: Study) -> None:
    """A file that repeats one trial."""
    study["study"]["n_trials"] = 1
    model, train = study["model"], study["train"]
    hidden = {
        name: part
        for name, part in model.items()
        if part.get("kind", "mlp") == "mlp" and part["depth"] > 0
    }
    may_pad = bool(hidden) and not _of_whole_arrays(study)
    study["trial"] = draw(given_trials(train["epochs"], may_pad=may_pad))
    own = study["trial"]["class"]
    if own["strategy"] == "padded":
        own["sizes"] = {
            name: [part[size] + draw(st.integers(0, 3)) for size in ("width", "depth")]
            for name, part in hidden.items()
        }
    tables = {f"model.{name}": part for name, part in model.items()}
    tables |= {"train": train, **_tables_of_optimizers(study)}
    known = {key.partition(".")[2] for key in OPTIONAL_SETTINGS}
    written = [f"{at}.{name}" for at, table in tables.items() for name in known & table.keys()]
    own["parts"] = sorted(key for key in written if tables[key.rpartition(".")[0]][_last(key)])
    lengths = {name: phase["epochs"] for name, phase in train.get("phases", {}).items()}
    if own["lane_loop"] == "map" and lengths and rarely(draw):
        name = draw(st.sampled_from([*lengths]))
        own["traced"] = {f"train.phases.{name}.epochs": [lengths[name], lengths[name] + 1]}


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _tables_of_optimizers(study: Study) -> dict[str, Study]:
    """The optimizer of all parts, or that of each, by dotted key."""
    table = study["optimizer"]
    if "name" in table:
        return {"optimizer": table}
    return {f"optimizer.{name}": own for name, own in table.items()}


def _of_whole_arrays(study: Study) -> bool:
    return any(one["name"] == "adafactor" for one in _tables_of_optimizers(study).values())


def _as_several(draw: Draw, study: Study, tables: Targets) -> None:
    """A study of several trials: what it searches, and how."""
    several = not isinstance(study["study"]["metric"], str) and len(study["study"]["metric"])
    sampler = draw(samplers(several or 1))
    if sampler["name"] != "tpe" or draw(st.booleans()):
        study["study"]["sampler"] = sampler
    if several in (False, 1):
        pruner = draw(pruners(study))
        if pruner["name"] != "none" or draw(st.booleans()):
            study["study"]["pruner"] = pruner
    finite = sampler["name"] == "grid"
    search: Search = draw(searches(tables, set(), finite=finite))
    drop_drawn(draw, study, search)
    study["search"] = nested(search)
    if not finite and rarely(draw):
        study["study"]["enqueue"] = draw(queues(search))
