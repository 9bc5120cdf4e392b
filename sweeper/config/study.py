"""`[study]` and `[[study.enqueue]]`: the objective, the trials, the sampler and the pruner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from sweeper.config.kinds import (
    AnyScalar,
    Count,
    Duration,
    Names,
    OneOf,
    flattened,
    items_of,
    one_or_more,
    read_as,
    seconds_of,
)
from sweeper.config.reading import is_table
from sweeper.config.refusals import format_value
from sweeper.config.search import CategoricalSearch, SearchEntry
from sweeper.config.table import Flaw, Table
from sweeper.config.toml import beyond_limits
from sweeper.errors import did_you_mean
from sweeper.trial import Scalar

Direction = Literal["minimize", "maximize"]

EDITION = 6
"""The edition of the rules by which new studies prepare data and judge trials.

Studies that began before editions were recorded continue under edition 1.
"""

N_PARAMETERS = "n_parameters"
NOT_FINITE_EXCESS = 1e9
"""By how much a metric that is not finite violates a constraint."""
SAMPLERS = ("tpe", "random", "qmc", "grid", "gp", "cmaes", "nsgaii")
PRUNERS = (
    *("none", "halving", "median", "percentile", "asha", "hyperband"),
    *("patient", "threshold", "wilcoxon"),
)


_NO_DIRECTION = "{value} is not a direction", 'write "minimize" or "maximize", one per metric'
Directions = Annotated[
    Direction | tuple[Direction, ...], read_as(one_or_more(Direction), *_NO_DIRECTION)
]


class _OptunaTable(Table):
    """A table whose other keys are options of an Optuna class, which are checked elsewhere."""

    model_config = ConfigDict(extra="allow")

    @property
    def options(self) -> dict[str, Any]:
        """The keys besides `name`, as written."""
        return dict(self.model_extra or {})


class SamplerTable(_OptunaTable):
    """`[study.sampler]`."""

    name: Annotated[str, OneOf(SAMPLERS, "module:Class")] = Field(
        default="tpe",
        description="proposes trials; other keys are its options",
    )

    @property
    def learns(self) -> bool:
        """Whether its proposals may depend on results; asking such a sampler takes time."""
        return self.name not in ("random", "grid", "qmc")


class PrunerTable(_OptunaTable):
    """`[study.pruner]`."""

    name: Annotated[str, OneOf(PRUNERS, "module:Class")] = Field(
        default="none",
        description="ends trials early; other keys are its options",
    )


class ConstraintTable(Table):
    """One of `[[study.constraints]]`."""

    metric: str = Field(
        description="the metric to bound, at the epoch selected by study.value",
        examples=["n_parameters"],
    )
    max: float | None = Field(default=None, description="upper bound", examples=[20000])
    min: float | None = Field(default=None, description="lower bound", examples=[0.8])

    def excess(self, value: float) -> float:
        """By how much a value of the metric violates the bounds; up to 0 if it does not."""
        over = [] if self.max is None else [value - self.max]
        under = [] if self.min is None else [self.min - value]
        return max(over + under)

    def key(self, index: int) -> str:
        """The name of its excess in Optuna's study, as the constraint at `index`."""
        return f"{index} {self.metric}"


class StopTable(Table):
    """`study.stop`: ends the study before all trials have been trained."""

    value: float | None = Field(
        default=None,
        description='end the study when a complete trial, or with value = "best" any trial, '
        "is as good as this",
        examples=[0.98],
    )
    patience: Count | None = Field(
        default=None,
        description="end the study when so many trained trials in a row, including pruned and "
        "failed ones, have not improved on the best; those that a limit or a request cut off do "
        "not count",
        examples=[200],
    )


def _stop_has_a_rule(stop: StopTable | None, metric: str | tuple[str, ...]) -> Iterable[Flaw]:
    if stop is None:
        return
    if stop.value is None and stop.patience is None:
        yield Flaw("stop", "without a rule", "write value = ..., or patience = ...")
    if not isinstance(metric, str) and len(metric) > 1:
        found = f"with {len(metric)} objectives, but it needs one"
        yield Flaw("stop", found, "remove it, or write one metric")


def _a_direction_each(
    metric: str | tuple[str, ...], direction: Direction | tuple[Direction, ...]
) -> Iterable[Flaw]:
    names = (metric,) if isinstance(metric, str) else metric
    n_directions = 1 if isinstance(direction, str) else len(direction)
    if len(names) != n_directions:
        found = f"{n_directions}, but there are {len(names)} objectives"
        yield Flaw("direction", found, "write one for each of study.metric, in the same order")
    if len(set(names)) < len(names):
        yield Flaw("metric", "an objective is named twice", "remove one of the two")


def _no_interval(constraints: tuple[ConstraintTable, ...]) -> Iterable[Flaw]:
    for index, one in enumerate(constraints):
        key = f"constraints.{index}"
        if one.max is None and one.min is None:
            yield Flaw(key, "without a bound", "write max = ..., or min = ...")
        elif one.max is not None and one.min is not None and one.min > one.max:
            yield Flaw(f"{key}.min", f"min {one.min} is above max {one.max}", "swap the two")


def _several(
    metric: str | tuple[str, ...], pruner: PrunerTable, sampler: SamplerTable
) -> Iterable[Flaw]:
    if isinstance(metric, str) or len(metric) == 1:
        return
    if pruner.name != "none":
        found = f"'{pruner.name}' with {len(metric)} objectives, but a pruner needs one"
        yield Flaw("pruner.name", found, 'write name = "none", or one metric')
    if sampler.name == "cmaes":
        found = f"'cmaes' with {len(metric)} objectives, but it needs one"
        yield Flaw("sampler.name", found, 'write e.g. name = "nsgaii", or one metric')


class StudyTable(Table):
    """`[study]`; `name` also names the run directory."""

    rules = (_a_direction_each, _no_interval, _several, _stop_has_a_rule)

    name: Annotated[str, Field(pattern=r"^\w[\w-]*$", max_length=100)] = Field(
        description="name of the study and of its run directory", examples=["digits"]
    )
    metric: Names = Field(
        description="the objective: train_loss, val_loss, val_NAME for a NAME in train.metrics, "
        "or n_parameters; val_loss_NAME with alternating and coupled; an array for several",
        examples=["val_loss", ["val_loss", "n_parameters"]],
    )
    direction: Directions = Field(
        description="which direction is better; an array for several",
        examples=["minimize", ["minimize", "minimize"]],
    )
    value: Literal["last", "best"] = Field(
        default="last",
        description="the epoch whose value and weights a trial keeps: the last, or the best by "
        "study.metric; with early stopping, last is the best by train.early_stop.metric",
    )
    n_trials: Count = Field(description="number of trials; a grid may have fewer", examples=[64])
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        default=0, description="seed for the split, the proposals and every trial"
    )
    replicates: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="trainings of each trial, with different seeds; its value is their mean",
        examples=[3],
    )
    folds: Annotated[int, Field(ge=2, le=100)] | None = Field(
        default=None,
        description="folds of cross-validation; the value of a trial is their mean",
        examples=[5],
    )
    timeout: Duration | None = Field(
        default=None,
        description='end the study at the next commit after this wall time, such as "30m", over '
        "all of its sessions",
        examples=["30m"],
    )
    stop: StopTable | None = Field(
        default=None,
        description="end the study at a value, or if trials no longer improve",
        examples=[{"value": 0.98, "patience": 200}],
    )
    constraints: Annotated[tuple[ConstraintTable, ...], Field(strict=False)] = Field(
        default=(),
        description="bounds that a trial must meet to be feasible; [[study.constraints]]",
        examples=[[{"metric": "n_parameters", "max": 20000}]],
    )
    enqueue: Annotated[tuple[dict[str, AnyScalar], ...], Field(strict=False)] = Field(
        default=(),
        description="trials to start with: values by key or column; [[study.enqueue]]",
        examples=[[{"depth": 2, "lr": 1e-3}]],
    )
    sampler: SamplerTable = Field(default=SamplerTable(), description="proposes trials")
    pruner: PrunerTable = Field(default=PrunerTable(), description="ends trials early")

    @property
    def objectives(self) -> tuple[str, ...]:
        """The metrics to optimise; most studies have one."""
        return (self.metric,) if isinstance(self.metric, str) else self.metric

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Which direction is better, for each objective."""
        return (self.direction,) if isinstance(self.direction, str) else self.direction

    @property
    def timeout_s(self) -> float | None:
        """The wall time of all sessions together, in seconds; None for no limit."""
        return None if self.timeout is None else seconds_of(self.timeout)


def read_enqueue(
    raw: object, search: Mapping[str, SearchEntry]
) -> tuple[list[dict[str, Scalar]], list[Flaw]]:
    """The values of each trial by column, and their flaws."""
    written = items_of(raw) or ()
    if items_of(raw) == ():
        return [], []
    given = [table for table in written if is_table(table)]
    if not given or len(given) < len(written):
        hint = "write [[study.enqueue]] before the values of each trial"
        return [], [Flaw("study.enqueue", f"{format_value(raw)} is not an array of tables", hint)]
    tables: list[dict[str, Scalar]] = []
    flaws: list[Flaw] = []
    for index, table in enumerate(given):
        # a study that began with other idle values goes on, with a warning
        values, found = read_trial(table, f"study.enqueue.{index}.", search, only_if_known=True)
        tables.append(values)
        flaws += found
    return tables, flaws


def read_trial(
    table: Mapping[str, object],
    under: str,
    search: Mapping[str, SearchEntry],
    *,
    only_if_known: bool = False,
) -> tuple[dict[str, Scalar], list[Flaw]]:
    """The values of one trial by column, and their flaws, whose places begin with `under`.

    A value with a condition needs a value for each setting of it, since the sampler draws those
    that are not given. With `only_if_known` it does not, and is a flaw only if all of them are
    given and violate its condition.
    """
    if beyond := [replace(flaw, key=f"{under}{flaw.key}") for flaw in beyond_limits(table)]:
        return {}, beyond
    settings = {entry.column(key): key for key, entry in search.items()}
    values: dict[str, Scalar] = {}
    flaws: list[Flaw] = []
    for name, value in flattened(table):
        place, key = f"{under}{name}", settings.get(name, name)
        if key not in search:
            flaws.append(_not_searched(place, name, search, settings))
        elif key in values:
            flaws.append(Flaw(place, f"'{key}' is given twice", "remove one"))
        elif not isinstance(value, Scalar) or (fit := search[key].has(value)) is None:
            flaws.append(Flaw(place, *_outside(value, search[key])))
        else:
            values[key] = fit
    unused = unused_values(values, search)
    for key in values:
        when = search[key].when or {}
        lacking = [one for one in when if one not in values]
        if key in unused and not (only_if_known and lacking):
            found = f"not used with {unused[key]}"
            flaws.append(Flaw(f"{under}{key}", found, "remove one of the two"))
        elif lacking and not only_if_known:
            wanted = " and ".join(
                f"{one} = {' or '.join(map(format_value, when[one]))}" for one in lacking
            )
            found = f"used only with {wanted}, which the sampler may not draw"
            flaws.append(Flaw(f"{under}{key}", found, f"give {' and '.join(lacking)}, too"))
    return {search[key].column(key): value for key, value in values.items()}, flaws


def _not_searched(
    place: str, name: str, search: Mapping[str, SearchEntry], columns: Mapping[str, str]
) -> Flaw:
    """The flaw of giving a value that trials do not draw."""
    names = (*search, *columns)
    hint = (
        did_you_mean(name, names) or f"use what is searched, by key or column: {', '.join(names)}"
    )
    if not search:
        hint = "remove it: nothing is searched"
    return Flaw(place, "not searched, so no trial can be given a value of it", hint)


def unused_values(
    values: Mapping[str, Scalar], search: Mapping[str, SearchEntry]
) -> dict[str, str]:
    """The settings whose own condition the other `values` violate, each with these as text."""
    found: dict[str, str] = {}
    for key in values:
        when = search[key].when or {}
        others = [one for one in when if one in values and values[one] not in when[one]]
        if others:
            found[key] = ", ".join(f"{one} = {format_value(values[one])}" for one in others)
    return found


def _outside(value: object, entry: SearchEntry) -> tuple[str, str]:
    found = f"{format_value(value)} is not one of its values"
    if isinstance(entry, CategoricalSearch):
        return found, f"write one of {', '.join(map(format_value, entry.choices))}"
    steps = f" in steps of {entry.step}" if entry.step not in (None, 1) else ""
    powers = ", a power of 2" if entry.type == "int" and entry.base else ""
    extra = "".join(f", or {format_value(one)}" for one in entry.or_values)
    return found, f"write {entry.low} to {entry.high}{steps}{powers}{extra}"
