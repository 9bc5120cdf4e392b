"""Pruners that rank the trials of a round together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.pruners import HyperbandPruner, MedianPruner

from sweeper.config import parse
from sweeper.study.ask_tell import Study
from sweeper.study.cohorts import (
    CohortHyperbandPruner,
    forecasts,
    losers_of_halving,
    losers_of_percentile,
    spares_all,
)
from sweeper.study.options import given_options
from sweeper.study.rungs import rungs_of
from sweeper.trial import TrialState
from tests.config.conftest import VALID

HALVING = "study.pruner={name='halving',min_resource=2,reduction_factor=3,score='best'}"


MEDIAN = "study.pruner={name='median',n_startup_trials=3,n_warmup_steps=2,interval_steps=2}"
LOW = ("study.metric=val_loss", "study.direction=minimize")


def study(*overrides: str) -> Study:
    return Study(parse(VALID, Path("study.toml"), [HALVING, "train.epochs=20", *overrides]))


def ended(study: Study, curves: dict[int, Sequence[float]]) -> set[int]:
    """Which of these trials end in a round that reports these values."""
    for number, values in curves.items():
        study.report(number, 1, values)
    return {number for number in curves if study.should_prune(number)}


@pytest.mark.parametrize(
    ("scores", "factor", "expected"),
    [
        ([3.0, 1.0, 2.0, 6.0, 5.0, 4.0], 3, [0, 3, 4, 5]),
        ([1.0, 1.0, 1.0, 1.0], 2, [2, 3]),
        ([2.0, 1.0], 3, [0]),
        ([5.0], 3, []),
    ],
)
def test_the_best_share_goes_on(scores: list[float], factor: int, expected: list[int]) -> None:
    losers = losers_of_halving(np.array(scores), np.arange(len(scores)), factor)
    assert np.flatnonzero(losers).tolist() == expected


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, np.inf]), min_size=1, max_size=20),
    st.integers(2, 5),
    st.randoms(use_true_random=False),
)
def test_the_order_of_trials_changes_no_verdict(scores, factor, random) -> None:  # type: ignore[no-untyped-def]
    numbers = [*range(len(scores))]
    random.shuffle(numbers)
    straight = losers_of_halving(np.array(scores), np.arange(len(scores)), factor)
    shuffled = losers_of_halving(np.array(scores)[numbers], np.array(numbers), factor)
    assert sorted(np.array(numbers)[shuffled].tolist()) == np.flatnonzero(straight).tolist()
    assert len(scores) - straight.sum() == max(1, len(scores) // factor)


def test_trials_are_ranked_by_their_best_value_so_far() -> None:
    several = study(*LOW)
    several.ask(3, 0)
    assert ended(several, {0: [0.1, 0.9], 1: [0.5, 0.2], 2: [0.3, 0.8]}) == {1, 2}


def test_a_later_cohort_is_ranked_with_earlier_ones() -> None:
    several = study(*LOW)
    several.ask(6, 0)
    first = {0: [1.0, 0.1], 1: [1.0, 0.2], 2: [1.0, 0.3]}
    assert ended(several, first) == {1, 2}
    for number in (1, 2):
        several.tell(number, TrialState.PRUNED, ())
    # of six, the best two go on: the one of the first cohort, and one of these
    assert ended(several, {3: [1.0, 0.4], 4: [1.0, 0.15], 5: [1.0, 0.25]}) == {3, 5}


def test_trials_are_only_judged_at_rungs() -> None:
    several = study(*LOW)
    several.ask(3, 0)
    assert ended(several, {0: [0.1], 1: [0.2], 2: [0.3]}) == set()
    for number in range(3):
        several.report(number, 2, [1.0, 1.0, 1.0])
    assert not any(several.should_prune(number) for number in range(3))


def test_the_median_is_that_of_trials_side_by_side() -> None:
    several = study(*LOW, MEDIAN)
    several.ask(5, 0)
    # at epoch 2 they have 0.4, 0.9, 0.6, 0.7 and 0.8; trial 1 was better before
    curves = {0: [0.9, 0.4], 1: [0.3, 0.9], 2: [1.0, 0.6], 3: [1.0, 0.7], 4: [1.0, 0.8]}
    assert ended(several, curves) == {4}
    for number, value in enumerate((0.1, 0.2, 0.3, 0.4)):
        several.report(number, 3, [value])
    assert not any(several.should_prune(number) for number in range(4)), "not after epoch 3"


def test_the_median_waits_for_others_to_come_as_far() -> None:
    several = study(*LOW, MEDIAN)
    several.ask(4, 0)
    assert ended(several, {0: [1.0, 0.4], 1: [1.0, 0.9], 2: [1.0, 0.6]}) == set()
    assert ended(several, {3: [1.0, 0.95]}) == {3}


def test_a_percentile_keeps_its_share_and_ties() -> None:
    values = np.array([[4.0, 1.0, 2.0, 2.0, 3.0, np.inf]]).T
    losers = losers_of_percentile(values, 50)
    assert np.flatnonzero(losers).tolist() == [0, 4, 5]
    assert not losers_of_percentile(values, 100).any()
    assert np.flatnonzero(losers_of_percentile(values, 16)).tolist() == [0, 2, 3, 4, 5]


@pytest.mark.parametrize("n_trials", [2, 3, 7, 24, 100])
def test_a_percentile_spares_all_only_if_no_trial_of_any_cohort_can_end(n_trials: int) -> None:
    for percentile in (0.0, 50.0, 66.6, 85.7, 85.8, 95.8, 95.9, 99.0, 99.1, 100.0):
        cohorts = (np.arange(1.0, size + 1)[:, None] for size in range(2, n_trials + 1))
        may_end = any(losers_of_percentile(cohort, percentile).any() for cohort in cohorts)
        assert spares_all(percentile, n_trials) is not may_end


def test_forecasts_follow_power_laws() -> None:
    # this loss falls by a third of what it fell by with the doubling before
    epochs = np.arange(1, 65)
    power = 0.2 + 0.8 * epochs ** np.log2(1 / 3)
    (forecast,) = forecasts(power[None, :32], 64)
    assert abs(forecast - power[-1]) < 0.005
    flat, falling = np.full(8, 0.5), np.linspace(0.9, 0.52, 8)
    assert np.argmin(forecasts(np.stack([flat, falling]), 64)) == 1, "the falling one wins"
    np.testing.assert_allclose(forecasts(np.array([[0.5], [0.4]]), 9), [0.5, 0.4])


def test_halving_judges_by_forecasts_by_default() -> None:
    by_forecast = HALVING.replace(",score='best'", "")
    several = study(*LOW, by_forecast, "train.epochs=64")
    several.ask(6, 0)
    curves = {0: [0.5, 0.5], 1: [0.9, 0.55], 2: [0.7, 0.6], 3: [0.6, 0.7], 4: [0.8, 0.8]}
    # the best third falls fastest, and 0 is the best so far
    assert ended(several, curves) == {2, 3, 4}


@pytest.mark.parametrize("seed", range(5))
def test_no_trial_that_ends_early_is_better_than_the_best_complete_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    curves = 1 / np.arange(2, 22) + rng.normal(scale=0.1, size=(40, 20))
    several = study(*LOW, HALVING.replace(",score='best'", ""))
    done, waiting, running = dict.fromkeys(range(40), 0), [*range(40)], set[int]()
    several.ask(40, 0)
    while waiting or running:
        while waiting and len(running) < 7:
            running.add(waiting.pop(0))
        for number in running:
            until = next(end for end in (2, 6, 18, 20) if end > done[number])
            several.report(number, done[number] + 1, curves[number, done[number] : until].tolist())
            done[number] = until
        running -= {one for one in running if done[one] == 20 or several.should_prune(one)}
    best = {number: curves[number, :epochs].min() for number, epochs in done.items()}
    assert done[min(best, key=lambda number: best[number])] == 20
    assert sum(epochs < 20 for epochs in done.values()) > 20


def test_hyperband_halves_the_cohort_of_each_bracket() -> None:
    hyperband = "study.pruner={name='hyperband',min_resource=2,reduction_factor=3,max_resource=20}"
    several = study(*LOW, hyperband)
    several.ask(30, 0)
    pruner = several._study.pruner
    assert isinstance(pruner, CohortHyperbandPruner)
    brackets = [pruner._get_bracket_id(several._study, one) for one in several._study.trials]
    found = ended(several, {number: [1.0, number / 30] for number in range(30)})
    first = [number for number in range(30) if brackets[number] == 0]
    assert len({*brackets}) == 3
    # the first bracket judges after epoch 2; the best third is the one with the lowest numbers
    assert found == {*first[len(first) // 3 :]}


def test_studies_of_an_earlier_edition_keep_their_rules() -> None:
    for name, kind in (("median", MedianPruner), ("hyperband", HyperbandPruner)):
        old = study(f"study.pruner={{name='{name}'}}", "edition=2")
        assert type(old._study.pruner) is kind
    began = ["study.pruner={name='halving'}", "train.epochs=20", "edition=2"]
    config = parse(VALID, Path("study.toml"), began)
    given = given_options(config, "halving", {})
    assert (given["min_resource"], given["score"]) == (3, "best")
    assert rungs_of(config) == (3, 9)
