"""Rules that tables of a study file must meet together."""

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
    """What a program measures: its loss, the names of its losses, and its metrics.

    `offered` are all metrics that could be requested, if the loss does not determine them.
    """

    loss: str
    metrics: tuple[str, ...]
    losses: tuple[str, ...] = ("loss",)
    offered: tuple[str, ...] | None = None


def check_to_stop(metric: str, measures: Measures) -> Iterator[Flaw]:
    """Check that the metric that stops a trial is reported and has a known direction."""
    key = "train.early_stop.metric"
    own = {f"val_{column_of(name)}" for name in measures.metrics if is_function(name)}
    if metric in own:
        found = f"it is not known which values of '{metric}' are better"
        yield Flaw(key, found, "stop by study.metric, or by a built-in metric")
    yield from _unreported(key, metric, (), measures)


def unreported_metrics(
    objectives: str | tuple[str, ...],
    constraints: Sequence[ConstraintTable],
    measures: Measures,
) -> Iterator[Flaw]:
    """Check that objectives and constraints are metrics that the program reports."""
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
    """Check that no trials are enqueued for a grid, which tries every value once anyway."""
    if sampler.name == "grid" and enqueue:
        hint = "remove them, or write another study.sampler"
        yield Flaw("study.enqueue", "trials to start with, but a grid tries all values", hint)


def endless_grid(sampler: SamplerTable, search: Mapping[str, SearchEntry]) -> Iterator[Flaw]:
    """Check that a grid is finite."""
    if sampler.name != "grid":
        return
    for setting, entry in search.items():
        if entry.count() is None:
            found = "a continuous range, which a grid cannot cover"
            yield Flaw(f"search.{setting}", found, "write step = ..., or choices")


def idle_schedule(
    optimizer: str, schedule: Mapping[str, object], names: Sequence[str]
) -> Iterator[Flaw]:
    """Check that each number of a schedule is used by one of the schedules in `names`."""
    used = [key for name in names for key in SHAPES[name]]
    for key in schedule:
        if key in LrScheduleTable.model_fields and key not in ("name", *used):
            kind = " or ".join(names)
            hint = f"remove it; it uses {', '.join(dict.fromkeys(used))}" if used else "remove it"
            found = f"the schedule {kind} does not use it"
            yield Flaw(f"{optimizer}.schedule.{key}", found, hint)


def endless_decay(
    optimizer: str, schedule: Mapping[str, object], names: Sequence[str]
) -> Iterator[Flaw]:
    """Check that an exponential decay does not end at 0."""
    if "exponential" in names and schedule.get("end") == 0:
        found = "an exponential decay never reaches 0"
        yield Flaw(f"{optimizer}.schedule.end", found, "write a number above 0")


def idle_keys(optimizer: Mapping[str, object], names: Sequence[str]) -> Iterator[Flaw]:
    """Check that each key is used by one of the searched optimizers."""
    for key in optimizer:
        known = key in MixedOptimizerTable.model_fields
        if known and not any(takes(name, key) for name in names):
            found = f"none of {', '.join(names)} uses it"
            yield Flaw(f"optimizer.{key}", found, "remove it, or search an optimizer that uses it")


def padded_arrays(strategy: str, names: Sequence[str]) -> Iterator[Flaw]:
    """Check that no optimizer looks at whole arrays, where zero padding would count."""
    for name in names:
        if strategy == "padded" and not (name in OPTIMIZERS and OPTIMIZERS[name].elementwise):
            found = f"padded, but the optimizer {name} looks at whole arrays, including padding"
            hint = 'write "auto" or "exact", or another optimizer'
            yield Flaw("execution.strategy", found, hint)


def more_than_one_trial(study: StudyTable, is_searching: bool) -> Iterator[Flaw]:
    """Check that a file with `[trial]` runs only that trial, to its end."""
    instead = "or remove [trial] to make this a study again"
    if is_searching:
        yield Flaw("search", "searched, but [trial] is one trial", f"remove [search], {instead}")
    if study.n_trials != 1:
        found = f"{study.n_trials} trials, but [trial] is one trial"
        yield Flaw("study.n_trials", found, f"write 1, {instead}")
    if study.pruner.name != "none":
        found = f"'{study.pruner.name}', but the trial ends after trial.epochs"
        yield Flaw("study.pruner", found, f"remove it, {instead}")


def too_large_for_class(
    trial: TrialTable, epochs: int, width: int | None, depth: int | None
) -> Iterable[Flaw]:
    """Check that the class of the trial is large enough for it."""
    room = trial.program
    if not trial.epochs <= min(epochs, room.epochs):
        found = f"{trial.epochs} is more than train.epochs or trial.class.epochs"
        yield Flaw("trial.epochs", found, f"write {min(epochs, room.epochs)} or less")
    for name, size, most in (("width", width, room.width), ("depth", depth, room.depth)):
        if most is not None and size is not None and size > most:
            hint = f"write {size} or more, or model.{name} = {most}"
            yield Flaw(f"trial.class.{name}", f"too small for model.{name} {size}", hint)


def check_traced(room: ClassTable, model: Table | None, train: Table | None) -> Iterable[Flaw]:
    """Check that a class can get its traced settings at run time, and has the trial's values."""
    own: dict[str, object] = {"model.activation": None}  # not used by a trial with another model
    if isinstance(model, MlpTable):
        own["model.activation"] = model.activation
    if isinstance(train, AlternatingTable):
        own |= {f"train.{key}": epochs for key, epochs in train.lengths.items()}
    for key, values in room.traced.items():
        if key not in own:
            hint = f"write some of {', '.join(own)}, or remove it"
            yield Flaw("trial.class.traced", f"'{key}' cannot be traced", hint)
        elif own[key] is not None and own[key] not in values:
            found = f"{key} without {own[key]!r}, the value of the trial"
            yield Flaw("trial.class.traced", found, "add it to the values")


def check_room(room: ClassTable, model: Table | None) -> Iterable[Flaw]:
    """Check that a padded class fits each part of the `model`, None if it cannot be padded."""
    sizes: Mapping[str, tuple[int, int]] = {}
    if isinstance(model, PartsTable):
        sizes = model.with_hidden_layers
    is_mlp = isinstance(model, MlpTable) and model.depth > 0
    if not (sizes or is_mlp):
        found = "padded, but nothing in this trial can be padded"
        yield Flaw("trial.class.strategy", found, 'write "exact"')
        return
    if is_mlp and room.sizes:
        hint = "remove it, and write width and depth"
        yield Flaw("trial.class.sizes", "sizes of parts, but the model has no parts", hint)
    for name, (width, depth) in sizes.items():
        most = room.sizes.get(name, (0, 0))
        if width > most[0] or depth > most[1]:
            found = f"too small for model.{name} of width {width}, depth {depth}"
            hint = f"write {name} = [{width}, {depth}] or more"
            yield Flaw("trial.class.sizes", found, hint)
    for name in sorted(room.sizes.keys() - sizes.keys()) if sizes else ():
        found = f"a size for '{name}', but the model has no such part with hidden layers"
        yield Flaw("trial.class.sizes", found, "remove it")
