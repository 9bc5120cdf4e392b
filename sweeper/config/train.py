"""`[train]`: the program, its loss, its metrics and the length of training."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import ConfigDict, Field

from sweeper.config.kinds import Argument, Count, FunctionName, OneOf, is_function
from sweeper.config.model import LayersTable, PythonTable
from sweeper.config.refusals import format_value, missing
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
    "balanced_accuracy": "classes",
    "f1": "classes",
    "auroc": "classes",
    "average_precision": "classes",
    "log_loss": "classes",
    "r2": "numbers",
    "rmse": "numbers",
    "mae": "numbers",
    "mape": "numbers",
}
# losses that apply softmax or sigmoid themselves
ON_LOGITS = ("cross_entropy", "binary_cross_entropy")
# losses that can weight examples by class
WEIGHED = ON_LOGITS
# metrics where less is better; for user-defined ones this is not known
_ERRORS = frozenset({"log_loss", "rmse", "mae", "mape", "sliced_wasserstein"})

# what user-defined programs do with a model
WITHOUT_DROPOUT = "your own program calls the model without dropout"
WITHOUT_MEMBERS = "your own program would train its mean prediction, not its members"

Loss = Annotated[str, OneOf(tuple(TASK_OF_LOSS))]
Metric = Annotated[str, OneOf(tuple(TASK_OF_METRIC))]

# settings that only some losses use
_LOSSES_WITH: Mapping[str, tuple[str, ...]] = {
    "label_smoothing": WEIGHED,
    "huber_delta": ("huber",),
}


def column_of(metric: str) -> str:
    """The column of a metric; a user-defined one has the name of its function."""
    return metric.rpartition(":")[2]


def reported_metrics(metrics: Iterable[str], losses: Iterable[str] = ("loss",)) -> tuple[str, ...]:
    """Everything reported after each epoch, in the order of the columns."""
    measured = (*losses, *(column_of(metric) for metric in metrics))
    return (*(f"train_{loss}" for loss in losses), *(f"val_{name}" for name in measured))


def metrics_of(loss: str) -> tuple[str, ...]:
    """The built-in metrics that fit `loss`; all of them if it is user-defined."""
    task = TASK_OF_LOSS.get(loss)
    return tuple(name for name, its_task in TASK_OF_METRIC.items() if task in (None, its_task))


def better(reported: str) -> Literal["minimize", "maximize"]:
    """The usual direction of improvement of a reported metric."""
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
        fitting = [name for name, metric_task in TASK_OF_METRIC.items() if metric_task == mine]
        instead = ", ".join(fitting)
        if loss in TASK_OF_LOSS:
            others = [name for name, loss_task in TASK_OF_LOSS.items() if loss_task == its_task]
            found = f"{metric} does not fit the loss {loss}"
            yield Flaw("metrics", found, f'write one of {instead}, or loss = "{others[0]}"')
        else:
            found = f"{metric} is for {its_task}, but the task is {mine}"
            yield Flaw("metrics", found, f"write one of {instead}")


def repeated_metric(metrics: tuple[str, ...]) -> Iterable[Flaw]:
    """Check that metrics are different columns."""
    names = [column_of(metric) for metric in metrics]
    if len(set(names)) < len(names):
        yield Flaw("metrics", "a metric is named twice", "remove one of the two")
    if "loss" in names:
        yield Flaw("metrics", "'loss' is always reported", "give the function another name")


def _unclear_task(loss: str, task: Task | None) -> Iterable[Flaw]:
    known = TASK_OF_LOSS.get(loss)
    if known is None and task is None:
        why = f"and '{loss}' does not determine what the target is"
        yield missing("task", 'write task = "classes" or "numbers"', why)
    elif known is not None and task not in (None, known):
        yield Flaw("task", f"the loss {loss} is for {known}", f'write "{known}", or another loss')


def _setting_of_another_loss(
    loss: str, label_smoothing: float | None, huber_delta: float | None
) -> Iterable[Flaw]:
    for name, value in (("label_smoothing", label_smoothing), ("huber_delta", huber_delta)):
        if value is not None:
            yield from idle_of_loss(loss, name)


def idle_of_loss(loss: object, setting: str) -> Iterable[Flaw]:
    """The flaw of a setting that the loss does not use."""
    losses = _LOSSES_WITH.get(setting)
    if losses is not None and loss not in losses:
        hint = f'remove it, or write loss = "{losses[0]}"'
        yield Flaw(setting, f"the loss {loss} does not use it", hint)


class _WithTarget(Protocol):
    """What the tables of all programs declare about their target."""

    @property
    def task(self) -> Task | None: ...
    @property
    def loss(self) -> str: ...
    @property
    def loss_keys(self) -> tuple[str, ...]: ...


def target_key(train: _WithTarget) -> str:
    """The setting that determines the kind of target, or one of several."""
    return f"train.{(*train.loss_keys, 'task')[0]}"


def with_loss(train: _WithTarget, loss: str) -> str:
    """The settings with which trials train with `loss`, or on its kind of target."""
    task = TASK_OF_LOSS[loss]
    written = [f"train.{key} = '{loss}'" for key in train.loss_keys]
    if not written:
        return f"train.task = '{task}' if {train.loss} can train on {task}"
    if train.task not in (None, task):
        written.append(f"train.task = '{task}'")
    return " and ".join(written)


class EarlyStopTable(Table):
    """`[train.early_stop]`: ends a trial whose metric no longer improves."""

    metric: Annotated[str | None, FIXED] = Field(
        default=None,
        description="the metric that must improve; default: study.metric, or the first of several "
        "other than n_parameters; without such a one, the first validation loss",
        examples=["val_loss"],
    )
    patience: Annotated[Count, TRACED] = Field(
        description="end a trial after this many epochs in a row without improvement", examples=[5]
    )
    min_delta: Annotated[float, Field(ge=0, le=1e38), TRACED] = Field(
        default=0.0, description="smallest change that counts as an improvement"
    )


class _Measured(Protocol):
    """What the tables of all programs declare about their metrics."""

    @property
    def loss(self) -> str: ...
    @property
    def task(self) -> Task | None: ...
    @property
    def metrics(self) -> tuple[str, ...]: ...
    @property
    def loss_names(self) -> tuple[str, ...]: ...


class EpochsTable(Table):
    """Settings of every program's `[train]`: how long it trains, and on how many rows at a time.

    `is_padded` says whether its trials can be trained in a program padded for larger ones.
    """

    is_padded: ClassVar[bool] = True

    ema: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, TRACED] = Field(
        default=None,
        description="decay rate of a running average of the weights, which is then measured and "
        "saved; default: no average",
        examples=[0.99],
    )
    early_stop: EarlyStopTable | None = Field(
        default=None, description="end a trial that no longer improves"
    )
    epochs: Annotated[Count, BOUND] = Field(
        description="passes over the training rows", examples=[20]
    )
    batch_size: Count = Field(
        description="rows per step; an incomplete last batch is left out", examples=[64]
    )

    @property
    def target(self: _Measured) -> Task | None:
        """The kind of target: classes or numbers; None if there is none."""
        target = TASK_OF_LOSS.get(self.loss) or self.task
        assert target is not None, "checked by a rule of this table"
        return target

    @property
    def loss_keys(self) -> tuple[str, ...]:
        """The settings of the losses on the target; none if the program determines them."""
        return ("loss",)

    @property
    def functions(self: _Measured) -> Mapping[str, str]:
        """The user-defined losses and metrics, each with the setting that names it."""
        named = [("loss", self.loss), *(("metrics", metric) for metric in self.metrics)]
        return {name: setting for setting, name in named if is_function(name)}

    @property
    def unclear_metrics(self: _Measured) -> frozenset[str]:
        """The reported metrics of user code: it is not known which of their values are better."""
        return frozenset(f"val_{column_of(name)}" for name in self.metrics if is_function(name))

    @property
    def built_in_metrics(self: _Measured) -> tuple[str, ...]:
        """The metrics that this package computes, in the order of the file."""
        return tuple(name for name in self.metrics if not is_function(name))

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The names of losses in the results, without the name of the split."""
        return ("loss",)

    @property
    def metric_names(self: _Measured) -> tuple[str, ...]:
        """Everything reported after each epoch, in the order of the columns."""
        return reported_metrics(self.metrics, self.loss_names)

    @property
    def test_metric_names(self: _Measured) -> tuple[str, ...]:
        """Everything reported once, for the test rows."""
        names = (*self.loss_names, *(column_of(metric) for metric in self.metrics))
        return tuple(f"test_{name}" for name in names)


class SupervisedTable(EpochsTable):
    """Minimises one loss with one optimizer, and reports further metrics."""

    rules = (_unclear_task, _metric_of_another_task, repeated_metric, _setting_of_another_loss)

    program: Annotated[Literal["supervised"], FIXED] = Field(
        default="supervised", description="one model, one loss, one optimizer"
    )
    loss: Annotated[Loss, FIXED] = Field(
        description="the loss to minimise: for classes, for numbers, or your own function of "
        "outputs and y",
        examples=["cross_entropy"],
    )
    task: Annotated[Task | None, FIXED] = Field(
        default=None, description="kind of target; required if the loss is your own function"
    )
    label_smoothing: Annotated[Annotated[float, Field(ge=0, lt=1)] | None, TRACED] = Field(
        default=None,
        description="share of each label that is spread over all classes, in training only; for "
        "cross_entropy and binary_cross_entropy",
        examples=[0.1],
    )
    huber_delta: Annotated[Annotated[float, Field(gt=0, le=1e38)] | None, TRACED] = Field(
        default=None,
        description="errors above it count linearly; default: 1; for huber, in units of the scaled "
        "target",
        examples=[0.5],
    )
    metrics: Annotated[tuple[Metric, ...], Field(strict=False), FIXED] = Field(
        default=(),
        description="metrics to report: accuracy, balanced_accuracy, f1 (the mean over all "
        "classes, even if there are two), auroc, average_precision and log_loss for classes; r2, "
        "rmse, mae and mape for numbers; or your own functions",
        examples=[["accuracy", "auroc"]],
    )


def _unfit_metric_names(metrics: tuple[str, ...]) -> Iterable[Flaw]:
    for name in metrics:
        if not (name.isascii() and name.isidentifier()):
            found = f"{format_value(name)} cannot be a column name"
            yield Flaw(
                "metrics", found, "write only letters, digits and '_', starting with a letter"
            )


class UserProgramTable(EpochsTable):
    """Trains with a user-defined class; all other keys are its arguments."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Argument] = Field(init=False)  # pyright: ignore
    rules = (_unfit_metric_names, repeated_metric)
    is_padded: ClassVar[bool] = False

    program: Annotated[FunctionName, FIXED] = Field(
        description="your own class with init, step and evaluate; gets all other keys of "
        "[train], of which floats are traced",
        examples=["heat:HeatEquation"],
    )
    task: Annotated[Task, FIXED] = Field(
        description="kind of target, which is batch.y", examples=["numbers"]
    )
    metrics: Annotated[tuple[str, ...], Field(strict=False), FIXED] = Field(
        default=(),
        description="names of the metrics that its evaluate returns besides the loss",
        examples=[["residual"]],
    )

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the class, by name."""
        return self.__pydantic_extra__

    @property
    def loss(self) -> str:
        """What messages call the objective."""
        return self.program

    @property
    def built_in_metrics(self) -> tuple[str, ...]:
        return ()  # its own metrics may have the same names

    @property
    def loss_keys(self) -> tuple[str, ...]:
        return ()

    @property
    def functions(self) -> Mapping[str, str]:
        return {self.program: "program"}

    @property
    def unclear_metrics(self) -> frozenset[str]:
        return frozenset(f"val_{name}" for name in self.metrics)


def check_dropout(model: Table, drawn: Collection[str]) -> Iterator[Flaw]:
    """User-defined programs call the model without dropout, so the MLP cannot have any.

    If kinds of models are searched, `dropout` is checked when the edition of the study is known.
    """
    if isinstance(model, PythonTable):
        return  # it may be an argument of the function
    if "model.dropout" in drawn or (isinstance(model, LayersTable) and model.dropout > 0):
        hint = 'remove it, or write kind = "python" and a model that takes a key'
        yield Flaw("model.dropout", WITHOUT_DROPOUT, hint)
