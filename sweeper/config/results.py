"""`[results]`: where the run directory is, and what is kept in it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt

from sweeper.config.table import Table


class ResultsTable(Table):
    """`[results]`; `dir` is seen from the current directory, by default `runs/<study.name>`."""

    dir: Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f]+$")] | None = Field(
        default=None,
        description="the run directory, seen from the current one; else `runs/<study.name>`",
        examples=["runs/digits"],
    )
    keep_models: NonNegativeInt = Field(
        default=5, description="of so many best trials weights are kept"
    )
    save_optimizer: bool = Field(
        default=False,
        description="whether the state of the optimizer is kept with them, to train on from",
    )
