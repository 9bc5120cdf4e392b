"""Pruners that rank all trials with a value at an epoch, those of the same round included.

Optuna's judge each trial by the trials before it: successive halving depends on the order, and the
median waits for completed trials, of which there are none if all trials train at once. Here, every
value of a round is reported before a trial is judged, so a verdict depends on the values alone.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import optuna
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from optuna.pruners import BasePruner
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial

from sweeper.study.reseeded import NotingStorage


def losers_of_halving(
    scores: Float[NDArray[Any], " trials"],
    numbers: Int[NDArray[Any], " trials"],
    reduction_factor: int,
) -> Bool[NDArray[Any], " trials"]:
    """The trials that successive halving ends at a rung: all but the best 1 in `reduction_factor`.

    Low scores are good; of equal ones the trial with the lowest number is the best. At least one
    trial goes on. The rule is that of Jamieson and Talwalkar (2016), https://arxiv.org/abs/1502.07943.
    """
    order = np.lexsort((numbers, scores))
    losers = np.zeros(len(scores), bool)
    losers[order[max(1, len(order) // reduction_factor) :]] = True
    return losers


class HalvingPruner(BasePruner):
    """Successive halving of cohorts.

    A trial is judged after `min_resource` epochs, and then each time that it has trained
    `reduction_factor` times as many. It is ranked by its best value so far among all trials that
    have come as far, and continues if it is among the best 1 in `reduction_factor`.
    """

    def __init__(self, min_resource: int = 3, reduction_factor: int = 3) -> None:
        self._min_resource = min_resource
        self._reduction_factor = reduction_factor
        # the trials to end at an epoch, and how many values had been reported then
        self._found: dict[int, tuple[int, frozenset[int]]] = {}

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        epoch = trial.last_step
        return self._is_rung(epoch) and trial.number in self._losers(study, cast("int", epoch))

    def _is_rung(self, epoch: int | None) -> bool:
        if epoch is None:
            return False
        rung = self._min_resource
        while rung < epoch:
            rung *= self._reduction_factor
        return rung == epoch

    def _losers(self, study: optuna.Study, epoch: int) -> frozenset[int]:
        n_reports = cast("NotingStorage", study._storage).n_reports
        if epoch not in self._found or self._found[epoch][0] != n_reports:
            scores, numbers = _at(study, epoch)
            losers = numbers[losers_of_halving(scores, numbers, self._reduction_factor)]
            self._found[epoch] = n_reports, frozenset(losers.tolist())
        return self._found[epoch][1]


def _at(
    study: optuna.Study, epoch: int
) -> tuple[Float[NDArray[Any], " trials"], Int[NDArray[Any], " trials"]]:
    """The best value up to `epoch` of each trial that has one there, low ones good; its number."""
    sign = -1.0 if study.direction is StudyDirection.MAXIMIZE else 1.0
    there = [one for one in study.get_trials(deepcopy=False) if epoch in one.intermediate_values]
    scores = [
        min(sign * value for step, value in one.intermediate_values.items() if step <= epoch)
        for one in there
    ]
    return np.array(scores), np.array([one.number for one in there])
