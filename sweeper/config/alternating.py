"""`[train]` of `alternating`: phases, each of which trains some parts of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.kinds import Count, OneOf, is_function
from sweeper.config.model import in_order, unknown_part, upstream
from sweeper.config.reading import RawTable, Recipe, RecipeTable, is_table, tables_of
from sweeper.config.refusals import missing
from sweeper.config.table import FIXED, TRACED, Flaw, Table
from sweeper.config.train import TASK_OF_LOSS, EpochsTable, Metric, Task, column_of, metrics_of

DATA = "y"  # in a loss, compares a part with the data
UNUSED_LR = 1.0  # of an optimizer without lr, if every phase that uses it has its own

_OF_NUMBERS = ", ".join(loss for loss, task in TASK_OF_LOSS.items() if task == "numbers")

_Rate = Annotated[float, Field(gt=0, le=1e38)]


class LossTable(Table):
    """`[train.losses.NAME]`: the distance of a part's output from the data or from another part."""

    of: Annotated[str, FIXED] = Field(
        description="the part whose output is compared", examples=["b"]
    )
    against: Annotated[str, FIXED] = Field(
        default=DATA,
        description='"y" for the data, or a part, whose output is then a constant: its '
        "gradient is stopped",
        examples=["b"],
    )
    kind: Annotated[str, OneOf(tuple(TASK_OF_LOSS)), FIXED] = Field(
        description="a loss, as in train.loss of supervised", examples=["mse"]
    )


class PhaseTable(Table):
    """`[train.phases.NAME]`: epochs in which one loss trains some of the parts."""

    epochs: Count = Field(description="epochs in each cycle", examples=[4])
    loss: Annotated[str, FIXED] = Field(
        description="the name of one of [train.losses]", examples=["data"]
    )
    trains: Annotated[tuple[str, ...], Field(strict=False, min_length=1), FIXED] = Field(
        description="the parts to train; the others and their optimizer states are frozen",
        examples=[["a", "b"]],
    )
    lr: Annotated[_Rate | None, TRACED] = Field(
        default=None,
        description="learning rate in this phase; default: that of the optimizer",
        examples=[1e-3],
    )


class WarmupTable(Table):
    """`train.warmup`: epochs of one phase before the first cycle."""

    phase: Annotated[str, FIXED] = Field(description="name of the phase", examples=["fit"])
    epochs: Count = Field(description="number of epochs", examples=[10])


class Losses(RecipeTable):
    """The losses by name."""


class Phases(RecipeTable):
    """The phases by name."""


class AlternatingTable(RecipeTable, EpochsTable):
    """Trains the parts of a model in alternation."""

    program: Annotated[Literal["alternating"], FIXED] = Field(
        description="trains parts of a model in alternation"
    )
    losses: dict[str, LossTable] = Field(description="the losses that phases minimise, by name")
    phases: dict[str, PhaseTable] = Field(description="the phases, by name")
    warmup: WarmupTable | None = Field(
        default=None, description="a phase to train once before the first cycle"
    )
    cycle: Annotated[tuple[str, ...], Field(strict=False, min_length=1), FIXED] = Field(
        description="the phases of a cycle, in order", examples=[["fit", "follow"]]
    )
    switching: Annotated[Literal["cond", "flag", "separate"], FIXED] = Field(
        default="cond",
        description="cond: one program that branches; flag: one program per phase, whose step gets "
        "the phase as an argument; separate: one program per phase, each with its own step",
    )
    metrics: Annotated[tuple[Metric, ...], Field(strict=False), FIXED] = Field(
        default=(),
        description="metrics besides the losses, of the part that the first loss compares with "
        "the data",
        examples=[["r2"]],
    )
    task: Annotated[Task | None, FIXED] = Field(
        default=None, description="kind of target; required if a loss is your own function"
    )

    @property
    def by_loss(self) -> Mapping[str, LossTable]:
        """The losses by name."""
        return tables_of(self.losses)  # type: ignore[arg-type]

    @property
    def by_phase(self) -> Mapping[str, PhaseTable]:
        """The phases by name."""
        return tables_of(self.phases)  # type: ignore[arg-type]

    @property
    def of_data(self) -> str | None:
        """The first loss that compares a part with the data; None if there is none."""
        return next((name for name, loss in self.by_loss.items() if loss.against == DATA), None)

    @property
    def loss(self) -> str:
        """The kind of that loss, such as mse."""
        return self.by_loss[self.of_data].kind if self.of_data is not None else "mse"

    @property
    def loss_keys(self) -> tuple[str, ...]:
        losses = self.by_loss.items()
        return tuple(f"losses.{name}.kind" for name, loss in losses if loss.against == DATA)

    @property
    def functions(self) -> Mapping[str, str]:
        own = {
            loss.kind: f"losses.{name}.kind"
            for name, loss in self.by_loss.items()
            if is_function(loss.kind)
        }
        return own | {metric: "metrics" for metric in self.metrics if is_function(metric)}

    @property
    def lengths(self) -> dict[str, int]:
        """The epochs of the warm-up and of each phase, by dotted key in `[train]`."""
        found = {f"phases.{name}.epochs": phase.epochs for name, phase in self.by_phase.items()}
        return found | ({} if self.warmup is None else {"warmup.epochs": self.warmup.epochs})

    @property
    def loss_names(self) -> tuple[str, ...]:
        return tuple(f"loss_{name}" for name in self.by_loss)

    def phase_at(self, epoch: int) -> str:
        """The phase of an epoch, counted from 1."""
        before = epoch - 1
        if self.warmup is not None:
            if before < self.warmup.epochs:
                return self.warmup.phase
            before -= self.warmup.epochs
        lengths = [self.by_phase[name].epochs for name in self.cycle]
        before %= sum(lengths)
        for name, length in zip(self.cycle, lengths, strict=True):
            if before < length:
                return name
            before -= length
        raise AssertionError("the epoch is within the cycle")


def alternating_recipe(raw: RawTable) -> Recipe:
    """How to read the raw `[train]` of this program."""

    def named(base: type[RecipeTable], name: str, table: type[Table]) -> tuple[str, Recipe]:
        inner = raw.get(name)
        names = [*inner] if is_table(inner) else []
        return name, Recipe(base, tuple((one, table) for one in names))

    tables = named(Losses, "losses", LossTable), named(Phases, "phases", PhaseTable)
    return Recipe(AlternatingTable, tables)


def check_phases(train: AlternatingTable, inputs: Mapping[str, str | None]) -> Iterator[Flaw]:
    """Check that losses name parts, and that phases name losses and parts these depend on."""
    losses, phases = train.by_loss, train.by_phase
    for name, table in (("losses", losses), ("phases", phases)):
        if not table:
            yield missing(f"train.{name}", f"write [train.{name}.NAME]")
    if not losses or not phases:
        return
    for name, loss in losses.items():
        if loss.of not in inputs:
            yield unknown_part(f"train.losses.{name}.of", loss.of, [*inputs])
        if loss.against not in (DATA, *inputs):
            yield unknown_part(f"train.losses.{name}.against", loss.against, [DATA, *inputs])
        if loss.against == loss.of:
            key = f"train.losses.{name}.against"
            yield Flaw(
                key, f"'{loss.of}' is compared with itself", f'write "{DATA}", or another part'
            )
        elif loss.against != DATA and TASK_OF_LOSS.get(loss.kind) == "classes":
            found = f"{loss.kind} is for classes, but the output of '{loss.against}' is numbers"
            yield Flaw(f"train.losses.{name}.kind", found, f"write one of {_OF_NUMBERS}")
    for name, phase in phases.items():
        yield from _unfit_phase(f"train.phases.{name}", phase, losses, inputs)
    wanted = [("train.cycle", name) for name in train.cycle]
    if train.warmup is not None:
        wanted.append(("train.warmup.phase", train.warmup.phase))
    for key, name in wanted:
        if name not in phases:
            yield Flaw(key, f"no phase '{name}'", f"the phases are {', '.join(phases)}")
    used = {name for _, name in wanted}
    # if a used name does not exist, an unused phase may have been meant
    for name in phases if used <= phases.keys() else ():
        if name not in used:
            yield Flaw(f"train.phases.{name}", "not in any cycle", "add it to train.cycle")


def _unfit_phase(
    key: str,
    phase: PhaseTable,
    losses: Mapping[str, LossTable],
    inputs: Mapping[str, str | None],
) -> Iterator[Flaw]:
    loss = losses.get(phase.loss)
    if len(set(phase.trains)) < len(phase.trains):
        yield Flaw(f"{key}.trains", "a part is named twice", "remove one of the two")
    if loss is None:
        found = f"no loss '{phase.loss}'"
        yield Flaw(f"{key}.loss", found, f"the losses are {', '.join(losses)}")
    seen = upstream(None if loss is None else loss.of, inputs)
    is_known = loss is not None and seen <= inputs.keys()
    for part in phase.trains:
        if part not in inputs:
            yield unknown_part(f"{key}.trains", part, [*inputs])
        elif is_known and part not in seen:
            reached = ", ".join(name for name in in_order(inputs) if name in seen)
            found = f"the loss {phase.loss} does not depend on '{part}'"
            yield Flaw(f"{key}.trains", found, f"write some of {reached}")


def idle_parts(train: AlternatingTable, inputs: Mapping[str, str | None]) -> tuple[str, ...]:
    """The parts that no loss depends on, so that no phase can train them."""
    judged = {name for loss in train.by_loss.values() for name in (loss.of, loss.against)}
    seen = {part for name in judged for part in upstream(name, inputs)}
    return tuple(name for name in inputs if name not in seen)


def check_metrics(train: AlternatingTable, inputs: Mapping[str, str | None]) -> Iterable[Flaw]:
    """Check that metrics compare with the data and fit its task."""
    if not train.by_loss:
        return
    if train.of_data is None:
        if any(loss.against not in inputs for loss in train.by_loss.values()):
            return  # reported elsewhere; the data may be meant
        found = f'no loss is against "{DATA}"'
        yield Flaw("train.losses", found, f'write against = "{DATA}" in one of them')
        return
    task = TASK_OF_LOSS.get(train.loss) or train.task
    if task is None:
        why = f"and '{train.loss}' does not determine what the target is"
        yield missing("train.task", 'write task = "classes" or "numbers"', why)
        return
    yield from _unfit_tasks(train, task)
    names = [column_of(metric) for metric in train.metrics]
    if len(set(names)) < len(names):
        yield Flaw("train.metrics", "a metric is named twice", "remove one of the two")
    for name in set(names) & {*train.loss_names}:
        found = f"'{name}' is always reported"
        yield Flaw("train.metrics", found, "give the function another name")
    fitting = metrics_of(train.loss)
    for metric in train.metrics:
        if metric not in fitting and not is_function(metric):
            found = f"{metric} does not fit the loss {train.loss}"
            yield Flaw("train.metrics", found, f"write some of {', '.join(fitting)}")


def _unfit_tasks(train: AlternatingTable, task: Task | None) -> Iterator[Flaw]:
    """Check that all losses against the data agree on the kind of target."""
    if train.task not in (None, task):
        hint = f'write "{task}", or another loss'
        yield Flaw("train.task", f"the loss {train.of_data} is for {task}", hint)
    for name, loss in train.by_loss.items():
        loss_task = TASK_OF_LOSS.get(loss.kind, task)
        if loss.against == DATA and loss_task != task:
            found = f"{loss.kind} is for {loss_task}, but the loss {train.of_data} is for {task}"
            yield Flaw(f"train.losses.{name}.kind", found, f"write a loss for {task}")
