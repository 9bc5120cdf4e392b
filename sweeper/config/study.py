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

    name: Literal["tpe", "random", "grid"] = "tpe"


class PrunerTable(_OptunaTable):
    """`[study.pruner]`."""

    name: Literal["none", "median", "asha"] = "none"


class StudyTable(Table):
    """`[study]`; `name` also names the run directory."""

    name: Annotated[str, Field(pattern=r"^\w[\w-]*$", max_length=100)]
    metric: str
    direction: Literal["minimize", "maximize"]
    n_trials: Count
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    sampler: SamplerTable = SamplerTable()
    pruner: PrunerTable = PrunerTable()
