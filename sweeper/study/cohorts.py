"""Pruners that rank all trials with a value at an epoch, those of the same round included.

Optuna's pruners judge each trial by the trials before it: successive halving depends on the order,
and the median waits for completed trials, which do not exist if all trials train at once. Here,
every value of a round is reported before a trial is judged, so a verdict depends on the values
alone. Since edition 3, `median`, `percentile` and `hyperband` are these, too.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import optuna
from jaxtyping import Bool, Float, Int, Num
from optuna.pruners import BasePruner, HyperbandPruner
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from sweeper.study.recording_storage import RecordingStorage
from sweeper.study.rungs import is_at_interval, is_rung

_FADING = 1 / 3


def losers_of_halving(
    scores: Float[np.ndarray, " trials"],
    numbers: Int[np.ndarray, " trials"],
    reduction_factor: int,
) -> Bool[np.ndarray, " trials"]:
    """The trials that successive halving ends at a rung: all but the best 1 in `reduction_factor`.

    Low scores are good; of equal ones the trial with the lowest number is the best. At least one
    trial continues. The rule is that of Jamieson and Talwalkar (2016),
    https://arxiv.org/abs/1502.07943.
    """
    order = np.lexsort((numbers, scores))
    losers = np.zeros(len(scores), bool)
    losers[order[max(1, len(order) // reduction_factor) :]] = True
    return losers


def losers_of_percentile(
    curves: Float[np.ndarray, "trials epochs"], percentile: float
) -> Bool[np.ndarray, " trials"]:
    """The trials whose best value is worse than the best `percentile` % of the last values.

    Low values are good. This is Optuna's rule, applied to all trials instead of completed ones.
    """
    return curves.min(axis=1) > _limit(curves[:, -1], percentile)


def spares_all(percentile: float, n_trials: int) -> bool:
    """Whether none of `n_trials`, or of fewer, can be worse than the best `percentile` %."""
    return _limit(np.arange(n_trials), percentile) == n_trials - 1


def _limit(values: Num[np.ndarray, " trials"], percentile: float) -> float:
    """The worst of the best `percentile` % of values."""
    return float(np.percentile(values, percentile, method="inverted_cdf"))


def forecasts(
    curves: Float[np.ndarray, "trials epochs"], last_epoch: int
) -> Float[np.ndarray, " trials"]:
    """The best value that each trial may reach by its last epoch; low values are good.

    With each doubling of the epochs a curve is assumed to gain `_FADING` times what it gained with
    the last one, which is a power law. The best of its noisy values is one standard deviation
    better. `scripts/replay_search` compares this score with others.
    """
    epochs = curves.shape[1]
    half, doublings = max(1, epochs // 2), math.log2(last_epoch / epochs)
    level = _level(curves)
    slope = (level - _level(curves[:, :half])) / math.log2(max(2, epochs / half))
    gains = _FADING * (1 - _FADING**doublings) / (1 - _FADING)
    return level + gains * slope - _noise(curves[:, -10:])


def _level(curves: Float[np.ndarray, "trials epochs"]) -> Float[np.ndarray, " trials"]:
    """The mean of the last third."""
    return curves[:, -max(1, curves.shape[1] // 3) :].mean(axis=1)


def _noise(curves: Float[np.ndarray, "trials epochs"]) -> Float[np.ndarray, " trials"]:
    """The standard deviation around lines through three values in a row."""
    if curves.shape[1] < 3:
        return np.zeros(len(curves))
    return np.sqrt((np.diff(curves, n=2, axis=1) ** 2).mean(axis=1) / 6)


@dataclass(frozen=True, slots=True)
class Cohort:
    """All trials with a value at an epoch, and their values up to it; low ones are good."""

    numbers: Int[np.ndarray, " trials"]
    curves: Float[np.ndarray, "trials epochs"]


class CohortPruner(BasePruner):
    """Judges all trials that have come equally far at once.

    Subclasses say after which epochs they judge, and which trials lose.
    """

    def __init__(self) -> None:
        # the trials to end after an epoch, and how many values had been reported then
        self._found: dict[int, tuple[int, frozenset[int]]] = {}

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        epoch = trial.last_step
        if epoch is None or not self.judges_after(epoch):
            return False
        n_reports = cast("RecordingStorage", study._storage).n_reports
        if epoch not in self._found or self._found[epoch][0] != n_reports:
            cohort = _at(study, epoch)
            losers = cohort.numbers[self.losers(cohort)]
            self._found[epoch] = n_reports, frozenset(losers.tolist())
        return trial.number in self._found[epoch][1]

    @abstractmethod
    def judges_after(self, epoch: int) -> bool:
        """Whether trials may end after this epoch."""

    @abstractmethod
    def losers(self, cohort: Cohort) -> Bool[np.ndarray, " trials"]:
        """Which of these trials end, unless they have ended already."""


class HalvingPruner(CohortPruner):
    """Successive halving of cohorts.

    A trial is judged after `min_resource` epochs, and then each time that it has trained
    `reduction_factor` times as many. It continues if it is among the best 1 in `reduction_factor`:
    by its best value so far, or with `score = "forecast"` by what it may reach at `last_epoch`. The
    trial with the best value so far always continues, so no pruned trial has a better value than
    the best of the others.
    """

    def __init__(
        self,
        min_resource: int = 4,
        reduction_factor: int = 3,
        score: Literal["best", "forecast"] = "best",
        last_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self._min_resource = min_resource
        self._reduction_factor = reduction_factor
        self._last_epoch = last_epoch if score == "forecast" else None

    def judges_after(self, epoch: int) -> bool:
        return is_rung(epoch, self._min_resource, self._reduction_factor)

    def losers(self, cohort: Cohort) -> Bool[np.ndarray, " trials"]:
        best = cohort.curves.min(axis=1)
        if self._last_epoch is None:
            return losers_of_halving(best, cohort.numbers, self._reduction_factor)
        scores = forecasts(cohort.curves, self._last_epoch)
        losers = losers_of_halving(scores, cohort.numbers, self._reduction_factor)
        losers[np.lexsort((cohort.numbers, best))[0]] = False
        return losers


class PercentilePruner(CohortPruner):
    """Ends trials whose best value is worse than the best `percentile` % of values at an epoch.

    It judges after epochs `n_warmup_steps`, `n_warmup_steps + interval_steps` and so on, without a
    warm-up also after epoch 1, if at least `n_startup_trials` others have come as far. With 50 %,
    it is the median rule.
    """

    def __init__(
        self,
        percentile: float = 50.0,
        n_startup_trials: int = 5,
        n_warmup_steps: int = 0,
        interval_steps: int = 1,
        n_min_trials: int = 1,
    ) -> None:
        super().__init__()
        self._percentile = percentile
        self._n_others = max(1, n_startup_trials, n_min_trials)
        self._n_warmup_steps = n_warmup_steps
        self._interval_steps = interval_steps

    def judges_after(self, epoch: int) -> bool:
        return is_at_interval(epoch, self._n_warmup_steps, self._interval_steps)

    def losers(self, cohort: Cohort) -> Bool[np.ndarray, " trials"]:
        if len(cohort.numbers) <= self._n_others:
            return np.zeros(len(cohort.numbers), bool)
        return losers_of_percentile(cohort.curves, self._percentile)


class CohortHyperbandPruner(HyperbandPruner):
    """Optuna's Hyperband, with successive halving of cohorts in each of its brackets."""

    def _try_initialization(self, study: optuna.Study) -> None:
        super()._try_initialization(study)
        factor = self._reduction_factor
        self._pruners = [  # type: ignore[assignment]
            HalvingPruner(self._min_resource * factor**bracket, factor)
            for bracket in range(len(self._pruners))
        ]


def _at(study: optuna.Study, epoch: int) -> Cohort:
    sign = -1.0 if study.direction is StudyDirection.MAXIMIZE else 1.0
    there = [one for one in study.get_trials(deepcopy=False) if epoch in one.intermediate_values]
    curves = [[one.intermediate_values[at] for at in range(1, epoch + 1)] for one in there]
    return Cohort(np.array([one.number for one in there]), sign * np.array(curves))
