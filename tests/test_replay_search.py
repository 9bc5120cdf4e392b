"""`scripts/replay_search` judges trials as the pruners do that it names."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from sweeper.study.cohorts import HalvingPruner, PercentilePruner
from sweeper.study.recording_storage import RecordingStorage

REPLAY = Path(__file__).parents[1] / "scripts" / "replay_search"
EPOCHS, TRIALS = 20, 24


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(REPLAY.parent))
        return runpy.run_path(str(REPLAY))


def epochs_of(pruner: optuna.pruners.BasePruner, curves: np.ndarray, rungs: list[int]) -> int:
    """The epochs that a pruner lets these trials train, all side by side."""
    study = optuna.create_study(direction="maximize", storage=RecordingStorage())
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
@pytest.mark.parametrize(
    ("family", "pruner"),
    [
        ("halving", lambda: HalvingPruner(2, 3)),
        ("halving by forecast", lambda: HalvingPruner(2, 3, "forecast", EPOCHS)),
        (
            "median over cohorts",
            lambda: PercentilePruner(n_warmup_steps=2, interval_steps=3),
        ),
        (
            "Optuna's asha",
            lambda: optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3),
        ),
    ],
)
def test_rules_judge_as_the_pruners_that_they_name(
    seed: int, family: str, pruner: Callable[[], optuna.pruners.BasePruner], script: dict[str, Any]
) -> None:
    values = np.random.default_rng(seed).normal(size=(TRIALS, EPOCHS)).cumsum(axis=1)
    rule = script["FAMILIES"][family](3, 2, EPOCHS)
    drawn = np.arange(TRIALS)[None]
    reached = script["reached"](script["Curves"](values), drawn, rule, np.zeros_like(drawn))
    assert reached.sum() == epochs_of(pruner(), values, [*rule.rungs[0]])


def test_trials_that_train_later_are_ranked_with_those_that_have_ended(
    script: dict[str, Any],
) -> None:
    values = np.repeat([[3.0], [1.0], [2.0], [4.0]], 4, axis=1)
    rule = script["at_rungs"](script["halving"], parallel=2)(2, 1, 4)
    drawn = np.array([[0, 1, 2, 3]])
    reached = script["reached"](script["Curves"](values), drawn, rule, np.zeros_like(drawn))
    assert reached.tolist() == [[4, 1, 1, 4]]


def test_a_forecast_follows_the_power_law_of_a_curve(script: dict[str, Any]) -> None:
    epochs = np.arange(1, 65)
    curves = script["Curves"](np.array([0.9 - 0.4 / epochs**1.6, 0.8 - 0.1 / epochs**1.6]))
    np.testing.assert_allclose(curves.forecast[:, 31], curves.level[:, -1], atol=1e-3)


def test_a_crossing_is_interpolated_on_the_lower_envelope(script: dict[str, Any]) -> None:
    shares, losses = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.004, 0.002, 0.003, 0.0])
    assert script["crossing"](shares, losses, 0.001) == pytest.approx(0.3)
    assert script["crossing"](shares, losses, 0.005) == pytest.approx(0.1)
    assert script["crossing"](shares[:2], losses[:2], 0.001) == pytest.approx(0.6)


@pytest.mark.parametrize(("first", "factor", "epochs"), [(1, 3, 64), (1, 3, 48), (2, 4, 100)])
def test_brackets_are_those_of_optuna(
    first: int, factor: int, epochs: int, script: dict[str, Any]
) -> None:
    hyperband = optuna.pruners.HyperbandPruner(first, epochs, factor)
    hyperband._try_initialization(optuna.create_study())
    rungs, shares = script["brackets"](first, factor, epochs)
    assert shares == hyperband._trial_allocation_budgets
    assert len(rungs) == hyperband._n_brackets
