"""`[train]`: the program, its loss, what it reports and for how long it trains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.kinds import Count
from sweeper.config.roles import BOUND, FIXED
from sweeper.config.table import Fault, Table

Loss = Literal["cross_entropy", "mse"]
Metric = Literal["accuracy", "r2"]

_LOSS_OF: dict[Metric, Loss] = {"accuracy": "cross_entropy", "r2": "mse"}


def reported(metrics: tuple[Metric, ...]) -> tuple[str, ...]:
    """What is reported after every epoch, in the order of the columns."""
    return ("train_loss", "val_loss", *(f"val_{metric}" for metric in metrics))


def metrics_of(loss: Loss) -> tuple[Metric, ...]:
    """The metrics that go with `loss`."""
    return tuple(metric for metric, its_loss in _LOSS_OF.items() if its_loss == loss)


def _metric_of_another_loss(loss: Loss, metrics: tuple[Metric, ...]) -> Iterable[Fault]:
    instead = " or ".join(metrics_of(loss))
    for metric in metrics:
        if _LOSS_OF[metric] != loss:
            found = f"{metric} does not go with the loss {loss}"
            yield Fault("metrics", found, f'write {instead}, or loss = "{_LOSS_OF[metric]}"')


def _repeated_metric(metrics: tuple[Metric, ...]) -> Iterable[Fault]:
    if len(set(metrics)) < len(metrics):
        yield Fault("metrics", "a metric is named twice", "name each once")


class TrainTable(Table):
    """`[train]`; metrics come on top of the loss."""

    rules = (_metric_of_another_loss, _repeated_metric)

    program: Annotated[Literal["supervised"], FIXED] = Field(
        default="supervised", description="how a model is trained"
    )
    loss: Annotated[Loss, FIXED] = Field(description="what training minimises: of classes, numbers")
    metrics: Annotated[tuple[Metric, ...], Field(strict=False), FIXED] = Field(
        default=(), description="reported besides the loss: accuracy of classes, r2 of numbers"
    )
    epochs: Annotated[Count, BOUND] = Field(
        description="passes over the training part", examples=[20]
    )
    batch_size: Count = Field(
        description="rows a step; those that fill no batch wait for a later epoch", examples=[64]
    )

    @property
    def metric_names(self) -> tuple[str, ...]:
        """What is reported after every epoch, in the order of the columns."""
        return reported(self.metrics)

    @property
    def test_metric_names(self) -> tuple[str, ...]:
        """What is reported once, of the test part."""
        return ("test_loss", *(f"test_{metric}" for metric in self.metrics))
