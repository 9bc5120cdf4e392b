"""Whether and how a trial ends, judged by what it measured; the caller passes the pruner."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.settings import MetricRule
from sweeper.config.study import N_PARAMETERS, NOT_FINITE_EXCESS, ConstraintTable, StudyTable
from sweeper.results.ranking import best_of, gain_sign
from sweeper.scheduler.signature import StructureOf
from sweeper.sweep.state import Running
from sweeper.trial import OVER, LaneRecord, Reason, TrialState


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a trial ended: its state in Optuna, and why it ended early.

    `values` are the objectives, empty if the trial has none; `excesses` say by how much it violates
    each constraint, if above 0.
    """

    state: TrialState
    reason: Reason | None
    values: tuple[float, ...] = ()
    excesses: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def winning_value(self) -> float | None:
        """The first objective of a trial that can win: complete, and without a violation."""
        violates = any(excess > 0 for excess in self.excesses.values())
        can_win = self.state is TrialState.COMPLETE and not violates
        return self.values[0] if can_win else None


def excesses(constraints: Sequence[ConstraintTable], last: Mapping[str, float]) -> dict[str, float]:
    """By how much metrics violate each constraint, by its index; 0 for those that are missing."""
    by_constraint: dict[str, float] = {}
    for index, constraint in enumerate(constraints):
        key = constraint.key(index)
        if constraint.metric not in last:
            by_constraint[key] = 0.0
            continue
        value = last[constraint.metric]
        is_finite = math.isfinite(value)
        by_constraint[key] = constraint.excess(value) if is_finite else NOT_FINITE_EXCESS
    return by_constraint


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges the trials of a study, whose curves have these metrics."""

    config: StudyConfig
    metrics: tuple[str, ...]
    structure_of: StructureOf

    def judge(
        self, trial: Running, lane: LaneRecord, should_prune: Callable[[int], bool]
    ) -> Verdict | None:
        """How a trial ends by itself in the round of this lane; None if it goes on.

        The pruner is asked only about trials that nothing else ends.
        """
        if lane.failure is not None:
            return Verdict(TrialState.FAIL, lane.failure.reason)
        pruned = self.cut_off(trial, lane, Reason.PRUNED)
        if lane.diverged_epoch is not None or not all(map(math.isfinite, pruned.values)):
            return Verdict(TrialState.PRUNED, Reason.DIVERGED)
        if trial.epochs_done >= self.config.epochs_of(trial.spec.params):
            return self._complete(trial, None)
        if lane.ended:
            return self._complete(trial, Reason.EARLY_STOP)
        if self._keeps_best:
            complete = self._complete(trial, Reason.STOPPED)
            if is_good_enough(self.config.study, complete):
                return complete
        return pruned if should_prune(lane.number) else None

    def cut_off(self, trial: Running, lane: LaneRecord, reason: Reason) -> Verdict:
        """The verdict of a trial that ends with the metrics of its last epoch."""
        last = dict(zip(self.metrics, lane.curve.values[-1].tolist(), strict=True))
        return self._verdict(trial, TrialState.PRUNED, reason, last)

    @property
    def _keeps_best(self) -> bool:
        """Whether a trial's value and weights are those of its best epoch, in training already."""
        return self.config.edition > 2 and self.config.study.value == "best"

    def _complete(self, trial: Running, reason: Reason | None) -> Verdict:
        """The verdict of a complete trial, whose metrics are the means of its members'."""
        keeps = self.config.keeps
        means = {
            name: float(np.mean(values_of(trial, self.metrics, name, keeps)))
            for name in self.metrics
        }
        return self._verdict(trial, TrialState.COMPLETE, reason, means)

    def _verdict(
        self, trial: Running, state: TrialState, reason: Reason | None, metrics: Mapping[str, float]
    ) -> Verdict:
        """The verdict of a trial that ends with these metrics."""
        n_parameters = self.structure_of(trial.spec).n_parameters
        metrics = {**metrics, N_PARAMETERS: float(n_parameters)}
        study = self.config.study
        values = tuple(metrics[name] for name in study.objectives)
        return Verdict(state, reason, values, excesses(study.constraints, metrics))


def is_good_enough(study: StudyTable, verdict: Verdict) -> bool:
    """Whether a trial with this verdict is as good as `study.stop.value` asks."""
    value = verdict.winning_value
    if value is None or study.stop is None or study.stop.value is None:
        return False
    sign = -gain_sign(study.directions[0])
    return sign * value <= sign * study.stop.value


def values_of(
    trial: Running, metrics: Sequence[str], metric: str, keeps: MetricRule | None
) -> list[float]:
    """A metric of each member after its last epoch, or after its best if that is kept.

    The number of parameters, which is not a metric, is the same for all members.
    """
    rows = np.concatenate([curve.by_member for curve in trial.curves], axis=1)
    if metric not in metrics:
        return [0.0] * len(rows)
    objective = rows[:, :, metrics.index(metric)]
    # a single metric may equal OVER: the logarithm of an accuracy of 0
    lasts = [int(np.flatnonzero((member != OVER).any(axis=1))[-1]) for member in rows]
    if keeps is None:
        return [float(member[last]) for member, last in zip(objective, lasts, strict=True)]
    judged = rows[:, :, metrics.index(keeps.metric)]
    epochs = [best_of(member, keeps.maximize)[1] for member in judged.tolist()]
    # if none of the values was finite, the last weights are kept
    return [
        float(member[last] if epoch is None else member[epoch - 1])
        for member, last, epoch in zip(objective, lasts, epochs, strict=True)
    ]
