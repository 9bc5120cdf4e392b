"""`[train]`: the program, its loss, what it reports and for how long it trains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import Field

from sweeper.config.kinds import Count, OneOf, is_function
from sweeper.config.table import BOUND, FIXED, TRACED, Flaw, Table

Task = Literal["classes", "numbers"]

TASK_OF_LOSS: Mapping[str, Task] = {
    "cross_entropy": "classes",
    "binary_cross_entropy": "classes",
    "mse": "numbers",
    "mae": "numbers",
    "huber": "numbers",
}
TASK_OF_METRIC: Mapping[str, Task] = {
    "accuracy": "classes",
    "f1": "classes",
    "auroc": "classes",
    "log_loss": "classes",
    "r2": "numbers",
    "rmse": "numbers",
    "mae": "numbers",
}
# losses that may weigh each example by its class
WEIGHED = ("cross_entropy", "binary_cross_entropy")
# metrics of which less is better; of one of the user's own nobody knows
_ERRORS = frozenset({"log_loss", "rmse", "mae", "sliced_wasserstein"})

Loss = Annotated[str, OneOf(tuple(TASK_OF_LOSS))]
Metric = Annotated[str, OneOf(tuple(TASK_OF_METRIC))]

# settings that some losses alone have use for
_LOSSES_WITH: Mapping[str, tuple[str, ...]] = {
    "label_smoothing": WEIGHED,
    "huber_delta": ("huber",),
}


def column_of(metric: str) -> str:
    """What a metric is called in the results: one of the user's own by its function."""
    return metric.rpartition(":")[2]


def reported(metrics: Iterable[str], losses: Iterable[str] = ("loss",)) -> tuple[str, ...]:
    """What is reported after every epoch, in the order of the columns."""
    measured = (*losses, *(column_of(metric) for metric in metrics))
    return (*(f"train_{loss}" for loss in losses), *(f"val_{name}" for name in measured))


def metrics_of(loss: str) -> tuple[str, ...]:
    """The built-in metrics that go with `loss`; all of them where it is the user's own."""
    task = TASK_OF_LOSS.get(loss)
    return tuple(name for name, its_task in TASK_OF_METRIC.items() if task in (None, its_task))


def better(reported: str) -> Literal["minimize", "maximize"]:
    """The direction in which what is reported under this name is usually better."""
    name = reported.partition("_")[2]
    return "minimize" if name.startswith("loss") or name in _ERRORS else "maximize"


def _metric_of_another_task(
    loss: str, task: Task | None, metrics: tuple[str, ...]
) -> Iterable[Flaw]:
    mine = TASK_OF_LOSS.get(loss, task)
    for metric in metrics:
        its_task = TASK_OF_METRIC.get(metric, mine)
        if mine is None or its_task == mine:
            continue
        fitting = [name for name, its in TASK_OF_METRIC.items() if its == mine]
        instead = ", ".join(fitting)
        if loss in TASK_OF_LOSS:
            others = [name for name, its in TASK_OF_LOSS.items() if its == its_task]
            found = f"{metric} does not go with the loss {loss}"
            yield Flaw("metrics", found, f'write one of {instead}, or loss = "{others[0]}"')
        else:
            found = f"{metric} is of {its_task}, and the task is {mine}"
            yield Flaw("metrics", found, f"write one of {instead}")


def repeated_metric(metrics: tuple[str, ...]) -> Iterable[Flaw]:
    """Each metric is a column of its own."""
    names = [column_of(metric) for metric in metrics]
    if len(set(names)) < len(names):
        yield Flaw("metrics", "a metric is named twice", "name each once")
    if "loss" in names:
        yield Flaw("metrics", "'loss' is reported anyway", "give the function another name")


def _untold_task(loss: str, task: Task | None) -> Iterable[Flaw]:
    known = TASK_OF_LOSS.get(loss)
    if known is None and task is None:
        found = f"missing, and '{loss}' does not tell what the target is"
        yield Flaw("task", found, 'write task = "classes" or "numbers"')
    elif known is not None and task not in (None, known):
        yield Flaw("task", f"the loss {loss} is of {known}", f'write "{known}", or another loss')


def _setting_of_another_loss(
    loss: str, label_smoothing: float | None, huber_delta: float | None
) -> Iterable[Flaw]:
    for name, value in (("label_smoothing", label_smoothing), ("huber_delta", huber_delta)):
        if value is not None:
            yield from idle_of_loss(loss, name)


def idle_of_loss(loss: object, setting: str) -> Iterable[Flaw]:
    """A setting that some losses alone have use for goes with one of these."""
    losses = _LOSSES_WITH.get(setting)
    if losses is not None and loss not in losses:
        hint = f'remove it, or write loss = "{losses[0]}"'
        yield Flaw(setting, f"the loss {loss} has no use for it", hint)


class EarlyStopTable(Table):
    """`[train.early_stop]`: a trial whose metric gets no better ends."""

    metric: Annotated[str | None, FIXED] = Field(
        default=None,
        description="what has to get better; study.metric where none is written",
        examples=["val_loss"],
    )
    patience: Annotated[Count, TRACED] = Field(
        description="so many epochs in a row without a better one end the trial", examples=[5]
    )
    min_delta: Annotated[float, Field(ge=0, le=1e38), TRACED] = Field(
        default=0.0, description="an epoch is better by more than this"
    )


class _Measured(Protocol):
    """What the tables of all programs say of what they report."""

    @property
    def loss(self) -> str: ...
    @property
    def task(self) -> Task | None: ...
    @property
    def metrics(self) -> tuple[str, ...]: ...
    @property
    def loss_names(self) -> tuple[str, ...]: ...


class EpochsTable(Table):
    """What every program's `[train]` has: how long it trains, and on how many rows at a time.

    `is_padded` tells whether its trials may be trained in a program that has room for larger ones.
    """

    is_padded: ClassVar[bool] = True

    ema: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, TRACED] = Field(
        default=None,
        description="decay of a running average of the weights, which is what is measured and "
        "saved; none where it is not written",
        examples=[0.99],
    )
    early_stop: EarlyStopTable | None = Field(
        default=None, description="when a trial ends before its last epoch"
    )
    epochs: Annotated[Count, BOUND] = Field(
        description="passes over the training part", examples=[20]
    )
    batch_size: Count = Field(
        description="rows a step; those that fill no batch wait for a later epoch", examples=[64]
    )

    @property
    def target(self: _Measured) -> Task | None:
        """What is to be predicted: classes or numbers; None where nothing is."""
        target = TASK_OF_LOSS.get(self.loss) or self.task
        assert target is not None, "a rule of this table"
        return target

    @property
    def functions(self: _Measured) -> Mapping[str, str]:
        """The user's own losses and metrics, each with the setting that names it."""
        named = [("loss", self.loss), *(("metrics", metric) for metric in self.metrics)]
        return {name: setting for setting, name in named if is_function(name)}

    @property
    def loss_names(self) -> tuple[str, ...]:
        """What losses are called in the results, after the part of the data that they are of."""
        return ("loss",)

    @property
    def metric_names(self: _Measured) -> tuple[str, ...]:
        """What is reported after every epoch, in the order of the columns."""
        return reported(self.metrics, self.loss_names)

    @property
    def test_metric_names(self: _Measured) -> tuple[str, ...]:
        """What is reported once, of the test part."""
        names = (*self.loss_names, *(column_of(metric) for metric in self.metrics))
        return tuple(f"test_{name}" for name in names)


class SupervisedTable(EpochsTable):
    """Minimises one loss with one optimizer; metrics come on top of the loss."""

    rules = (_untold_task, _metric_of_another_task, repeated_metric, _setting_of_another_loss)

    program: Annotated[Literal["supervised"], FIXED] = Field(
        default="supervised", description="one model, one loss, one optimizer"
    )
    loss: Annotated[Loss, FIXED] = Field(
        description="what training minimises: of classes, numbers, or a function of yours "
        "that is given outputs and y",
        examples=["cross_entropy"],
    )
    task: Annotated[Task | None, FIXED] = Field(
        default=None, description="what the target is; needed where the loss is a function of yours"
    )
    label_smoothing: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, TRACED] = Field(
        default=None,
        description="share of each label spread over all classes, in training alone; of "
        "cross_entropy and binary_cross_entropy",
        examples=[0.1],
    )
    huber_delta: Annotated[Annotated[float, Field(gt=0, le=1e38)] | None, TRACED] = Field(
        default=None,
        description="errors above it count linearly, 1 where none is written; of huber, in units "
        "of the scaled target",
        examples=[0.5],
    )
    metrics: Annotated[tuple[Metric, ...], Field(strict=False), FIXED] = Field(
        default=(),
        description="reported besides the loss: accuracy, f1, auroc and log_loss of classes; r2, "
        "rmse and mae of numbers; or functions of yours",
        examples=[["accuracy", "auroc"]],
    )
