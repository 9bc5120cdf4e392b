"""`scripts/replay_search` judges trials as the pruners do that it names."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from sweeper.study.cohorts import HalvingPruner
from sweeper.study.reseeded import NotingStorage

REPLAY = Path(__file__).parents[1] / "scripts" / "replay_search"
EPOCHS, TRIALS = 20, 24


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(REPLAY))


def epochs_of(pruner: optuna.pruners.BasePruner, curves: np.ndarray, rungs: list[int]) -> int:
    """The epochs that a pruner lets these trials train, all side by side."""
    study = optuna.create_study(direction="maximize", storage=NotingStorage())
    trials = {number: study.ask() for number in range(len(curves))}
    spent, before = 0, 0
    for stop in [*rungs, curves.shape[1]]:
        spent += len(trials) * (stop - before)
        for number, trial in trials.items():
            for epoch in range(before + 1, stop + 1):
                trial.report(curves[number, epoch - 1], epoch)
        if stop < curves.shape[1]:
            frozen = {n: study.trials[n] for n in trials}
            ended = {n for n, one in frozen.items() if pruner.prune(study, one)}
            trials = {number: one for number, one in trials.items() if number not in ended}
        before = stop
    return spent


@pytest.mark.parametrize("seed", range(4))
def test_halving_and_asha_are_replayed_as_they_judge(seed: int, script: dict[str, Any]) -> None:
    curves = np.random.default_rng(seed).normal(size=(TRIALS, EPOCHS)).cumsum(axis=1)
    rungs = script["geometric"](2, 3, EPOCHS)
    optunas = optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3)
    for name, pruner, by_best in (
        ("halving", HalvingPruner(min_resource=2, reduction_factor=3), True),
        ("asha", optunas, False),
    ):
        rule = script["Rule"]([rungs], script[name](3), by_best=by_best)
        rule.deal(TRIALS, np.random.default_rng(0))
        spent, _ = script["replayed"](curves, rule)
        assert spent == epochs_of(pruner, curves, rungs), name


@pytest.mark.parametrize(("first", "factor", "epochs"), [(1, 3, 64), (1, 3, 48), (2, 4, 100)])
def test_brackets_are_those_of_optuna(
    first: int, factor: int, epochs: int, script: dict[str, Any]
) -> None:
    hyperband = optuna.pruners.HyperbandPruner(first, epochs, factor)
    hyperband._try_initialization(optuna.create_study())
    rungs, shares = script["brackets"](first, factor, epochs)
    assert shares == hyperband._trial_allocation_budgets
    assert len(rungs) == hyperband._n_brackets
