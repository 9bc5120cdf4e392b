"""Pruners that rank the trials of a round together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.config import parse
from sweeper.study.ask_tell import Study
from sweeper.study.cohorts import losers_of_halving
from sweeper.trial import TrialState
from tests.config.conftest import VALID

HALVING = "study.pruner={name='halving',min_resource=2,reduction_factor=3}"


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
    several = study("study.metric=val_loss", "study.direction=minimize")
    several.ask(3, 0)
    assert ended(several, {0: [0.1, 0.9], 1: [0.5, 0.2], 2: [0.3, 0.8]}) == {1, 2}


def test_a_later_cohort_is_ranked_with_earlier_ones() -> None:
    several = study("study.metric=val_loss", "study.direction=minimize")
    several.ask(6, 0)
    first = {0: [1.0, 0.1], 1: [1.0, 0.2], 2: [1.0, 0.3]}
    assert ended(several, first) == {1, 2}
    for number in (1, 2):
        several.tell(number, TrialState.PRUNED, ())
    # of six, the best two go on: the one of the first cohort, and one of these
    assert ended(several, {3: [1.0, 0.4], 4: [1.0, 0.15], 5: [1.0, 0.25]}) == {3, 5}


def test_trials_are_only_judged_at_rungs() -> None:
    several = study("study.metric=val_loss", "study.direction=minimize")
    several.ask(3, 0)
    assert ended(several, {0: [0.1], 1: [0.2], 2: [0.3]}) == set()
    for number in range(3):
        several.report(number, 2, [1.0, 1.0, 1.0])
    assert not any(several.should_prune(number) for number in range(3))
