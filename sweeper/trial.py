"""The records of a trial: its proposal, its curves and its end; and its random draws.

Every random draw comes from a hash of its purpose, never from a shared stream. Draws for
different purposes are independent, and a new draw changes no other.

A trial is a `TrialSpec` when it is proposed, `sweep.state.Running` until it ends, and
`study.ask_tell.PastTrial` when it is restored from the ledger. A `scheduler.classes.LiveTrial` is
what a plan needs of it, an `executors.lanes.TrialStart` the state in which a bucket starts it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scalar = bool | int | float | str

# every value of an epoch in which a replicate or fold had already ended
OVER = -np.inf


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass by name; unlike `asdict` it does not copy their contents."""
    return {one.name: getattr(value, one.name) for one in fields(value)}


def finite(value: float) -> float | None:
    """`value` as stored in a column: None if it is not finite."""
    return float(value) if math.isfinite(value) else None


class TrialState(StrEnum):
    """States of a finished trial, as in Optuna."""

    COMPLETE = "COMPLETE"
    PRUNED = "PRUNED"
    FAIL = "FAIL"


class Reason(StrEnum):
    """Why a trial ended before its last epoch."""

    PRUNED = "pruned"
    DIVERGED = "diverged"
    EARLY_STOP = "early_stop"
    ERROR = "error"
    OOM = "oom"
    WORKER_DIED = "worker_died"
    TIMEOUT = "timeout"
    MAX_FAILURES = "max_failures"
    STOPPED = "stopped"
    INFEASIBLE = "infeasible"


# a limit, a rule or a request ended the trial: it was not judged against others
CUT_OFF = frozenset({Reason.TIMEOUT, Reason.MAX_FAILURES, Reason.STOPPED})


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """One trial as proposed: with the study file, all that a worker needs to train it.

    `params` are the values by column name, integers as integers; `drawn` are the sampler's own
    values before rounding; `told_through_round` is the last round whose results the sampler knew.
    """

    number: int
    params: Mapping[str, Scalar]
    drawn: Mapping[str, Scalar]
    told_through_round: int


@dataclass(frozen=True, slots=True)
class LearnedTrial:
    """A trial of an earlier study, for the sampler of a new one; `state` is COMPLETE or PRUNED.

    `drawn` are the sampler's own values in the new study, `values` its objectives after `epoch`
    epochs, and `excesses` say by how much it violates each constraint of the new study.
    """

    drawn: Mapping[str, Scalar]
    state: str
    values: Sequence[float]
    epoch: int
    excesses: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Request:
    """A user's request to a running study: to stop trial `number`, or to propose it.

    A trial to propose has `params` by column, and the sampler draws the others; for one to stop
    they are None. `key` tells requests apart.
    """

    key: str
    number: int
    params: Mapping[str, Scalar] | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One training of a trial, which averages over its replicates and folds; both count from 0."""

    replicate: int = 0
    fold: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a sampler and a pruner, per trial and for the study; values are JSON."""

    trials: Mapping[int, Mapping[str, Any]] = field(default_factory=dict[int, Mapping[str, Any]])
    study: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a lane has no result: the `reason`, and the type and message of the error."""

    reason: Reason
    error_type: str
    error_message: str


@dataclass(frozen=True, slots=True)
class Curve:
    """What one lane measured in one round: `values[i]` are the metrics after `first_epoch + i`.

    Epochs count from 1, each of `steps_per_epoch` updates; `values` is float64, shaped (epochs,
    metrics). For a trial with several members, `values` is their mean and `members` holds the
    values of each, shaped (members, epochs, metrics). Epochs after a member has ended are `OVER`,
    and the mean is over the other members.
    """

    number: int
    first_epoch: int
    values: NDArray[np.float64]
    steps_per_epoch: int
    members: NDArray[np.float64] | None = None

    @staticmethod
    def of_members(
        number: int, first_epoch: int, members: NDArray[np.float64], steps_per_epoch: int
    ) -> Curve:
        """The curve of a trial whose `members` measured these values."""
        if len(members) == 1:
            return Curve(number, first_epoch, members[0], steps_per_epoch)
        trained = ~(members == OVER).all(axis=2, keepdims=True)
        mean = members.mean(axis=0)
        if not trained.all():
            mean = np.where(trained, members, 0).sum(axis=0) / trained.sum(axis=0)
        return Curve(number, first_epoch, mean, steps_per_epoch, members)

    @property
    def by_member(self) -> NDArray[np.float64]:
        """The values of each member, shaped (members, epochs, metrics)."""
        return self.values[None] if self.members is None else self.members

    @property
    def last_epoch(self) -> int:
        """The last epoch of the curve; `first_epoch - 1` where it is empty."""
        return self.first_epoch + len(self.values) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bucket ran. `memory_fraction` is from the environment when JAX started.

    `xla_threads` is the number of threads that a program has there, on a CPU.
    """

    place: str
    device: str
    host: str
    worker_pid: int | None
    memory_fraction: float | None
    bytes_limit: int | None
    xla_threads: int | None = None


@dataclass(frozen=True, slots=True)
class LaneRecord:
    """The result of one lane in one round: its curve, or the `failure` for which it has none.

    The ledger does not keep `checkpoint`, `retrained` and `ended`: they only matter in the round.
    """

    number: int
    curve: Curve
    checkpoint: str
    """The file that holds its state; empty if it failed."""
    test: tuple[float, ...]
    """The test metrics of the weights that it ends with, in the program's order."""
    place: Place
    diverged_epoch: int | None = None
    retrained: bool = False
    """Whether it began again because its last checkpoint was damaged."""
    failure: Failure | None = None
    attempts: int = 1
    """Includes the attempts of its bucket."""
    ended: bool = False
    """Whether it stopped early."""
    capacity: int | None = None
    """The capacity of the program that trained it, if one did."""
    test_std: tuple[float, ...] = ()
    """The sample standard deviations of `test` over several members."""
    lane_s: float = 0.0
    """Its share of the training time of its bucket, set when the round closes."""
    compile_share_s: float = 0.0
    """Its share of the compile time of its bucket, set when the round closes."""


@dataclass(frozen=True, slots=True)
class CurveBlock:
    """The curves of one closed round; column `j` of each curve's values is `metrics[j]`.

    `elapsed_s` counts from the start of the program to the end of the round.
    """

    round: int
    metrics: tuple[str, ...]
    curves: tuple[Curve, ...]
    elapsed_s: float


def words(*purpose: int | str) -> NDArray[np.uint32]:
    """Four 32-bit words that are a function of `purpose` alone."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in purpose)
    return np.frombuffer(blake2b(text.encode(), digest_size=16).digest(), "<u4").copy()


def generator(*purpose: int | str) -> np.random.Generator:
    """A NumPy generator for `purpose`; Philox gives the same bits on every platform."""
    return np.random.Generator(np.random.Philox(key=words(*purpose).view("<u8")))
