"""`[study]`: what is optimised, how often, and who proposes and prunes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from sweeper.config.kinds import Count
from sweeper.config.table import Table


class _OptunaTable(Table):
    """A table whose further keys are for an Optuna class, and are checked where that is known."""

    model_config = ConfigDict(extra="allow")

    @property
    def options(self) -> dict[str, Any]:
        """The keys besides `name`, as written."""
        return dict(self.model_extra or {})


class SamplerTable(_OptunaTable):
    """`[study.sampler]`."""

    name: Literal["tpe", "random", "grid"] = Field(default="tpe", description="who proposes trials")


class PrunerTable(_OptunaTable):
    """`[study.pruner]`."""

    name: Literal["none", "median", "asha"] = Field(
        default="none", description="who ends trials early"
    )


class StudyTable(Table):
    """`[study]`; `name` also names the run directory."""

    name: Annotated[str, Field(pattern=r"^\w[\w-]*$", max_length=100)] = Field(
        description="of the study and of its run directory", examples=["digits"]
    )
    metric: str = Field(
        description="the objective: train_loss, val_loss, or val_ before one of train.metrics",
        examples=["val_accuracy"],
    )
    direction: Literal["minimize", "maximize"] = Field(description="which values are better")
    value: Literal["last", "best"] = Field(
        default="last",
        description="which epoch gives a trial's value and its saved weights; with early stopping "
        "always the best",
    )
    n_trials: Count = Field(description="how many trials; a grid may have fewer", examples=[64])
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        default=0, description="of the split, the proposals and every trial"
    )
    replicates: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="trainings of each trial, of other seeds; its value is their mean",
        examples=[3],
    )
    folds: Annotated[int, Field(ge=2, le=100)] | None = Field(
        default=None,
        description="parts of cross-validation, instead of one validation part; value is the mean",
        examples=[5],
    )
    sampler: SamplerTable = Field(default=SamplerTable(), description="who proposes trials")
    pruner: PrunerTable = Field(default=PrunerTable(), description="who ends trials early")
