"""`[execution.engine]`: a cluster that trains, of an engine that the user runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from sweeper.config.kinds import CountOrAuto
from sweeper.config.table import Fault, Table


class EngineTable(Table):
    """`[execution.engine]`: which engine, and where it is."""

    name: Literal["dask", "ray"] = Field(description="the engine; its package is an extra")
    address: Annotated[str, Field(min_length=1)] = Field(
        description="of Dask's scheduler, or of Ray's head node; of Ray also auto, the cluster "
        "that runs on this machine",
        examples=["tcp://10.0.0.1:8786"],
    )


def engine_trains(
    engine: EngineTable | None, threads: CountOrAuto, workers: CountOrAuto
) -> Iterable[Fault]:
    """That nothing is asked of this process where the cluster trains."""
    if engine is None:
        return
    if threads not in ("auto", 0):
        found = f"{threads}, and with an engine no thread of this process trains"
        yield Fault("threads", found, "remove it, or remove engine")
    if workers == 0:
        found = "0, and with an engine they are those of its workers that take part"
        yield Fault("workers", found, "write at least one, or remove it to use all of them")
