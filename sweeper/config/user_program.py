"""`[train]` of a program of the user's own: a class, and the keys that it is made of."""

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
            found = f"{format_value(name)} cannot be the name of a column"
            yield Flaw("metrics", found, "write letters, digits and '_' alone, a letter first")


class OwnProgramTable(EpochsTable):
    """Trains as the user's class says; all other keys are for the class."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Argument] = Field(init=False)  # pyright: ignore
    rules = (_unfit_metric_names, repeated_metric)
    is_padded: ClassVar[bool] = False

    program: Annotated[FunctionName, FIXED] = Field(
        description="a class of your own, a program with init, step and evaluate; given all "
        "keys of [train] that are no settings, of which numbers with a point are traced",
        examples=["heat:HeatEquation"],
    )
    task: Annotated[Task, FIXED] = Field(
        description="what the target is, which is batch.y", examples=["numbers"]
    )
    metrics: Annotated[tuple[str, ...], Field(strict=False), FIXED] = Field(
        default=(),
        description="names of what its evaluate gives besides the loss",
        examples=[["residual"]],
    )

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What an instance is made of, by name."""
        return self.__pydantic_extra__

    @property
    def loss(self) -> str:
        """What messages call that which is minimised."""
        return self.program

    @property
    def functions(self) -> Mapping[str, str]:
        return {self.program: "program"}


def check_dropout(model: Table, drawn: Iterable[str]) -> Iterable[Flaw]:
    """A program of the user's calls the model as it is: nobody tells the MLP what to leave out."""
    searched = "model.dropout" in drawn
    if searched or (isinstance(model, MlpTable) and model.dropout > 0):
        found = "a program of your own calls the model without dropout"
        hint = 'remove it, or write kind = "python" and a model that is called with a key'
        yield Flaw("model.dropout", found, hint)
