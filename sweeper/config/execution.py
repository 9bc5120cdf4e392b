"""`[execution]`, `[execution.engine]`, `[results]` and `[schedule]`.

Where and how trials are trained, on which cluster, what is kept, and how many are trained at a
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
    NonEmptyStr,
    SomeOrAuto,
    bytes_of,
    seconds_of,
)
from sweeper.config.table import Flaw, Table


class EngineTable(Table):
    """`[execution.engine]`: the cluster engine and its address."""

    name: Literal["dask", "ray"] = Field(
        description="the engine; its package is an optional dependency"
    )
    address: NonEmptyStr = Field(
        description="address of the Dask scheduler or the Ray head node; for Ray also auto, the "
        "cluster that runs on this machine",
        examples=["tcp://10.0.0.1:8786"],
    )


def engine_trains(
    engine: EngineTable | None, threads: CountOrAuto, workers: CountOrAuto
) -> Iterable[Flaw]:
    """Check that nothing is requested of this process if a cluster trains."""
    if engine is None:
        return
    if threads not in ("auto", 0):
        found = f"{threads}, but with an engine no thread of this process trains"
        yield Flaw("threads", found, "remove it, or remove engine")
    if workers == 0:
        found = "0, but with an engine this is the number of its workers to use"
        yield Flaw("workers", found, "write at least 1, or remove it to use all workers")


StrategySetting = Literal["auto", "exact", "padded", "switch", "process"]
LaneLoopSetting = Literal["auto", "map", "vmap"]


def _nowhere_to_train(
    strategy: StrategySetting, threads: CountOrAuto, workers: CountOrAuto, trial_timeout: str | None
) -> Iterable[Flaw]:
    if workers == 0 and threads == 0:
        found = "0 workers and 0 threads leave nothing to train with"
        yield Flaw("workers", found, "write at least one of them above 0")
    elif workers == 0 and strategy == "process":
        found = 'with 0 workers the strategy "process" has nothing to train with'
        yield Flaw("workers", found, "write at least 1, or another strategy")
    elif workers == 0 and trial_timeout is not None:
        found = "0 workers, but trial_timeout needs trials to train in workers, which can be killed"
        yield Flaw("workers", found, "write at least 1, or remove trial_timeout")


def _cannot_be_ended(trial_timeout: str | None, threads: CountOrAuto) -> Iterable[Flaw]:
    if trial_timeout is not None and threads not in ("auto", 0):
        found = f"{threads}, but trial_timeout cannot end a trial that hangs in a thread"
        yield Flaw("threads", found, "remove it, or remove trial_timeout")


def _side_by_side(strategy: StrategySetting, lane_loop: LaneLoopSetting) -> Iterable[Flaw]:
    if strategy == "switch" and lane_loop == "vmap":
        found = "vmap, but with the strategy switch each lane would run every structure"
        yield Flaw("lane_loop", found, 'write "map", remove it, or write another strategy')


class ExecutionTable(Table):
    """`[execution]`; `threads` and `workers` are counts or "auto"; with 0 threads, workers train.

    `memory_fraction` is the share of a device for this process and its workers together.
    """

    rules = (_nowhere_to_train, _cannot_be_ended, _side_by_side, engine_trains)

    strategy: StrategySetting = Field(
        default="auto",
        description="which trials share programs; switch: all, across the devices",
    )
    lane_loop: LaneLoopSetting = Field(
        default="auto",
        description="how a bucket runs its lanes; default: map on a CPU and with switch, else vmap",
    )
    costs: str | None = Field(
        default=None,
        description="file written by `sweeper calibrate`; default: built-in constants",
        examples=["costs.json"],
    )
    threads: CountOrAuto = Field(
        default="auto",
        description="training threads of this process; auto: one per core, and at least one per "
        "GPU; none with trial_timeout or an engine",
        examples=[4],
    )
    workers: CountOrAuto = Field(
        default="auto",
        description="worker processes; auto: one per core or GPU; with an engine, the maximum",
        examples=[2],
    )
    engine: EngineTable | None = Field(
        default=None, description="a cluster that trains all trials instead of this machine"
    )
    devices: SomeOrAuto = Field(
        default="auto",
        description="maximum number of devices to train on in parallel; default: all that JAX has; "
        "only devices of the same kind as the first are used",
        examples=[2],
    )
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.8, description="share of a device's memory, for this process and its workers"
    )
    memory_limit: AmountOfMemory | None = Field(
        default=None,
        description="most memory that a program and its data may take by the compiler's estimate; "
        "a program that needs more gets half as many lanes, repeatedly",
        examples=["2 GiB"],
    )
    retries: NonNegativeInt = Field(
        default=1, description="how often to retry a trial whose worker died"
    )
    trial_timeout: Duration | None = Field(
        default=None,
        description="longest time that a worker may take over a trial between commits, plus the "
        "same time to compile; then the worker is killed; all trials go to workers",
        examples=["10m"],
    )
    max_failures: CountOrShare | None = Field(
        default=None,
        description="end the study after more failures than this: a count, or a share of n_trials",
        examples=[0.1],
    )
    grace: Duration = Field(
        default="30s",
        description="how long a round may continue after SIGTERM or SIGHUP before it is abandoned; "
        "use less than the time that the scheduler or container allows",
        examples=["2m"],
    )
    precision: Literal["float32", "float64"] = Field(
        default="float32", description="precision of data, weights and losses"
    )
    matmul_precision: Literal["default", "high", "highest"] = Field(
        default="default",
        description="precision of matrix products on devices that trade it for speed, as in JAX",
    )

    @property
    def memory_limit_bytes(self) -> int | None:
        """`memory_limit` in bytes, or None."""
        return None if self.memory_limit is None else bytes_of(self.memory_limit)

    @property
    def trial_timeout_s(self) -> float | None:
        """The limit for a trial in a worker between two commits, in seconds; None for no limit."""
        return None if self.trial_timeout is None else seconds_of(self.trial_timeout)

    @property
    def grace_s(self) -> float:
        """How long a round may continue after a termination signal, in seconds."""
        return seconds_of(self.grace)


class ResultsTable(Table):
    """`[results]`; `dir` is relative to the current directory, by default `runs/<study.name>`."""

    dir: Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f]+$")] | None = Field(
        default=None,
        description="the run directory, relative to the current one; default: `runs/<study.name>`",
        examples=["runs/digits"],
    )
    keep_models: NonNegativeInt = Field(
        default=5, description="number of best trials whose weights are kept"
    )
    ensemble: Count | None = Field(
        default=None,
        description="maximum number of kept models to average at the end, as `sweeper ensemble` "
        "does; default: none",
        examples=[20],
    )
    save_optimizer: bool = Field(
        default=False,
        description="whether the optimizer state is kept too, to continue training",
    )


class ScheduleTable(Table):
    """`[schedule]`: how many trials train at a time, and how often the study commits."""

    parallel: Count | None = Field(
        default=None,
        description="number of trials trained at a time; default: `plan` shows it, with its reason",
        examples=[16],
    )
    round_epochs: Count | None = Field(
        default=None,
        description="maximum epochs between commits; default: the epochs between the rungs of "
        "halving, asha or hyperband; otherwise a quarter of all epochs, or more without a pruner",
        examples=[5],
    )

    def round_ends(self, epochs: int, rungs: Iterable[int], parts: int = 4) -> tuple[int, ...]:
        """The epochs, before the last of `epochs`, after which a round may end.

        These are the `rungs` of the pruner and multiples of `round_epochs`, or if neither is given,
        `parts` equal parts of the epochs.
        """
        rungs = tuple(rungs)
        if self.round_epochs is None and rungs:
            return rungs
        every = self.round_epochs or max(1, epochs // parts)
        return tuple(sorted({*rungs, *range(every, epochs, every)}))
