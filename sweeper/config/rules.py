"""Rules that tables of a study file must meet together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sweeper.config.alternating import (
    DATA,
    AlternatingTable,
    check_metrics,
    check_phases,
    idle_parts,
)
from sweeper.config.conditions import StructureSearch
from sweeper.config.coupled import CoupledTable, check_models, sizes_of
from sweeper.config.data import NpzTable, RowsTable
from sweeper.config.kinds import is_function
from sweeper.config.model import LayersTable, MixedTable, PartsTable, TabMTable, check_wiring
from sweeper.config.optimizer import OPTIMIZERS, SHAPES, LrScheduleTable, MixedOptimizerTable, takes
from sweeper.config.reading import RawTable, is_table, with_default
from sweeper.config.refusals import missing
from sweeper.config.search import SearchEntry
from sweeper.config.settings import (
    OPTIONAL_SETTINGS,
    TrainTable,
    arguments_of,
    is_optional,
    is_required,
)
from sweeper.config.space import any_value
from sweeper.config.study import N_PARAMETERS, ConstraintTable, SamplerTable, StudyTable
from sweeper.config.table import Flaw, Table, field_of
from sweeper.config.train import (
    WITHOUT_MEMBERS,
    EpochsTable,
    SupervisedTable,
    UserProgramTable,
    check_dropout,
    column_of,
    idle_of_loss,
    metrics_of,
    reported_metrics,
)
from sweeper.config.trial import ClassTable, TrialTable
from sweeper.errors import did_you_mean


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


def check_reported(
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
    if metric in (*reported_metrics(measures.metrics, measures.losses), *known):
        return
    fitting = metrics_of(measures.loss) if measures.offered is None else measures.offered
    missing = [name for name in fitting if metric in reported_metrics((name,), ())]
    own = (name for name in measures.metrics if name in fitting or is_function(name))
    names = reported_metrics(own, measures.losses)
    every = (*names, *known)
    hint = did_you_mean(metric, every) or f"the program reports {', '.join(every)}"
    if missing:
        hint = f'write train.metrics = ["{missing[0]}"]'
    yield Flaw(key, f"'{metric}' is not reported", hint)


def check_grid(
    sampler: SamplerTable, enqueue: Sequence[object], search: Mapping[str, SearchEntry]
) -> Iterator[Flaw]:
    """Check that a grid is finite, and without enqueued trials, since it tries every value once."""
    if sampler.name != "grid":
        return
    if enqueue:
        hint = "remove them, or write another study.sampler"
        yield Flaw("study.enqueue", "trials to start with, but a grid tries all values", hint)
    for setting, entry in search.items():
        if entry.values() is None:
            count = entry.count()
            what = "a continuous range" if count is None else f"{count:,} integers"
            found = f"{what}, which a grid cannot cover"
            yield Flaw(f"search.{setting}", found, "write step = ..., or choices")


def check_schedule_numbers(
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


def check_decay_end(
    optimizer: str, schedule: Mapping[str, object], names: Sequence[str]
) -> Iterator[Flaw]:
    """Check that an exponential decay does not end at 0."""
    if "exponential" in names and schedule.get("end") == 0:
        found = "an exponential decay never reaches 0"
        yield Flaw(f"{optimizer}.schedule.end", found, "write a number above 0")


def check_optimizer_keys(optimizer: Mapping[str, object], names: Sequence[str]) -> Iterator[Flaw]:
    """Check that each key is used by one of the searched optimizers."""
    for key in optimizer:
        known = key in MixedOptimizerTable.model_fields
        if known and not any(takes(name, key) for name in names):
            found = f"none of {', '.join(names)} uses it"
            yield Flaw(f"optimizer.{key}", found, "remove it, or search an optimizer that uses it")


def check_padding(strategy: str, names: Sequence[str]) -> Iterator[Flaw]:
    """Check that no optimizer looks at whole arrays, because zero padding would affect it."""
    for name in names:
        if strategy == "padded" and not (name in OPTIMIZERS and OPTIMIZERS[name].elementwise):
            found = f"padded, but the optimizer {name} looks at whole arrays, including padding"
            hint = 'write "auto" or "exact", or another optimizer'
            yield Flaw("execution.strategy", found, hint)


def check_single_trial(study: StudyTable, is_searching: bool) -> Iterator[Flaw]:
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


def check_class_size(
    trial: TrialTable, epochs: int, width: int | None, depth: int | None
) -> Iterable[Flaw]:
    """Check that the class of the trial is large enough for it."""
    program = trial.program
    if not trial.epochs <= min(epochs, program.epochs):
        found = f"{trial.epochs} is more than train.epochs or trial.class.epochs"
        yield Flaw("trial.epochs", found, f"write {min(epochs, program.epochs)} or less")
    for name, size, most in (("width", width, program.width), ("depth", depth, program.depth)):
        if most is not None and size is not None and size > most:
            hint = f"write {size} or more, or model.{name} = {most}"
            yield Flaw(f"trial.class.{name}", f"too small for model.{name} {size}", hint)


def check_class_parts(program: ClassTable, model: Table | None) -> Iterable[Flaw]:
    """Check that `trial.class.parts` are optional settings or floats of the model.

    If kinds of models are searched, a trial without a user-defined model may name those of others.
    """
    keys = frozenset(program.parts)
    floats = {} if model is None else arguments_of("model", model, traced=True, optional=keys)
    built_in = type(model) if isinstance(model, LayersTable) else None
    for key in program.parts:
        table, _, name = key.rpartition(".")
        if table == "model" and built_in is not None and field_of(built_in, name) is None:
            continue
        if not is_optional(key) and key not in floats:
            hint = f"write some of {', '.join(OPTIONAL_SETTINGS)}"
            yield Flaw("trial.class.parts", f"no part '{key}'", hint)


def check_traced(program: ClassTable, model: Table | None, train: Table | None) -> Iterable[Flaw]:
    """Check that a class can get its traced settings at run time, and has the trial's values."""
    own: dict[str, object] = {"model.activation": None}  # not used by a trial with another model
    if isinstance(model, LayersTable):
        own["model.activation"] = model.activation
    if isinstance(train, AlternatingTable):
        own |= {f"train.{key}": epochs for key, epochs in train.lengths.items()}
    for key, values in program.traced.items():
        if key not in own:
            hint = f"write some of {', '.join(own)}, or remove it"
            yield Flaw("trial.class.traced", f"'{key}' cannot be traced", hint)
        elif own[key] is not None and own[key] not in values:
            found = f"{key} without {own[key]!r}, the value of the trial"
            yield Flaw("trial.class.traced", found, "add it to the values")


def check_padded_sizes(program: ClassTable, model: Table | None) -> Iterable[Flaw]:
    """Check that a padded class fits each part of the `model`, None if it cannot be padded."""
    sizes: Mapping[str, tuple[int, int]] = {}
    if isinstance(model, PartsTable):
        sizes = model.with_hidden_layers
    is_single = isinstance(model, LayersTable) and model.depth > 0
    if not (sizes or is_single):
        found = "padded, but nothing in this trial can be padded"
        yield Flaw("trial.class.strategy", found, 'write "exact"')
        return
    if is_single and program.sizes:
        hint = "remove it, and write width and depth"
        yield Flaw("trial.class.sizes", "sizes of parts, but the model has no parts", hint)
    for name, (width, depth) in sizes.items():
        most = program.sizes.get(name, (0, 0))
        if width > most[0] or depth > most[1]:
            found = f"too small for model.{name} of width {width}, depth {depth}"
            hint = f"write {name} = [{width}, {depth}] or more"
            yield Flaw("trial.class.sizes", found, hint)
    for name in sorted(program.sizes.keys() - sizes.keys()) if sizes else ():
        found = f"a size for '{name}', but the model has no such part with hidden layers"
        yield Flaw("trial.class.sizes", found, "remove it")


def check_tabm_depths(
    model: TabMTable | MixedTable, search: Mapping[str, SearchEntry], links: Mapping[str, str]
) -> Iterator[Flaw]:
    """Check that no trial is a TabM of depth 0; `links` are settings with values of others."""
    only = {"model.kind": "tabm", "model.depth": 0}
    keys = {key: links.get(key, key) for key in only}
    kept = {source: getattr(model, key.partition(".")[2]) for key, source in keys.items()}
    drawn = [source for source in keys.values() if source in search]
    wanted = {keys[key]: value for key, value in only.items()}
    if StructureSearch(search, drawn, kept.get, {}, wanted).count():
        entry = search.get(keys["model.depth"])
        is_drawn = entry is not None and entry.has(0) is not None
        found = "some trials are a TabM of depth 0, but TabM has at least one hidden layer"
        yield Flaw("search.model.depth" if is_drawn else "model.depth", found, "write 1 or more")


def check_parts(
    model: Table | None, train: Table | None, searched: Collection[str]
) -> Iterator[Flaw]:
    """Check that the program fits the model: one model, or the parts that it names."""
    if isinstance(train, UserProgramTable) and model is not None:
        yield from check_dropout(model, searched)
        if isinstance(model, TabMTable):
            hint = 'write kind = "mlp", or train.program = "supervised"'
            yield Flaw("model.kind", WITHOUT_MEMBERS, hint)
    if not isinstance(train, AlternatingTable | CoupledTable):
        if isinstance(model, PartsTable) and isinstance(train, SupervisedTable | UserProgramTable):
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
    flaws = [*check_wiring(inputs), *check_phases(train, inputs)]
    yield from flaws
    yield from check_metrics(train, inputs)
    if not flaws:
        yield from _unfit_sizes(model, train)


def check_target_transform(data: Table | None, train: Table | None) -> Iterator[Flaw]:
    """Check that transformed targets are numbers, and that the program undoes it."""
    if not isinstance(data, RowsTable) or not isinstance(train, TrainTable):
        return
    is_unclear = isinstance(train, SupervisedTable) and is_function(train.loss) and not train.task
    if data.target_transform == "none" or is_unclear:  # a missing task is already reported
        return
    found, hint = "", "remove it"
    if train.target != "numbers":
        found = f"the target is {'classes' if train.target == 'classes' else 'not read'}"
    elif isinstance(train, CoupledTable | UserProgramTable):
        found = f"the program {train.program} does not know how targets are transformed"
        hint = "remove it, and transform the column in the file"
    if found:
        yield Flaw("data.target_transform", found, hint)


def check_shares(data: Table | None, folds: int | None) -> Iterator[Flaw]:
    """Check that rows to train on are left; folds are of all rows that are not for testing."""
    if isinstance(data, RowsTable) and folds is None and not data.split.leaves_rows:
        split = data.split
        found = f"val {split.val} and test {split.test} leave nothing to train on"
        yield Flaw("data.split", found, "write parts that sum to less than 1")


def check_rows(data: Table | None, train: Table | None) -> Iterator[Flaw]:
    """Check that the program uses the targets, modes and weights that rows have."""
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
    if of_rows and isinstance(data, RowsTable) and data.scale == "quantile":
        found = "generated rows are scaled back by a factor and a shift"
        yield Flaw("data.scale", found, 'write "robust" or "standard"')
    if isinstance(data, RowsTable) and data.weight_column is not None:
        yield from _unweighted(train)
    if isinstance(data, NpzTable) and data.mode is not None and not (of_rows and train.generates):
        found = "no model generates rows to compare with the modes"
        yield Flaw("data.mode", found, "remove it")


def _unweighted(train: EpochsTable) -> Iterator[Flaw]:
    """Check that everything a program computes from rows can use their weights."""
    if isinstance(train, AlternatingTable | CoupledTable | UserProgramTable):
        found = f"the program {train.program} does not weight rows"
        yield Flaw("data.weight", found, 'remove it, or write train.program = "supervised"')
    elif isinstance(train, SupervisedTable):
        for name, setting in train.functions.items():
            found = f"train.{setting}: '{name}' is user-defined and gets no weights"
            yield Flaw("data.weight", found, "remove it, or write what is built in")


def inputs_of(model: PartsTable) -> dict[str, str | None]:
    """The part that feeds each part; None if it is fed by the data."""
    return {name: part.input for name, part in model.parts.items()}


def sizes_of_parts(
    model: PartsTable, train: AlternatingTable | CoupledTable, features: int, targets: int
) -> Mapping[str, tuple[int, int]]:
    """The input and output size of each part, given those of the data."""
    if isinstance(train, CoupledTable):
        return sizes_of(model, features)
    outs = {name: _size(name, model, train, targets) or 0 for name in model.parts}
    return {
        name: (features if source is None else outs[source], outs[name])
        for name, source in inputs_of(model).items()
    }


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
            why = f"and no loss determines the size of '{name}'"
            yield missing(f"model.{name}.out_size", "write out_size = ...", why)
    for name, part in model.parts.items():
        if part.in_size is not None:
            source = "the data" if part.input is None else f"the output of '{part.input}'"
            found = f"{part.in_size}, but the input of '{name}' is {source}"
            yield Flaw(f"model.{name}.in_size", found, "remove it")
    superfluous: dict[str, Flaw] = {}
    for name, loss in train.by_loss.items():
        own = _size(loss.of, model, train, of_data)
        other = of_data if loss.against == DATA else _size(loss.against, model, train, of_data)
        if None in (own, other) or own == other:
            continue
        sized, rest = (loss.of, loss.against) if other == of_data else (loss.against, loss.of)
        size = model.parts[sized].out_size if of_data in (own, other) else None
        if size is not None:
            whose = "the data" if rest == DATA else f"'{rest}', whose size the data determines"
            found = f"{size}, but the loss {name} compares '{sized}' with {whose}"
            hint = "remove it: the data determines the size"
            superfluous.setdefault(sized, Flaw(f"model.{sized}.out_size", found, hint))
        else:
            own, other = ("as many as the data" if n == of_data else n for n in (own, other))
            found = f"outputs of '{loss.of}': {own}, of '{loss.against}': {other}"
            yield Flaw(f"train.losses.{name}", found, "write the same out_size for both")
    yield from superfluous.values()


Search = Mapping[str, SearchEntry]
"""All entries of `[search]`, including settings that take the value of another."""


def names_of(search: Search, key: str, kept: object) -> tuple[str, ...]:
    """The values that trials have of a setting: those drawn, and the one kept if none is drawn.

    None is kept if all trials draw it, or if it is reported as missing.
    """
    entry = search.get(key)
    drawn = () if entry is None else entry.values() or ()
    is_always = kept is None or (entry is not None and not entry.when)
    return tuple(dict.fromkeys(map(str, drawn if is_always else (*drawn, kept))))


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
    yield from check_schedule_numbers(key, schedule, names)
    yield from check_decay_end(key, written, names)
    end = search.get(f"{key}.schedule.end")
    if end is not None and end.has(0.0) is not None:
        for flaw in check_decay_end(key, {"end": 0}, names):
            yield replace(flaw, key=f"search.{key}.schedule.end")
    if is_own and set(names) != {"constant"} and not _is_always(f"{key}.lr", optimizer, search):
        yield missing(f"{key}.lr", "write lr = ...", "but a schedule changes it")


def _is_always(key: str, optimizer: RawTable, search: Search) -> bool:
    """Whether every trial has a value for a setting."""
    entry = search.get(key)
    return key.rpartition(".")[2] in optimizer or (entry is not None and not entry.when)


def check_early_stop(train: RawTable, search: Search) -> Iterator[Flaw]:
    """Check that all trials have the table of a setting that only some of them draw."""
    keys = [key for key in search if key.startswith("train.early_stop.")]
    stops = [
        key
        for key in keys
        if search[key].when and not is_required(EpochsTable, key.partition(".")[2])
    ]
    if stops and "early_stop" not in train and all(search[key].when for key in keys):
        found = "trials that do not draw it have no [train.early_stop]"
        yield Flaw(f"search.{stops[0]}", found, "write [train.early_stop] with patience = ...")


def check_loss(train: RawTable, search: Search) -> Iterator[Flaw]:
    """Check that the loss uses the settings that only some trials draw."""
    for key, entry in search.items():
        setting = key.removeprefix("train.")
        if entry.when and key != setting and setting not in train:
            for flaw in idle_of_loss(train.get("loss"), setting):
                yield flaw.under("search.train")
