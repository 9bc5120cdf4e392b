"""`[train]` of a user-defined program: a class, and the arguments to create it with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from sweeper.config.kinds import Argument, FunctionName
from sweeper.config.model import MlpTable
from sweeper.config.refusals import format_value
from sweeper.config.table import FIXED, Flaw, Table
from sweeper.config.train import EpochsTable, Task, repeated_metric


def _unfit_metric_names(metrics: tuple[str, ...]) -> Iterable[Flaw]:
    for name in metrics:
        if not (name.isascii() and name.isidentifier()):
            found = f"{format_value(name)} cannot be a column name"
            yield Flaw("metrics", found, "write only letters, digits and '_', a letter first")


class OwnProgramTable(EpochsTable):
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
    def functions(self) -> Mapping[str, str]:
        return {self.program: "program"}


def check_dropout(model: Table, drawn: Iterable[str]) -> Iterable[Flaw]:
    """User-defined programs call the model without dropout, so the MLP cannot have any."""
    searched = "model.dropout" in drawn
    if searched or (isinstance(model, MlpTable) and model.dropout > 0):
        found = "your own program calls the model without dropout"
        hint = 'remove it, or write kind = "python" and a model that takes a key'
        yield Flaw("model.dropout", found, hint)
