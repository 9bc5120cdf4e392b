"""A replicate equals the trial with a different seed, whatever trains next to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from sweeper.trial import TrialSpec
from tests.programs.conftest import Bench, spec
from tests.programs.test_supervised import RELATIVE, plain_curve

TRIALS = [
    spec(n, depth=2, width=16, activation="relu", lr=1e-4 * (n + 1), weight_decay=0.1)
    for n in range(2)
]
DROPOUT = "model.dropout=0.25"


def members(study: Bench, specs: list[TrialSpec], **how: object) -> dict[int, NDArray[np.float64]]:
    """The values of every member, by trial."""
    return {lane.number: lane.curve.by_member for lane in study.train(specs, **how).lanes}


@pytest.mark.parametrize("lane_loop", ["map", pytest.param("vmap", marks=pytest.mark.slow)])
def test_each_replicate_equals_the_trial_in_plain_equinox(
    lane_loop: str, bench: Callable[..., Bench]
) -> None:
    study = bench("study.replicates=3", DROPOUT)

    found = members(study, TRIALS, lane_loop=lane_loop, capacity=8)

    trial = TRIALS[1]
    plain = np.stack([plain_curve(study, trial, replicate) for replicate in range(3)])
    np.testing.assert_allclose(found[trial.number], plain, rtol=RELATIVE)


@pytest.mark.slow
def test_more_replicates_change_no_bit_of_the_first(bench: Callable[..., Bench]) -> None:
    alone, three = (
        members(bench(f"study.replicates={count}", DROPOUT), TRIALS, capacity=6) for count in (1, 3)
    )

    for number in (0, 1):
        assert alone[number].tobytes() == three[number][:1].tobytes()
        assert len({its.tobytes() for its in three[number]}) == 3


def test_replicates_resume_from_their_own_states(bench: Callable[..., Bench]) -> None:
    study = bench("study.replicates=2")
    whole = members(study, TRIALS)

    first = study.train(TRIALS, epochs=(0, 3))
    rest = members(study, TRIALS, epochs=(3, 6), after=first)

    for lane in first.lanes:
        joined = np.concatenate([lane.curve.by_member, rest[lane.number]], axis=1)
        assert joined.tobytes() == whole[lane.number].tobytes()


def test_a_trial_is_the_mean_of_its_replicates(bench: Callable[..., Bench]) -> None:
    study = bench("study.replicates=3")

    for lane in study.train(TRIALS, capacity=6).lanes:
        assert lane.curve.values.tobytes() == lane.curve.by_member.mean(axis=0).tobytes()


def test_a_trial_diverges_with_the_first_of_its_replicates(bench: Callable[..., Bench]) -> None:
    study = bench("study.replicates=2", "optimizer.name=sgd", "train.epochs=3")
    wild = spec(0, depth=2, width=16, activation="relu", lr=1e30, weight_decay=0.0)

    (lane,) = study.train([wild]).lanes

    assert lane.diverged_epoch == 1
    assert lane.curve.by_member.shape == (2, 1, 3)
    assert lane.test == ()
