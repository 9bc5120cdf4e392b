"""A study with formulas instead of networks, and a ledger that can crash at any call."""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.pruners import BasePruner
from optuna.samplers import RandomSampler
from optuna.trial import FrozenTrial

from sweeper.config import StudyConfig, parse
from sweeper.ledger import Ledger
from sweeper.scheduler.cost import shipped
from sweeper.scheduler.forecast import DataSizes, forecast
from sweeper.scheduler.policy import policy_of
from sweeper.scheduler.signature import Structures
from sweeper.study.rungs import rungs_of
from sweeper.sweep.context import SweepContext
from sweeper.sweep.store import RunStore
from sweeper.sweep.sweep import Sweep
from sweeper.trial import TrialSpec, generator
from tests.simulated import SimulatedExecutor
from tests.small_studies import DIGITS, bent

STUDY = bent(
    DIGITS,
    "study={name='machine',metric='val_accuracy',direction='maximize',n_trials=12}",
    "data={source='sklearn',name='digits'}",
    "train.epochs=8",
    "search={}",
    "search.model.depth={type='int',low=1,high=3}",
    "search.model.width={type='int',low=8,high=64,base=2}",
    "search.optimizer.lr={type='float',low=1e-4,high=1e-2,log=true}",
)


class Crash(BaseException):
    """The process is gone; nothing after this line ran."""


class CrashingLedger:
    """The ledger `inner`, which crashes at its `at`-th call, before or after that takes effect."""

    def __init__(self, inner: Ledger, at: int, after: bool) -> None:
        self._inner = inner
        self._left = at
        self._after = after

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Crash
            result = method(*args, **kwargs)
            if self._left == 0:
                raise Crash
            return result

        return call


class Remembering(RandomSampler):
    """Draws from its own generator, and counts trials if it may and if it may not."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step
        self._count = 0
        self._draw = np.random.default_rng()

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        kept = study._storage.get_study_system_attrs(study._study_id).get("count", 0)
        study._storage.set_study_system_attr(study._study_id, "count", kept + self._step)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        self._count += 1
        kept = study._storage.get_study_system_attrs(study._study_id)["count"]
        for _ in range((kept + self._count + int(self._draw.integers(5))) % 3):
            super().sample_independent(study, trial, param_name, param_distribution)
        return super().sample_independent(study, trial, param_name, param_distribution)


class Tossing(BasePruner):
    """Ends a trial at random."""

    def __init__(self, chance: float) -> None:
        self._chance = chance
        self._random = random.Random()

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        return self._random.random() < self._chance


class NoStore(RunStore):
    """No files at all."""

    def __init__(self) -> None:
        """Nothing to know."""

    def keep_model(
        self, spec: TrialSpec, checkpoint: str, digest: str, row: Mapping[str, Any]
    ) -> None:
        """Nothing to keep."""

    def tidy(self, checkpoints: set[str], models: set[int]) -> None:
        """Nothing to remove."""


def study(overrides: Iterable[str] = ()) -> StudyConfig:
    """The study above with `overrides`."""
    return parse(STUDY, Path("study.toml"), list(overrides)).with_parallel(32)


def new_ledger() -> Ledger:
    """An empty ledger in memory; it outlives a `Crash`, as a file outlives a process."""
    ledger = Ledger.create(":memory:")
    weakref.finalize(ledger, ledger._db.close)  # nothing says when it may be closed
    return ledger


def formula(diverging: frozenset[int]) -> Callable[[TrialSpec, int], tuple[float, ...]]:
    """Metrics that are a function of (number, epoch), NaN from epoch 3 on for some trials."""

    def measure(spec: TrialSpec, epoch: int) -> tuple[float, ...]:
        if spec.number in diverging and epoch >= 3:
            return (np.nan, np.nan, np.nan)
        noise = generator("formula", spec.number, epoch).random(3)
        return tuple(float(v) for v in noise * 0.2 + 1 - 1 / (epoch + 1))

    return measure


def run(
    config: StudyConfig,
    ledger: Ledger | CrashingLedger,
    diverging: frozenset[int] = frozenset(),
    killing: frozenset[int] = frozenset(),
    ahead_after: int = 200,
    store: RunStore | None = None,
    timer: Callable[[], float] = time.monotonic,
    clock: Callable[[], float] = time.time,
) -> Sweep:
    """Run the study to its end on `ledger`."""
    sizes = DataSizes(in_size=64, out_size=10, train_rows=1257, val_rows=360)
    planned = forecast(config, sizes, shipped("cpu"), "map", {}, config.study.n_trials)
    sweep = Sweep(
        SweepContext(
            config=config,
            ledger=ledger,  # type: ignore[arg-type]
            train=SimulatedExecutor(formula(diverging), lambda spec: spec.number in killing).train,
            store=store or NoStore(),
            timer=timer,
            clock=clock,
            structure_of=Structures(
                lambda spec: config.settings_of(spec.params),
                lambda settings: 3 * settings.model.width,
                {},
            ),
            policy=policy_of(config, rungs_of(config), planned, config.study.n_trials),
            metrics=config.train.metric_names,
            test_metrics=(),
            run_id="test",
            ahead_after=ahead_after,
            busy_with=3,
        )
    )
    while not sweep.finished:
        plan = sweep.open()
        sweep.close(sweep.train(plan))
    return sweep


_TIMES = ("finished_at", "started_at")


def contents(ledger: Ledger) -> list[Mapping[str, Any]]:
    """The final state of a study: rows without times, curves, plans."""
    rows = [{k: v for k, v in row.items() if k not in _TIMES} for row in ledger.trial_rows()]
    curves = [
        {"number": c.number, "first": c.first_epoch, "values": c.values.tobytes()}
        for block in ledger.curves(1, ledger.n_closed_rounds())
        for c in block.curves
    ]
    plans = [dict(closed.plan) for closed in ledger.closed_rounds()]
    return [*rows, *curves, *plans]
