"""Executors that train nothing: a formula in microseconds, and a simulated cluster.

They are for tests of the round loop, and for plans for machines that are not available. In the
cluster, a bucket takes its predicted time, changed at random: devices differ, some buckets are
delayed, and nodes are lost. Random numbers come from the seed, the round and the bucket, so a
simulation is reproducible.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeper.executors.executor import Outcome, Work
from sweeper.executors.retry import Retrying, WorkerDiedError
from sweeper.scheduler.classes import Lane
from sweeper.trial import Curve, LaneRecord, Place, TrialSpec, generator

_PLACE = Place("simulated", "simulated", "simulated", 0, None, None)


@dataclass(frozen=True, slots=True)
class SimulatedExecutor:
    """Metrics by formula: `measure(spec, epoch)` gives one row of a curve.

    A worker that holds a trial for which `kills_worker` is true dies, as in the real executors;
    a row that is not finite ends its lane.
    """

    measure: Callable[[TrialSpec, int], Sequence[float]]
    kills_worker: Callable[[TrialSpec], bool] = lambda spec: False
    retries: int = 1

    def train(self, works: Iterable[Work]) -> Iterator[Outcome]:
        """The outcome of each work, in order."""
        for work in works:
            yield Retrying(self.attempt, self.retries).train(work)

    def close(self) -> None:
        """Nothing to end."""

    def attempt(self, work: Work) -> Outcome:
        """One attempt, in which a worker dies if any of its trials kills it."""
        if any(self.kills_worker(spec) for spec in work.specs):
            raise WorkerDiedError("exit code -9", _PLACE, 0.0)
        file = f"r{work.round}-{work.bucket.lanes[0].number}"
        lanes = tuple(
            self._lane(lane, spec, file)
            for lane, spec in zip(work.bucket.lanes, work.specs, strict=True)
        )
        return Outcome(work.bucket, lanes, {file: "-"}, _PLACE, 0.0, 0.0, False, 0.0, None, 1)

    def _lane(self, lane: Lane, spec: TrialSpec, file: str) -> LaneRecord:
        epochs = range(lane.epoch_from + 1, lane.epoch_to + 1)
        rows = np.array([self.measure(spec, epoch) for epoch in epochs], dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        diverged = int(bad[0]) + 1 if len(bad) else None
        return LaneRecord(
            number=lane.number,
            curve=Curve(lane.number, lane.epoch_from + 1, rows[:diverged], steps_per_epoch=1),
            checkpoint=file,
            test=(),
            place=_PLACE,
            diverged_epoch=None if diverged is None else lane.epoch_from + diverged,
        )


@dataclass(frozen=True, slots=True)
class Chances:
    """Faults: how many buckets have them, and how severe they are.

    A bucket takes `spread` more or less (the deviation of a lognormal), some take `held_up_times`
    as long, and some lose their node halfway, which is back `back_s` later.
    """

    spread: float = 0.1
    held_up: float = 0.02
    held_up_times: float = 5.0
    lost: float = 0.001
    back_s: float = 60.0


@dataclass(slots=True)
class Simulated:
    """A simulation so far: on the cluster's clock, on its devices, and in this process.

    `between_s` is what the coordinator did between rounds, when no device trains, `meanwhile_s`
    what it did while one trained; `simulating_s` is what this file took, `simulating_cpu_s` of it
    the processor.
    """

    clock_s: float = 0.0
    busy_s: float = 0.0
    lost_buckets: int = 0
    between_s: float = 0.0
    meanwhile_s: float = 0.0
    simulating_s: float = 0.0
    simulating_cpu_s: float = 0.0


class SimulatedCluster:
    """This many `devices`; a trial takes `seconds` for all of its epochs.

    A bucket goes to the device that is free first. A bucket that lost its node starts again
    elsewhere.
    """

    def __init__(
        self,
        devices: int,
        n_metrics: int,
        seconds: Callable[[Work], float],
        seed: int,
        chances: Chances | None = None,
    ) -> None:
        self.told = Simulated()
        self._devices = devices
        self._seconds = seconds
        self._seed = seed
        self._chances = chances or Chances()
        self._inner = SimulatedExecutor(
            lambda spec, epoch: (
                generator("simulated", spec.number, epoch).random(n_metrics).tolist()
            )
        )
        self._returned_at = time.perf_counter()

    def train(self, works: Iterable[Work]) -> Iterator[Outcome]:
        """Start on `works`; the caller's work before it asks for outcomes happens meanwhile."""
        begun_at = time.perf_counter()
        between_s = begun_at - self._returned_at

        def outcomes() -> Iterator[Outcome]:
            asked_at, asked_at_cpu_s = time.perf_counter(), time.process_time()
            told, meanwhile_s = self.told, asked_at - begun_at
            began_s = told.clock_s
            trained = list(self._trained(list(works)))
            took_s = max((outcome.finished_at for outcome in trained), default=began_s) - began_s
            # devices wait for the coordinator if it takes longer, and for its work between rounds
            told.clock_s = began_s + max(took_s, meanwhile_s) + between_s
            told.between_s += between_s
            told.meanwhile_s += meanwhile_s
            self._returned_at = time.perf_counter()
            told.simulating_s += self._returned_at - asked_at
            told.simulating_cpu_s += time.process_time() - asked_at_cpu_s
            yield from trained

        return outcomes()

    def close(self) -> None:
        """Nothing to end."""

    def _trained(self, works: list[Work]) -> Iterator[Outcome]:
        free = [(self.told.clock_s, device) for device in range(self._devices)]
        waiting = [(work, 1) for work in reversed(works)]
        while waiting:
            work, attempt = waiting.pop()
            start_s, device = heapq.heappop(free)
            seconds, is_lost = self._drawn(work, attempt)
            if is_lost:
                self.told.busy_s += seconds / 2
                self.told.lost_buckets += 1
                heapq.heappush(free, (start_s + seconds / 2 + self._chances.back_s, device))
                waiting.append((work, attempt + 1))
                continue
            self.told.busy_s += seconds
            heapq.heappush(free, (start_s + seconds, device))
            place = Place(f"device {device}", "simulated", "simulated", None, None, None)
            outcome = self._inner.attempt(work)
            yield replace(
                outcome,
                lanes=tuple(replace(lane, place=place) for lane in outcome.lanes),
                place=place,
                started_at=start_s,
                finished_at=start_s + seconds,
                train_s=seconds,
                attempt=attempt,
            )

    def _drawn(self, work: Work, attempt: int) -> tuple[float, bool]:
        """The seconds of a bucket, and whether it loses its node."""
        chances = self._chances
        drawn = generator("simulated", self._seed, work.round, work.bucket.bucket, attempt)
        seconds = self._seconds(work) * float(np.exp(chances.spread * drawn.standard_normal()))
        if drawn.random() < chances.held_up:
            seconds *= chances.held_up_times
        return seconds, bool(drawn.random() < chances.lost)
