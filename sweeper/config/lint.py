"""Warnings and hints about study files that are valid, but probably not what was meant.

Most are about settings that have no effect: on any trial, or beyond what happens without them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from sweeper.config.alternating import DATA, UNUSED_LR, AlternatingTable, idle_parts
from sweeper.config.comparable import not_averaged
from sweeper.config.conditions import Wanted
from sweeper.config.coupled import CoupledTable
from sweeper.config.jax_pins import ignored_precisions, overridden
from sweeper.config.kinds import is_function
from sweeper.config.metric_range import is_within, range_of
from sweeper.config.model import (
    OF_NUMBERS,
    LayersTable,
    MixedTable,
    MlpTable,
    PartsTable,
    RowModelTable,
)
from sweeper.config.optimizer import (
    SHAPES,
    MixedOptimizerTable,
    UserOptimizerTable,
    decays_of,
    takes,
)
from sweeper.config.refusals import format_value
from sweeper.config.rules import inputs_of
from sweeper.config.study import N_PARAMETERS, SAMPLERS, unused_values
from sweeper.config.study_config import StudyConfig
from sweeper.config.toml import COMMAND_LINE, IN_PYTHON
from sweeper.config.train import UserProgramTable, better
from sweeper.errors import counted, listed
from sweeper.trial import Scalar


def file_warnings(config: StudyConfig) -> tuple[str, ...]:
    """Warnings about the file to show before a study begins; most studies have none."""
    # the file of a trial names all settings, whether they have an effect or not
    idle = (_idle_decay, _idle_bins, _idle_parts, _idle_phases, _idle_queue, idle_settings)
    return (
        *_drawn_anyway(config),
        *_directions(config),
        *_constraints(config),
        *(one for of in (idle if config.trial is None else ()) for one in of(config)),
        *_trained_on(config),
        *_bins_of_folds(config),
        *_standardized(config),
        *_jax_settings(config),
    )


def study_hints(config: StudyConfig) -> tuple[str, ...]:
    """Hints to show when a study is only checked or planned: it is valid, but could do better."""
    return tuple(_all_at_once(config))


def _drawn_anyway(config: StudyConfig) -> Iterator[str]:
    """A searched setting was overridden, but each trial draws its own value."""
    given = "the override" if config.source.overridden_by == IN_PYTHON else COMMAND_LINE
    for key in config.source.overridden:
        entry = config.entry(key)
        if entry is not None and not entry.when:
            one = '{type="categorical",choices=[VALUE]}'
            yield (
                f"{given} {key} changes nothing: every trial draws its own value by [search]; "
                f"{given} 'search.{key}={one}' fixes the value"
            )


def _directions(config: StudyConfig) -> Iterator[str]:
    """The study searches for the worst value of its metric."""
    for metric, direction in zip(config.study.objectives, config.study.directions, strict=True):
        best = "minimize" if metric == N_PARAMETERS else better(metric)
        if metric not in config.train.unclear_metrics and direction != best:
            yield f"the study is set to {direction} {metric}, but the other direction is usual"


def _all_at_once(config: StudyConfig) -> Iterator[str]:
    """The sampler learns from trials, but proposes all of them before one has ended."""
    n_trials, sampler = config.study.n_trials, config.study.sampler
    of_optuna = sampler.name in SAMPLERS  # what others do without results is unknown
    parallel = config.schedule.parallel or 0
    if sampler.learns and of_optuna and 1 < n_trials <= parallel and config.search:
        yield (
            f"schedule.parallel = {parallel} lets all {n_trials} trials start at "
            f"once, so {sampler.name} proposes them without having seen a result, as random would; "
            "use a smaller value to let it learn from finished trials"
        )


def _idle_decay(config: StudyConfig) -> Iterator[str]:
    """Rules say which arrays decay, but weight decay is not used."""
    for key in decays_of(config.optimizer):
        table = key.removesuffix(".decay")
        amount = f"{table}.weight_decay"
        drawn = config.entry(amount)
        # a user-defined optimizer has no such setting, and may use the rules in any way
        if config.written(amount) == 0 and (drawn is None or drawn.values() == (0.0,)):
            yield f"[{key}] changes nothing, since {amount} is 0; write e.g. {amount} = 1e-4"


def _idle_bins(config: StudyConfig) -> Iterator[str]:
    """Settings for a way to encode numbers that no network uses."""
    drawn = config.number_encodings
    if not isinstance(config.model, RowModelTable | MixedTable):
        return
    for way, names in OF_NUMBERS.items():
        for name in names if way not in drawn else ():
            if config.entry(f"model.{name}") is not None or name in config.model.model_fields_set:
                found = " or ".join(f'"{value}"' for value in drawn)
                yield f'model.{name} has no effect while model.numbers = {found}; write "{way}"'


def _idle_parts(config: StudyConfig) -> Iterator[str]:
    """Parts that are built, but neither trained nor measured."""
    if isinstance(config.model, PartsTable) and isinstance(config.train, AlternatingTable):
        for name in idle_parts(config.train, inputs_of(config.model)):
            yield f"no loss depends on model.{name}, so nothing trains it; remove it"


def _idle_phases(config: StudyConfig) -> Iterator[str]:
    """Phases that begin after the last epoch of every trial."""
    train = config.train
    if not isinstance(train, AlternatingTable):
        return
    turns = [(f"phases.{name}.epochs", name) for name in train.cycle]
    if train.warmup is not None:
        turns.insert(0, ("warmup.epochs", train.warmup.phase))
    begins: dict[str, int] = {}
    before = 0
    for key, name in turns:
        begins.setdefault(name, before + 1)
        before += min(int(length) for length in config.drawn_values(f"train.{key}") or (1,))
    for name, epoch in begins.items():
        if epoch > config.max_epochs:
            yield (
                f"no trial reaches the phase {name}, which begins in epoch {epoch}: the last "
                f"is {config.max_epochs}; increase train.epochs, or shorten the phases"
            )


def _idle_queue(config: StudyConfig) -> Iterator[str]:
    """Some trials in the queue never start, or do not use a value."""
    keys = {entry.column(key): key for key, entry in config.search.items()}
    for index, trial in enumerate(config.study.enqueue):
        values = {keys[column]: value for column, value in trial.items() if column in keys}
        for key, others in unused_values(values, config.search).items():
            unused = f"study.enqueue.{index}.{key} changes nothing"
            yield f"{unused}: it is not used with {others}; remove one of the two"
    queued, n_trials = len(config.study.enqueue), config.study.n_trials
    if queued > n_trials:
        yield (
            f"study.enqueue has {queued} trials, but study.n_trials = {n_trials} leaves out the "
            "last ones"
        )


def _trained_on(config: StudyConfig) -> Iterator[str]:
    """Trials are measured on rows that they train on."""
    trained_on = config.data.split.train_on
    if trained_on != "train":
        also, measures = (
            ("validation", "val_")
            if trained_on == "train+val"
            else ("validation and test", "val_ and test_")
        )
        yield (
            f'trials train on the {also} rows, too (data.split.train_on = "{trained_on}"), so '
            f"{measures} metrics say nothing about new rows"
        )


def _bins_of_folds(config: StudyConfig) -> Iterator[str]:
    """The bins of numbers are fitted to targets that a fold is validated on."""
    if config.study.folds is not None and any(way == "tree" for way, _ in config.used_bins):
        yield (
            'model.bins = "tree" fits the bins of all folds to the targets of their validation '
            "rows, too, so trials that use it look better than they are on new rows; "
            'write "quantile", which uses no targets, or remove study.folds'
        )


def _standardized(config: StudyConfig) -> Iterator[str]:
    """User code gets scaled targets, although the file does not ask for it."""
    data, train = config.data, config.train
    if train.target != "numbers" or data.target_scale is not None or not data.standardizes_targets:
        return
    match train:
        case AlternatingTable():
            losses = {f"losses.{name}.kind": loss for name, loss in train.by_loss.items()}
            kinds = {key: loss.kind for key, loss in losses.items() if loss.against == DATA}
        case CoupledTable():
            kinds = {"objective": train.objective}
        case UserProgramTable():
            kinds = {"program": train.program}
        case _:
            kinds = {"loss": train.loss}
    for setting, function in kinds.items():
        if is_function(function):
            yield (
                f"train.{setting} = {format_value(function)} gets targets that are scaled to mean "
                "0 and deviation 1; if it needs them in their own unit, such as counts, write "
                'data.target_scale = "none"; otherwise data.target_scale = "standard", which ends '
                "this warning"
            )


def _jax_settings(config: StudyConfig) -> Iterator[str]:
    """JAX settings in the environment that studies ignore."""
    if found := [*overridden(os.environ, config.edition)]:
        do = "does" if len(found) == 1 else "do"
        yield f"{listed(found)} {do} not apply to studies, which use JAX's default"
    execution = config.execution
    given = execution.precision, execution.matmul_precision
    for variable, hint in ignored_precisions(os.environ, *given):
        yield f"{variable} does not apply to studies; {hint}"


def _constraints(config: StudyConfig) -> Iterator[str]:
    """The sampler ignores the constraints."""
    if config.study.constraints and config.study.sampler.name == "cmaes":
        yield (
            "the sampler cmaes ignores study.constraints (tpe, gp and nsgaii use them); the best "
            "trial is still the best of those that meet all constraints"
        )


_USUAL_ACTIVATION = LayersTable.model_fields["activation"].default
_OF_HIDDEN_LAYERS = ("dropout", "layer_norm", "activation", "width")


def idle_settings(config: StudyConfig) -> Iterator[str]:
    """Messages about settings that have no effect, searched or not."""
    yield from _searched(config)
    yield from _written(config)
    yield from _rates(config)
    yield from _dropout(config)
    yield from _warmup_lengths(config)
    yield from _early_stop(config)
    yield from _of_data(config)
    yield from _of_study(config)
    yield from _of_execution(config)


def _searched(config: StudyConfig) -> Iterator[str]:
    """Searched settings that no trial draws, or that no trial uses."""
    for key, entry in config.search.items():
        if entry.when and not config.is_drawn(key):
            yield f"search.{key} changes nothing: no trial meets all conditions of its `when`"
        else:
            yield from _undrawn(config, key, key)
    for key, source in config.same_as.items():
        yield from _undrawn(config, key, source)


def _undrawn(config: StudyConfig, key: str, source: str) -> Iterator[str]:
    for need in _needs(config, key):
        if not config.is_drawn(source, need):
            yield f"search.{key} changes nothing: {_unmet(config, *need)}"


def _written(config: StudyConfig) -> Iterator[str]:
    """Settings written for every trial that no trial uses."""
    of_layers = ("dropout", "layer_norm", "activation")
    keys = [f"{model}.{key}" for key in of_layers for model in config.each("model")]
    of_optimizer = ("nesterov", "schedule.start")
    keys += [f"{optimizer}.{key}" for key in of_optimizer for optimizer in config.each("optimizer")]
    if isinstance(config.model, MixedTable):  # any setting may be of a kind that no trial has
        optional = (name for name, one in MixedTable.model_fields.items() if not one.is_required())
        keys += [f"model.{name}" for name in optional if name in config.model.model_fields_set]
    for key in dict.fromkeys(keys):
        value = config.written(key) if config.entry(key) is None else None
        is_usual = key.endswith(".activation") and value == _USUAL_ACTIVATION
        for owner, wanted in _needs(config, key) if value and not is_usual else ():
            values = config.drawn_values(owner)
            if values is not None and not {*values} & {*wanted}:
                written = f"{key} = {format_value(value)}"
                yield f"{written} changes nothing: {_unmet(config, owner, wanted)}"


def _needs(config: StudyConfig, key: str) -> Iterator[Wanted]:
    """The settings that `key` depends on, each with the values for which `key` has an effect."""
    around, _, name = key.rpartition(".")
    if key.startswith("model."):
        # a function may use its own arguments of these names in any way
        has_layers = isinstance(config.each("model").get(around), LayersTable | MixedTable)
        if name in _OF_HIDDEN_LAYERS and has_layers:
            yield from _if_true(config, f"{around}.depth")
        if isinstance(config.model, MixedTable):
            yield "model.kind", tuple(kind for kind in config.kinds if config.is_of(kind, key))
    if key.startswith("optimizer."):
        if name == "nesterov":
            yield from _if_true(config, f"{around}.momentum")
        if around.endswith(".schedule") and name != "name":
            shapes = tuple(shape for shape, numbers in SHAPES.items() if name in numbers)
            yield f"{around}.name", shapes
            if name == "start" and config.drawn_values(f"{around}.warmup"):
                yield from _if_true(config, f"{around}.warmup")
        if isinstance(config.optimizer, MixedOptimizerTable):
            names = config.drawn_values("optimizer.name") or ()
            yield (
                "optimizer.name",
                tuple(one for one in names if takes(str(one), key.partition(".")[2])),
            )


def _if_true(config: StudyConfig, owner: str) -> Iterator[Wanted]:
    values = config.drawn_values(owner)
    if values is not None:  # a continuous range has numbers other than 0
        yield owner, tuple(value for value in values if value)


def _unmet(config: StudyConfig, owner: str, wanted: tuple[Scalar, ...]) -> str:
    values = config.drawn_values(owner) or ()
    met = [value for value in wanted if value in values]
    drawn = listed([format_value(value) for value in met or values], "or")
    if not met:
        return f"{owner} is {drawn} in every trial"
    return f"trials that draw it never have {owner} = {drawn}"


def uncertain_decays(config: StudyConfig) -> tuple[str, ...]:
    """The optimizers, by key, whose weight decay applies to no array in some models.

    Without decay rules, the weights of every MLP decay.
    """
    models = config.each("model")
    found: list[str] = []
    for key, table in config.each("optimizer").items():
        values = config.drawn_values(f"{key}.weight_decay")
        is_zero = isinstance(table, UserOptimizerTable) or (values is not None and not any(values))
        model = models.get(key.replace("optimizer", "model", 1))
        of_mlp = isinstance(model, MlpTable) or all(
            isinstance(m, MlpTable) for m in models.values()
        )
        if not is_zero and (getattr(table, "decay", None) is not None or not of_mlp):
            found.append(key)
    return tuple(found)


def _rates(config: StudyConfig) -> Iterator[str]:
    """Learning rates that no phase uses, and optimizers of parts that no phase trains."""
    train = config.train
    if not isinstance(train, AlternatingTable):
        return
    # one whose rate is searched has a value here, unless only some trials draw it
    rated = {name for name, phase in train.by_phase.items() if phase.lr is not None}
    other_phases = train.by_phase.keys() - rated
    for optimizer, table in config.each("optimizer").items():
        # a user-defined optimizer receives a written rate as its argument lr
        is_optional = isinstance(table, UserOptimizerTable)
        key, part = f"{optimizer}.lr", optimizer.partition(".")[2]
        phases = {n for n, one in train.by_phase.items() if not part or part in one.trains}
        if not phases:
            for one in (*config.search, *config.same_as):
                if one.startswith(f"{optimizer}."):
                    yield f"search.{one} changes nothing: no phase trains model.{part}"
        elif phases <= rated:
            whose = f"every phase that trains model.{part}" if part else "every phase"
            why = f"changes nothing: {whose} has its own lr"
            if config.entry(key) is not None:
                yield f"search.{key} {why}"
            elif not (is_optional and other_phases) and config.written(key) != UNUSED_LR:
                yield f"{key} = {config.written(key)} {why}"


def _dropout(config: StudyConfig) -> Iterator[str]:
    """Searched dropout of models that a user-defined objective calls without it.

    Dropout that is never 0 is refused elsewhere.
    """
    train, models = config.train, config.each("model")
    if isinstance(train, CoupledTable) and is_function(train.objective):
        for key in (*config.search, *config.same_as):
            around, _, setting = key.rpartition(".")
            if setting == "dropout" and isinstance(models.get(around), MlpTable):
                yield (
                    f"search.{key} changes nothing: your own objective calls the models without "
                    "dropout"
                )


def _warmup_lengths(config: StudyConfig) -> Iterator[str]:
    """The length of a phase that only the warm-up trains, which has a length of its own.

    A phase must have a length, so one that agrees with that of the warm-up is not reported.
    """
    train = config.train
    if not isinstance(train, AlternatingTable) or train.warmup is None:
        return
    name = train.warmup.phase
    if name in train.cycle:
        return
    key, own = f"train.phases.{name}.epochs", "train.warmup.epochs"
    why = f"the phase {name} is only in train.warmup, which has its own number of epochs"
    if key in config.search or key in config.same_as:
        yield f"search.{key} changes nothing: {why}; search {own} instead"
    elif config.written(key) not in (config.drawn_values(own) or ()):
        value = config.written(key)
        yield f"{key} = {value} changes nothing: {why}; write {key} = {train.warmup.epochs}, too"


def _early_stop(config: StudyConfig) -> Iterator[str]:
    """An early stop that no trial is long enough to reach."""
    if config.train.early_stop is None:
        return
    patience = config.drawn_values("train.early_stop.patience")
    least, epochs = min(patience or (1,)), config.max_epochs
    if int(least) + 1 >= epochs:
        yield (
            f"train.early_stop ends no trial: patience = {least} needs {least} epochs without a "
            f"better one, so trials end in epoch {int(least) + 1} at the earliest, but they have "
            f"{counted(epochs, 'epoch')}; its only effect is that the best epoch counts, as with "
            'study.value = "best"'
        )


def _of_data(config: StudyConfig) -> Iterator[str]:
    split = config.data.split
    if config.data.target_scale is not None and config.train.target != "numbers":
        is_of_classes = config.train.target == "classes"
        what = "the target is classes" if is_of_classes else "no target is read"
        scale = format_value(config.data.target_scale)
        yield f"data.target_scale = {scale} changes nothing: {what}; remove it"
    if config.study.folds is not None and split.val != type(split).model_fields["val"].default:
        yield (
            f"data.split.val = {split.val} changes nothing: study.folds = {config.study.folds} "
            "splits all rows except those for testing into folds; remove it"
        )
    if config.study.folds is None and split.time is not None and split.seed is not None:
        yield (
            f"data.split.seed = {split.seed} changes nothing: data.split.time splits the rows in "
            "order, without drawing any; remove it"
        )
    if isinstance(config.train, AlternatingTable) and config.data.class_weights != "none":
        for name, loss in config.train.by_loss.items():
            if loss.against == DATA and is_function(loss.kind):
                yield (
                    f"data.class_weights changes nothing in train.losses.{name}: '{loss.kind}' is "
                    "user-defined and gets no weights"
                )


def _of_study(config: StudyConfig) -> Iterator[str]:
    """Constraints that no trial or every trial meets, objectives that never differ, and others."""
    study, early_stop = config.study, config.train.early_stop
    if early_stop is not None and study.value == "last" and "value" in study.model_fields_set:
        yield (
            'study.value = "last" changes nothing: with train.early_stop the best epoch counts; '
            "remove one of them"
        )
    for index, bound in enumerate(config.study.constraints):
        least, greatest = range_of(config, bound.metric)
        if is_within(config, bound.metric, bound.min, bound.max):
            yield f"study.constraints.{index} changes nothing: {bound.metric} is always within it"
        key = f"study.constraints.{index}: no trial can meet"
        if _is_less(bound.max, least):
            yield f"{key} max = {bound.max:g}, since {bound.metric} is never less than {least:g}"
        if _is_less(greatest, bound.min):
            yield f"{key} min = {bound.min:g}, since {bound.metric} is never more than {greatest:g}"
    if N_PARAMETERS in config.study.objectives and not _searches_size(config):
        yield (
            f"every trial has the same {N_PARAMETERS}, an objective of the study: no setting is "
            "searched that changes the size of the model; search its depth or width"
        )


def _is_less(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one < other


def _searches_size(config: StudyConfig) -> bool:
    """Whether trials may have models of different sizes."""
    models = config.each("model")
    for key in (*config.search, *config.same_as):
        around, _, name = key.rpartition(".")
        if around == "model" or around.startswith("model."):
            has_layers = isinstance(models.get(around), LayersTable)
            if not (has_layers and name in ("dropout", "activation")):
                return True
    return False


def _devices(config: StudyConfig) -> Iterator[str]:
    """More devices than threads, of which each serves one at a time."""
    devices, threads = config.execution.devices, config.execution.threads
    # threads that train nothing need no device; a switch class runs on all devices at once
    if config.execution.strategy in ("process", "switch"):
        return
    if isinstance(devices, int) and isinstance(threads, int) and 0 < threads < devices:
        train = "thread trains" if threads == 1 else "threads train"
        yield (
            f"execution.devices = {devices} is more than execution.threads = {threads}: {threads} "
            f"{train} on {counted(threads, 'device')} at most; write "
            f"execution.threads = {devices} or more, or fewer devices"
        )


def _of_execution(config: StudyConfig) -> Iterator[str]:
    execution, n_trials = config.execution, config.study.n_trials
    failures = execution.max_failures
    if isinstance(failures, int) and failures >= n_trials:
        yield (
            f"execution.max_failures = {failures} changes nothing: more than {failures} trials "
            f"would have to fail, but the study has {n_trials}; write a smaller count, or a share"
        )
    yield from _devices(config)
    if config.results.save_optimizer and not config.results.keep_models:
        yield (
            "results.save_optimizer changes nothing: results.keep_models = 0 keeps no model; "
            "write results.keep_models = 1 or more"
        )
    if config.results.ensemble:
        idle = f"results.ensemble = {config.results.ensemble} changes nothing"
        kept = config.results.keep_models
        if why := not_averaged(config):
            yield f"{idle}: {why}; remove it"
        elif kept * config.study.replicates < 2:
            yield (
                f"{idle}: results.keep_models = {kept} keeps fewer than two models; "
                "write results.keep_models = 20"
            )
    retries = type(execution).model_fields["retries"].default
    if execution.workers == 0 and execution.retries != retries:
        yield (
            f"execution.retries = {execution.retries} changes nothing: it is for trials whose "
            "worker died, but execution.workers = 0; remove it"
        )
