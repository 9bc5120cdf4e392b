"""Predicts how long a study takes, what padding costs, and what `switch` cannot do here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.config import StudyConfig
from sweeper.scheduler.classes import Plan, ProgramClass
from sweeper.scheduler.forecast import Forecast
from sweeper.scheduler.lattice import LatticeClass, PaddedSize


@dataclass(frozen=True, slots=True)
class Duration:
    """The predicted time of a study, also with one program per structure instead.

    Seconds, summed over threads, except for the totals, which start with the command. All are 0 if
    the cost model does not cover such models.
    """

    compile_s: float
    train_s: float
    waste_s: float
    total_s: float
    exact_compile_s: float
    exact_train_s: float
    exact_total_s: float


@dataclass(frozen=True, slots=True)
class _Programs:
    """A group of equal programs: compiling one of them, and training the trials of all."""

    count: float
    compile_s: float
    train_s: float
    trials: float

    @property
    def compiling_s(self) -> float:
        return self.count * self.compile_s

    def slowest_s(self, threads: int) -> float:
        """Seconds for one of them alone: one thread compiles it, and all train its trials."""
        at_once = min(threads, max(1.0, self.trials / self.count))
        return self.compile_s + self.train_s / self.count / at_once


def duration(
    config: StudyConfig, forecast: Forecast, plan: Plan, threads: int, devices: int
) -> Duration:
    """The duration of a study whose first round is `plan`, with this many threads or workers."""
    exact = [*_exact(forecast)]
    programs = [*_of_lattice(forecast)]
    if config.trial is not None:
        programs, exact = _of_trial(config.trial.epochs, plan, forecast)
    elif config.execution.strategy not in ("auto", "padded"):
        programs = exact
    compile_s, train_s = _sums(programs)
    exact_compile_s, exact_train_s = _sums(exact)
    start_s = forecast.costs.start_s
    if any(bucket.side == "process" for bucket in plan.buckets):
        start_s += forecast.costs.worker_start_s
    total_s = start_s + _busy_s(programs, threads)
    if config.execution.strategy == "switch":
        total_s = start_s + compile_s + train_s / devices
    is_known = bool(programs)
    return Duration(
        compile_s=compile_s,
        train_s=train_s,
        waste_s=train_s - exact_train_s,
        total_s=total_s * is_known,
        exact_compile_s=exact_compile_s,
        exact_train_s=exact_train_s,
        exact_total_s=(start_s + _busy_s(exact, threads)) * is_known,
    )


def _blocks(forecast: Forecast) -> Iterator[tuple[LatticeClass, float]]:
    """The classes of the lattice, with the seconds to compile one structure of each."""
    for family in forecast.families.values():
        for block in family.classes:
            yield block, family.compile_s(PaddedSize(block.sizes), forecast.costs)


def _of_lattice(forecast: Forecast) -> Iterator[_Programs]:
    for block, _ in _blocks(forecast):
        yield _Programs(1, block.compile_s, block.train_s, block.trials)


def _exact(forecast: Forecast) -> Iterator[_Programs]:
    """One program per structure that has a trial."""
    for block, each_s in _blocks(forecast):
        count = min(block.structures, block.trials)
        yield _Programs(count, each_s, block.exact_train_s, block.trials)


def _of_trial(
    epochs: int, plan: Plan, forecast: Forecast
) -> tuple[list[_Programs], list[_Programs]]:
    """The program named by a study of one trial, and one with the trial's own size."""
    (program,), (bucket,) = plan.classes, plan.buckets
    if program.predicted_compile_s is None or bucket.predicted_train_s is None:
        return [], []
    (lane, *_) = bucket.lanes
    train_s = bucket.predicted_train_s * epochs / (lane.epoch_to - lane.epoch_from)
    exact_train_s = train_s * (1 - (bucket.waste_fraction or 0.0))
    exact = [_Programs(1, each_s, exact_train_s, 1) for _, each_s in _blocks(forecast)]
    return [_Programs(1, program.predicted_compile_s, train_s, 1)], exact


def _sums(programs: Sequence[_Programs]) -> tuple[float, float]:
    """Seconds of compiling and of training, summed over threads."""
    return sum(each.compiling_s for each in programs), sum(each.train_s for each in programs)


def _busy_s(programs: Sequence[_Programs], threads: int) -> float:
    """Seconds until all is trained: threads share the work, but one thread compiles a class."""
    slowest_s = max((each.slowest_s(threads) for each in programs), default=0.0)
    return max(sum(_sums(programs)) / threads, slowest_s)


def switch_classes(plan: Plan, devices: int) -> Iterator[dict[str, Any]]:
    """The programs of several structures at the start of a plan."""
    for program in plan.classes:
        if program.strategy == "switch":
            yield {
                "class_id": program.class_id,
                "branches": json.loads(program.settings),
                "devices": devices,
                "lanes_per_device": lanes_per_device(program, devices),
                "compile_s": program.predicted_compile_s,
            }


def lanes_per_device(program: ProgramClass, devices: int) -> int:
    """How many lanes of a class fit on one device."""
    is_spread = program.strategy == "switch"
    return math.ceil(program.capacity / devices) if is_spread else program.capacity


def largest_branch(program: ProgramClass) -> Mapping[str, Any]:
    """What a class compiles in; for several branches, the first, which is the largest."""
    settings = json.loads(program.settings)
    return settings[0] if program.branches else settings


def notes(config: StudyConfig, devices: int) -> Iterator[str]:
    """What users of the study's strategy may not expect."""
    strategy = config.execution.strategy
    if config.trial is None and strategy in ("auto", "padded") and "python" in config.kinds:
        yield (
            "user-defined models are never padded: trials of one structure share a program, but "
            'similar ones do not; strategy = "switch" trains several structures in one'
        )
    if strategy == "switch" and devices == 1:
        yield (
            "switch spreads trials over devices, but there is only one: it trains them one after "
            'the other, which takes no less time than strategy = "exact"'
        )
