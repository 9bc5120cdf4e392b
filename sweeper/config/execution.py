"""`[execution]`, `[execution.engine]`, `[results]` and `[schedule]`.

Where and how trials are trained, on which cluster, what is kept of them, and how many train at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from sweeper.config.kinds import (
    AmountOfMemory,
    Count,
    CountOrAuto,
    CountOrShare,
    Duration,
    SomeOrAuto,
    bytes_of,
    seconds_of,
)
from sweeper.config.table import Flaw, Table


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
) -> Iterable[Flaw]:
    """That nothing is asked of this process where the cluster trains."""
    if engine is None:
        return
    if threads not in ("auto", 0):
        found = f"{threads}, and with an engine no thread of this process trains"
        yield Flaw("threads", found, "remove it, or remove engine")
    if workers == 0:
        found = "0, and with an engine they are those of its workers that take part"
        yield Flaw("workers", found, "write at least one, or remove it to use all of them")


Strategy = Literal["auto", "exact", "padded", "switch", "process"]
LaneLoop = Literal["auto", "map", "vmap"]


def _nowhere_to_train(
    strategy: Strategy, threads: CountOrAuto, workers: CountOrAuto, trial_timeout: str | None
) -> Iterable[Flaw]:
    if workers == 0 and threads == 0:
        found = "0 workers and 0 threads leave nowhere to train"
        yield Flaw("workers", found, "write at least one of either")
    elif workers == 0 and strategy == "process":
        found = "0 workers leave the strategy process nowhere to train"
        yield Flaw("workers", found, "write at least one, or another strategy")
    elif workers == 0 and trial_timeout is not None:
        found = "0 workers, and with trial_timeout trials train in workers, for they can be ended"
        yield Flaw("workers", found, "write at least one, or remove trial_timeout")


def _cannot_be_ended(trial_timeout: str | None, threads: CountOrAuto) -> Iterable[Flaw]:
    if trial_timeout is not None and threads not in ("auto", 0):
        found = f"{threads}, and a trial that hangs in a thread cannot be ended by trial_timeout"
        yield Flaw("threads", found, "remove it, or remove trial_timeout")


def _side_by_side(strategy: Strategy, lane_loop: LaneLoop) -> Iterable[Flaw]:
    if strategy == "switch" and lane_loop == "vmap":
        found = "vmap, and with the strategy switch each lane would run every structure"
        yield Flaw("lane_loop", found, 'write "map" or remove it, or write another strategy')


class ExecutionTable(Table):
    """`[execution]`; `threads` and `workers` are counts or "auto", 0 threads train nothing here.

    `memory_fraction` is of a device, shared by this process and its workers.
    """

    rules = (_nowhere_to_train, _cannot_be_ended, _side_by_side, engine_trains)

    strategy: Strategy = Field(
        default="auto",
        description="which trials train in buckets, which alone; switch: all over the devices",
    )
    lane_loop: LaneLoop = Field(
        default="auto",
        description="how a bucket runs its lanes; map on a CPU and of switch, else vmap",
    )
    costs: str | None = Field(
        default=None,
        description="file of `sweeper calibrate`; else the package's own constants",
        examples=["costs.json"],
    )
    threads: CountOrAuto = Field(
        default="auto",
        description="threads of this process that train; one a core, none with trial_timeout",
        examples=[4],
    )
    workers: CountOrAuto = Field(
        default="auto",
        description="worker processes; one a core, or one a GPU; of an engine, at most so many",
        examples=[2],
    )
    engine: EngineTable | None = Field(
        default=None, description="a cluster that trains all trials, instead of this machine"
    )
    devices: SomeOrAuto = Field(
        default="auto",
        description="the most devices of this machine that train, side by side; all that JAX has",
        examples=[2],
    )
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.8, description="of a device, shared by this process and its workers"
    )
    memory_limit: AmountOfMemory | None = Field(
        default=None,
        description="the most that a program may take with its data, as the compiler foresees it; "
        "one that needs more has half as many lanes, over and over",
        examples=["2 GiB"],
    )
    retries: NonNegativeInt = Field(
        default=1, description="how often a trial whose worker died is tried again"
    )
    trial_timeout: Duration | None = Field(
        default=None,
        description="the most that a worker may take over a trial from one commit to the next, "
        "and once as long to compile for it; else the worker is killed; all trials go to workers",
        examples=["10m"],
    )
    max_failures: CountOrShare | None = Field(
        default=None,
        description="more failed trials than this end the study: a count, or a share of n_trials",
        examples=[0.1],
    )
    grace: Duration = Field(
        default="30s",
        description="how long a round may go on after SIGTERM or SIGHUP before it is given up; "
        "less than the scheduler or container grants before it kills",
        examples=["2m"],
    )
    precision: Literal["float32", "float64"] = Field(
        default="float32", description="of data, weights and losses"
    )
    matmul_precision: Literal["default", "high", "highest"] = Field(
        default="default",
        description="of products of matrices on devices that have less for speed, as JAX has it",
    )

    @property
    def memory_limit_bytes(self) -> int | None:
        """What `memory_limit` is in bytes; None where there is none."""
        return None if self.memory_limit is None else bytes_of(self.memory_limit)

    @property
    def trial_timeout_s(self) -> float | None:
        """What a trial may take in a worker between two commits, in seconds; None without end."""
        return None if self.trial_timeout is None else seconds_of(self.trial_timeout)

    @property
    def grace_s(self) -> float:
        """How long a round may go on after a signal that ends the program, in seconds."""
        return seconds_of(self.grace)


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


class ScheduleTable(Table):
    """`[schedule]`; without `round_epochs` a round is a quarter of the epochs, or longer."""

    parallel: Count = Field(default=32, description="trials in training at a time")
    round_epochs: Count | None = Field(
        default=None,
        description="most epochs between two commits; else a quarter, or asha's rungs",
        examples=[5],
    )

    def round_ends(self, epochs: int, rungs: Iterable[int], parts: int = 4) -> tuple[int, ...]:
        """The epochs before the last of `epochs` after which a round may end.

        They are the `rungs` of the pruner and every `round_epochs`; if neither is given, a
        `parts`-th of the epochs.
        """
        rungs = tuple(rungs)
        if self.round_epochs is None and rungs:
            return rungs
        every = self.round_epochs or max(1, epochs // parts)
        return tuple(sorted({*rungs, *range(every, epochs, every)}))
