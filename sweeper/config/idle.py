"""Settings that have no effect: on any trial, or beyond what happens without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sweeper.config.alternating import AlternatingTable
from sweeper.config.model import MlpTable
from sweeper.config.optimizer import SHAPES, MixedOptimizerTable, UserOptimizerTable, takes
from sweeper.config.refusals import format_value
from sweeper.config.study import N_PARAMETERS
from sweeper.config.study_config import StudyConfig
from sweeper.config.table import Table, field_of, value_of
from sweeper.config.train import TASK_OF_LOSS
from sweeper.errors import counted, listed
from sweeper.trial import Scalar

_OF_HIDDEN_LAYERS = ("dropout", "layer_norm", "activation", "width")
# the lowest and highest value of each metric
_RANGES: Mapping[str, tuple[float | None, float | None]] = {
    **dict.fromkeys(("accuracy", "f1", "auroc"), (0.0, 1.0)),
    **dict.fromkeys(("log_loss", "rmse", "mae"), (0.0, None)),
    "r2": (None, 1.0),
}


def range_of(config: StudyConfig, reported: str) -> tuple[float | None, float | None]:
    """The lowest and highest value that a metric may have; None if unbounded."""
    name = reported.partition("_")[2]
    if reported == N_PARAMETERS:
        return 0.0, None
    if name == "loss":
        return (0.0 if config.train.loss in TASK_OF_LOSS else None), None
    return _RANGES.get(name, (None, None)) if name in config.train.metrics else (None, None)


def idle_settings(config: StudyConfig) -> Iterator[str]:
    """Messages about settings that have no effect, searched or not."""
    yield from _searched(config)
    yield from _written(config)
    yield from _rates(config)
    yield from _early_stop(config)
    yield from _of_data(config)
    yield from _of_study(config)
    yield from _of_execution(config)


class _Need(NamedTuple):
    """A setting that is only used if the setting `owner` has one of the values `wanted`."""

    key: str
    owner: str
    wanted: tuple[Scalar, ...]


def _searched(config: StudyConfig) -> Iterator[str]:
    """Searched settings that no trial draws, or that no trial uses."""
    for key, entry in config.search.items():
        if entry.when and not config.is_drawn(key):
            yield f"search.{key} changes nothing: no trial meets all conditions of its `when`"
            continue
        for need in _needs(config, key):
            if not config.is_drawn(key, (need.owner, need.wanted)):
                yield f"search.{key} changes nothing: {_unmet(config, need)}"
    for key, source in config.same_as.items():
        for need in _needs(config, key):
            if not config.is_drawn(source, (need.owner, need.wanted)):
                yield f"search.{key} changes nothing: {_unmet(config, need)}"


def _written(config: StudyConfig) -> Iterator[str]:
    """Settings written for every trial that no trial uses."""
    for key in ("dropout", "layer_norm"):
        yield from _unused(config, [f"{model}.{key}" for model in config.each("model")])
    yield from _unused(config, [f"{optimizer}.nesterov" for optimizer in config.each("optimizer")])


def _unused(config: StudyConfig, keys: list[str]) -> Iterator[str]:
    for key in keys:
        is_written = config.entry(key) is None and _value(config, key)
        for need in _needs(config, key) if is_written else ():
            values = config.drawn_values(need.owner)
            if values is not None and not {*values} & {*need.wanted}:
                written = f"{key} = {format_value(_value(config, key))}"
                yield f"{written} changes nothing: {_unmet(config, need)}"


def _needs(config: StudyConfig, key: str) -> Iterator[_Need]:
    """What a trial needs for a setting to be used; empty for most settings."""
    around, _, name = key.rpartition(".")
    if key.startswith("model.") and name in _OF_HIDDEN_LAYERS and _has(config, f"{around}.depth"):
        yield from _if_true(config, key, f"{around}.depth")
    if key.startswith("optimizer."):
        if name == "nesterov":
            yield from _if_true(config, key, f"{around}.momentum")
        if around.endswith(".schedule"):
            shapes = tuple(shape for shape, numbers in SHAPES.items() if name in numbers)
            yield from [_Need(key, f"{around}.name", shapes)] if name != "name" else []
        if isinstance(config.optimizer, MixedOptimizerTable):
            names = config.drawn_values("optimizer.name") or ()
            taking = tuple(one for one in names if takes(str(one), key.partition(".")[2]))
            yield _Need(key, "optimizer.name", taking)
    if key.startswith("model.") and len(config.kinds) > 1:
        yield _Need(
            key, "model.kind", tuple(kind for kind in config.kinds if config.is_of(kind, key))
        )


def _if_true(config: StudyConfig, key: str, owner: str) -> Iterator[_Need]:
    values = config.drawn_values(owner)
    if values is not None:  # a continuous range has numbers other than 0
        yield _Need(key, owner, tuple(value for value in values if value))


def _unmet(config: StudyConfig, need: _Need) -> str:
    values = config.drawn_values(need.owner) or ()
    if not {*values} & {*need.wanted}:
        drawn = listed([format_value(value) for value in values], "or")
        return f"{need.owner} is {drawn} in every trial"
    return (
        f"trials that draw it never have {need.owner} = "
        f"{listed([format_value(value) for value in need.wanted if value in values], 'or')}"
    )


def _has(config: StudyConfig, key: str) -> bool:
    name, _, setting = key.partition(".")
    table: Table = getattr(config, name)
    return field_of(type(table), setting) is not None


def _value(config: StudyConfig, key: str) -> Any:
    table, _, setting = key.partition(".")
    return value_of(getattr(config, table), setting) if _has(config, key) else None


def uncertain_decays(config: StudyConfig) -> tuple[str, ...]:
    """The optimizers, by key, whose weight decay applies to no array in some models.

    Without decay rules, the weights of every MLP decay.
    """
    models = config.each("model")
    found: list[str] = []
    for key, table in config.each("optimizer").items():
        values = config.drawn_values(f"{key}.weight_decay")
        is_zero = isinstance(table, UserOptimizerTable) or (values is not None and not any(values))
        its = models.get(key.replace("optimizer", "model", 1))
        of_mlp = isinstance(its, MlpTable) or all(isinstance(m, MlpTable) for m in models.values())
        if not is_zero and (getattr(table, "decay", None) is not None or not of_mlp):
            found.append(key)
    return tuple(found)


def _rates(config: StudyConfig) -> Iterator[str]:
    """An optimizer's learning rate that no phase uses, since each has its own."""
    train = config.train
    if not isinstance(train, AlternatingTable):
        return
    rates = [f"train.phases.{name}.lr" for name in train.cycle]
    own = [_value(config, key) is not None or config.entry(key) is not None for key in rates]
    conditional = any(entry.when for key in rates if (entry := config.entry(key)) is not None)
    if all(own) and not conditional:
        for optimizer in config.each("optimizer"):
            if config.entry(f"{optimizer}.lr") is not None:
                yield f"search.{optimizer}.lr changes nothing: every phase has its own lr"


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
    if config.study.folds is not None and split.val != type(split).model_fields["val"].default:
        yield (
            f"data.split.val = {split.val} changes nothing: study.folds = {config.study.folds} "
            "splits all rows but those for testing into folds; remove it"
        )
    if config.study.folds is None and split.time is not None and split.seed is not None:
        yield (
            f"data.split.seed = {split.seed} changes nothing: data.split.time splits the rows in "
            "order, without drawing any; remove it"
        )


def _of_study(config: StudyConfig) -> Iterator[str]:
    """Constraints that no trial or every trial meets, and objectives that never differ."""
    for index, bound in enumerate(config.study.constraints):
        least, greatest = range_of(config, bound.metric)
        is_low = bound.min is None or (least is not None and bound.min <= least)
        is_high = bound.max is None or (greatest is not None and bound.max >= greatest)
        if is_low and is_high:
            yield f"study.constraints.{index} changes nothing: {bound.metric} is always within it"
        key = f"study.constraints.{index}: no trial can meet"
        if _is_less(bound.max, least):
            yield f"{key} max = {bound.max:g}, since {bound.metric} is never less than {least:g}"
        if _is_less(greatest, bound.min):
            yield f"{key} min = {bound.min:g}, since {bound.metric} is never more than {greatest:g}"
    if N_PARAMETERS in config.study.objectives and not _searches_size(config):
        yield (
            f"every trial has the same {N_PARAMETERS}, an objective of the study: no setting is "
            "searched that changes the size of the model; search model.depth or model.width"
        )


def _is_less(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one < other


def _searches_size(config: StudyConfig) -> bool:
    """Whether trials may have models of different sizes."""
    models = config.each("model")
    for key in (*config.search, *config.same_as):
        around, _, name = key.rpartition(".")
        if around == "model" or around.startswith("model."):
            is_mlp = isinstance(models.get(around), MlpTable)
            if not (is_mlp and name in ("dropout", "activation")):
                return True
    return False


def _of_execution(config: StudyConfig) -> Iterator[str]:
    execution, n_trials = config.execution, config.study.n_trials
    failures = execution.max_failures
    if isinstance(failures, int) and failures >= n_trials:
        yield (
            f"execution.max_failures = {failures} changes nothing: more than {failures} trials "
            f"would have to fail, but the study has {n_trials}; write a smaller count, or a share"
        )
    if config.results.save_optimizer and not config.results.keep_models:
        yield (
            "results.save_optimizer changes nothing: results.keep_models = 0 keeps no model; "
            "write results.keep_models = 1 or more"
        )
    retries = type(execution).model_fields["retries"].default
    if execution.workers == 0 and execution.retries != retries:
        yield (
            f"execution.retries = {execution.retries} changes nothing: it is for trials whose "
            "worker died, but execution.workers = 0; remove it"
        )
