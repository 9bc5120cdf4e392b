"""What the tables of a study file must agree on between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sweeper.config.alternating import AlternatingTable
from sweeper.config.kinds import is_function
from sweeper.config.model import MlpTable, PartsTable
from sweeper.config.optimizer import OPTIMIZERS, SHAPES, LrScheduleTable, MixedOptimizerTable, takes
from sweeper.config.search import SearchEntry
from sweeper.config.study import N_PARAMETERS, ConstraintTable, SamplerTable, StudyTable
from sweeper.config.table import Flaw, Table
from sweeper.config.train import column_of, metrics_of, reported
from sweeper.config.trial import ClassTable, TrialTable


@dataclass(frozen=True, slots=True)
class Measures:
    """What a program measures: its loss, what its losses are called, and its metrics.

    `offered` are all metrics that could be asked for, where the loss does not tell.
    """

    loss: str
    metrics: tuple[str, ...]
    losses: tuple[str, ...] = ("loss",)
    offered: tuple[str, ...] | None = None


def check_to_stop(metric: str, measures: Measures) -> Iterator[Flaw]:
    """What ends a trial is reported, and it is known which values of it are better."""
    key = "train.early_stop.metric"
    own = {f"val_{column_of(name)}" for name in measures.metrics if is_function(name)}
    if metric in own:
        found = f"nobody knows which values of '{metric}' are better"
        yield Flaw(key, found, "stop by study.metric, or by a metric of this package")
    yield from _unreported(key, metric, (), measures)


def unreported_metrics(
    objectives: str | tuple[str, ...],
    constraints: Sequence[ConstraintTable],
    measures: Measures,
) -> Iterator[Flaw]:
    """What is optimised or bounded is something that the program reports."""
    for name in (objectives,) if isinstance(objectives, str) else objectives:
        yield from _unreported("study.metric", name, (N_PARAMETERS,), measures)
    for index, constraint in enumerate(constraints):
        place = f"study.constraints.{index}.metric"
        yield from _unreported(place, constraint.metric, (N_PARAMETERS,), measures)


def _unreported(key: str, metric: str, known: Sequence[str], measures: Measures) -> Iterator[Flaw]:
    if metric in (*reported(measures.metrics, measures.losses), *known):
        return
    fitting = metrics_of(measures.loss) if measures.offered is None else measures.offered
    missing = [name for name in fitting if metric in reported((name,), ())]
    own = (name for name in measures.metrics if name in fitting or is_function(name))
    names = reported(own, measures.losses)
    hint = f"the program reports {', '.join((*names, *known))}"
    if near := get_close_matches(metric, (*names, *known), n=1):
        hint = f"did you mean '{near[0]}'?"
    if missing:
        hint = f'write train.metrics = ["{missing[0]}"]'
    yield Flaw(key, f"'{metric}' is not reported", hint)


def grid_and_queue(sampler: SamplerTable, enqueue: Sequence[object]) -> Iterator[Flaw]:
    """A grid tries every value anyway, each once."""
    if sampler.name == "grid" and enqueue:
        hint = "remove them, or write another study.sampler"
        yield Flaw("study.enqueue", "values to try first, of a grid that tries all", hint)


def endless_grid(sampler: SamplerTable, search: Mapping[str, SearchEntry]) -> Iterator[Flaw]:
    """A grid has a last point."""
    if sampler.name != "grid":
        return
    for setting, entry in search.items():
        if entry.count() is None:
            found = "a continuous range, which a grid cannot hold"
            yield Flaw(f"search.{setting}", found, "write step = ..., or choices")


def idle_schedule(
    optimizer: str, schedule: Mapping[str, object], names: Sequence[str]
) -> Iterator[Flaw]:
    """Every number of a schedule is one that some of the schedules `names` has use for."""
    used = [key for name in names for key in SHAPES[name]]
    for key in schedule:
        if key in LrScheduleTable.model_fields and key not in ("name", *used):
            kind = " or ".join(names)
            hint = f"remove it; it has {', '.join(dict.fromkeys(used))}" if used else "remove it"
            found = f"the schedule {kind} has no use for it"
            yield Flaw(f"{optimizer}.schedule.{key}", found, hint)


def endless_decay(
    optimizer: str, schedule: Mapping[str, object], names: Sequence[str]
) -> Iterator[Flaw]:
    """No exponential decay comes to its end at 0."""
    if "exponential" in names and schedule.get("end") == 0:
        found = "an exponential decay does not reach 0"
        yield Flaw(f"{optimizer}.schedule.end", found, "write a number above 0")


def idle_keys(optimizer: Mapping[str, object], names: Sequence[str]) -> Iterator[Flaw]:
    """Every key is one that some of the optimizers which are searched has use for."""
    for key in optimizer:
        known = key in MixedOptimizerTable.model_fields
        if known and not any(takes(name, key) for name in names):
            found = f"none of {', '.join(names)} takes it"
            yield Flaw(f"optimizer.{key}", found, "remove it, or add an optimizer that does")


def padded_arrays(strategy: str, names: Sequence[str]) -> Iterator[Flaw]:
    """Padding is zeros, which an optimizer of whole arrays would take for parameters."""
    for name in names:
        if strategy == "padded" and not (name in OPTIMIZERS and OPTIMIZERS[name].elementwise):
            found = f"padded, and the optimizer {name} looks at whole arrays, padding too"
            hint = 'write "auto" or "exact", or another optimizer'
            yield Flaw("execution.strategy", found, hint)


def more_than_one_trial(study: StudyTable, is_searching: bool) -> Iterator[Flaw]:
    """A file with `[trial]` is that trial alone, and runs it to its end."""
    instead = "or remove [trial], and the file is a study again"
    if is_searching:
        yield Flaw("search", "values to search, for one given trial", f"remove [search], {instead}")
    if study.n_trials != 1:
        found = f"{study.n_trials} trials, where [trial] names one"
        yield Flaw("study.n_trials", found, f"write 1, {instead}")
    if study.pruner.name != "none":
        found = f"'{study.pruner.name}' for a trial that ends after trial.epochs"
        yield Flaw("study.pruner", found, f"remove it, {instead}")


def too_large_for_class(
    trial: TrialTable, epochs: int, width: int | None, depth: int | None
) -> Iterable[Flaw]:
    """The class of a trial has room for it."""
    room = trial.program
    if not trial.epochs <= min(epochs, room.epochs):
        found = f"{trial.epochs} is more than train.epochs or trial.class.epochs"
        yield Flaw("trial.epochs", found, f"write {min(epochs, room.epochs)} or less")
    for name, size, most in (("width", width, room.width), ("depth", depth, room.depth)):
        if most is not None and size is not None and size > most:
            hint = f"write {size} or more, or model.{name} = {most}"
            yield Flaw(f"trial.class.{name}", f"no room for model.{name} {size}", hint)


def check_traced(room: ClassTable, model: Table | None, train: Table | None) -> Iterable[Flaw]:
    """What a class is told at run time is something that it can be told, the trial's value too."""
    own: dict[str, object] = {"model.activation": None}  # of no use to a trial of another model
    if isinstance(model, MlpTable):
        own["model.activation"] = model.activation
    if isinstance(train, AlternatingTable):
        own |= {f"train.{key}": epochs for key, epochs in train.lengths.items()}
    for key, values in room.traced.items():
        if key not in own:
            hint = f"write some of {', '.join(own)}, or remove it"
            yield Flaw("trial.class.traced", f"'{key}' is not told at run time", hint)
        elif own[key] is not None and own[key] not in values:
            found = f"{key} without {own[key]!r}, which is the trial's"
            yield Flaw("trial.class.traced", found, "write it among the values")


def check_room(room: ClassTable, model: Table | None) -> Iterable[Flaw]:
    """A padded class has room for each part of the `model`; None is one that cannot be padded."""
    sizes: Mapping[str, tuple[int, int]] = {}
    if isinstance(model, PartsTable):
        sizes = model.with_hidden_layers
    is_mlp = isinstance(model, MlpTable) and model.depth > 0
    if not (sizes or is_mlp):
        found = "padded, and nothing of this trial can be"
        yield Flaw("trial.class.strategy", found, 'write "exact"')
        return
    if is_mlp and room.sizes:
        hint = "remove it, and write width and depth"
        yield Flaw("trial.class.sizes", "room for parts, of a model that has none", hint)
    for name, (width, depth) in sizes.items():
        most = room.sizes.get(name, (0, 0))
        if width > most[0] or depth > most[1]:
            found = f"no room for model.{name} of width {width}, depth {depth}"
            hint = f"write {name} = [{width}, {depth}] or more"
            yield Flaw("trial.class.sizes", found, hint)
    for name in sorted(room.sizes.keys() - sizes.keys()) if sizes else ():
        found = f"room for '{name}', and there is no such part with hidden layers"
        yield Flaw("trial.class.sizes", found, "remove it")
