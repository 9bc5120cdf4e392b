"""`[execution]`: where and how trials are computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from sweeper.config.kinds import CountOrAuto
from sweeper.config.table import Fault, Table

Strategy = Literal["auto", "exact", "process"]


def _nowhere_to_train(
    strategy: Strategy, threads: CountOrAuto, workers: CountOrAuto
) -> Iterable[Fault]:
    if workers == 0 and threads == 0:
        found = "0 workers and 0 threads leave nowhere to train"
        yield Fault("workers", found, "write at least one of either")
    elif workers == 0 and strategy == "process":
        found = "0 workers leave the strategy process nowhere to train"
        yield Fault("workers", found, "write at least one, or another strategy")


class ExecutionTable(Table):
    """`[execution]`; `threads` and `workers` are counts or "auto", 0 threads train nothing here.

    `memory_fraction` is of a device, shared by this process and its workers.
    """

    rules = (_nowhere_to_train,)

    strategy: Strategy = "auto"
    lane_loop: Literal["auto", "map", "vmap"] = "auto"
    threads: CountOrAuto = "auto"
    workers: CountOrAuto = "auto"
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    retries: NonNegativeInt = 1
    precision: Literal["float32", "float64"] = "float32"
