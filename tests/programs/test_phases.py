"""A program runs its phases, however they alternate, and freezes the parts that they leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from sweeper.executors.executor import Outcome
from sweeper.scheduler.classes import Lane
from sweeper.trial import OVER, TrialSpec
from tests.programs.conftest import Bench, spec
from tests.programs.test_alternating import (
    EPOCHS,
    RELATIVE,
    WAYS,
    agree_in_leaves,
    phase_of,
    plain,
    state_of,
    trial,
    turns,
)

SWITCHES = ("cond", "flag", "separate")
LENGTHS = (
    "search.train.phases.fit.epochs={type='int',low=1,high=3,name='fit'}",
    "search.train.warmup.epochs={type='int',low=1,high=2,name='warmup'}",
)
VALUES = {"train.phases.fit.epochs": (1, 2, 3), "train.warmup.epochs": (1, 2)}


@contextmanager
def compiling() -> Iterator[list[str]]:
    """The names of the segments that are compiled meanwhile."""
    names: list[str] = []

    def listen(event: str, _seconds: float, **about: str) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(about["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    names[:] = [name for name in names if "segment_" in name]


def in_parts(study: Bench, specs: Sequence[TrialSpec], ends: Sequence[int], **how: Any) -> Any:
    """The outcomes of rounds that end after these epochs, each continuing from the last."""
    outcomes: list[Outcome] = []
    for start, stop in zip((0, *ends), ends, strict=False):
        after = outcomes[-1] if outcomes else None
        outcomes.append(study.train(specs, epochs=(start, stop), after=after, **how))
    return outcomes


def joined(outcomes: Sequence[Outcome]) -> bytes:
    """The values of the first trial in all of them."""
    return np.concatenate([one.lanes[0].curve.values for one in outcomes]).tobytes()


def bits(*trees: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(trees)]


@pytest.mark.slow
def test_a_phase_freezes_other_parts_bit_for_bit_for_every_switching(tmp_path: Path) -> None:
    """A program is compiled once, or once per phase, for all changes of phase and all rounds."""
    curves = {freezes_to_the_bit(turns(tmp_path, f"train.switching={one}")) for one in SWITCHES}

    assert len(curves) == 1


def freezes_to_the_bit(study: Bench) -> bytes:
    """The curve of a trial, trained round by round."""
    phases = [phase_of(epoch) for epoch in range(EPOCHS)]
    ends = [epoch for epoch in range(1, EPOCHS) if phases[epoch] != phases[epoch - 1]]
    assert len(ends) >= 12

    with compiling() as segments:
        outcomes = in_parts(study, [trial(3)], ends)
        states = [state_of(study, outcome, trial(3), whole=True) for outcome in outcomes]
        whole = study.curves([trial(3)])[3]

    class_id = study.work([trial(3)]).program.class_id
    names = [""] if study.config.train.switching == "cond" else ["_fit", "_follow"]
    assert Counter(segments) == {f"jit(segment_{class_id}{name})": 1 for name in names}
    assert joined(outcomes) == whole[: ends[-1]].tobytes()
    for (before, after), end in zip(pairwise(states), ends[1:], strict=True):
        frozen = "c" if phases[end - 1] == "fit" else "ab"
        for part in "abc":
            old = bits(before.model[part], before.optimizer[part])
            new = bits(after.model[part], after.optimizer[part])
            assert {a == b for a, b in zip(old, new, strict=True)} == {part in frozen}
    return whole.tobytes()


@pytest.mark.parametrize("switching", ["cond", pytest.param("flag", marks=pytest.mark.slow)])
def test_lanes_with_different_epochs_train_side_by_side(switching: str, tmp_path: Path) -> None:
    study = turns(tmp_path, f"train.switching={switching}")
    old, new = trial(3), trial(4, 7e-4)
    whole = study.curves([old, new], lane_loop="vmap")

    first = study.train([old], epochs=(0, 7), lane_loop="vmap")
    work = study.work([old, new], epochs=(7, 20), after=first, lane_loop="vmap")
    lanes = (work.bucket.lanes[0], Lane(new.number, 0, 11, ""))
    mixed = replace(work, bucket=replace(work.bucket, lanes=lanes))
    outcome = study.trainer.train(mixed, "here", None)

    assert outcome.lanes[0].curve.values.tobytes() == whole[3][7:20].tobytes()
    assert outcome.lanes[1].curve.values.tobytes() == whole[4][:11].tobytes()


@pytest.mark.parametrize("switching", ["flag", pytest.param("separate", marks=pytest.mark.slow)])
def test_a_replicate_that_has_ended_keeps_its_test_scores(switching: str, tmp_path: Path) -> None:
    """In a later round, next to a younger trial that is in another phase."""
    ending = "train.early_stop={metric='val_loss_data',patience=4,min_delta=250}"
    study = turns(tmp_path, "study.replicates=2", ending, f"train.switching={switching}")
    old, new = trial(6), trial(7)
    (whole,) = study.train([old]).lanes
    ends = (whole.curve.by_member != OVER).any(axis=2).sum(axis=1)
    begin = next(e for e in range(min(ends), max(ends)) if phase_of(e) == "follow")

    first = study.train([old], epochs=(0, begin))
    work = study.work([old, new], epochs=(begin, EPOCHS), after=first)
    lanes = (work.bucket.lanes[0], Lane(new.number, 0, EPOCHS, ""))
    mixed = replace(work, bucket=replace(work.bucket, lanes=lanes))
    outcome = study.trainer.train(mixed, "here", None)

    assert (outcome.lanes[0].test, outcome.lanes[0].test_std) == (whole.test, whole.test_std)


@pytest.mark.slow
def test_phases_can_have_a_different_length_in_each_lane(tmp_path: Path) -> None:
    """Under `map` in one program, or one per phase; under `vmap` each length has its own class."""
    settings = ("train.epochs=12", *LENGTHS)
    study, flagged = turns(tmp_path, *settings), turns(tmp_path, *settings, "train.switching=flag")
    shape = {"depth_a": 1, "width_a": 8, "width_b": 6, "lr_fit": 1e-3, "lr_follow": 1e-3}
    specs = [spec(n, **shape, fit=1 + n % 3, warmup=1 + n % 2) for n in range(4)]

    with compiling() as segments:
        together = study.curves(specs, traced=VALUES)
        by_phase = flagged.curves(specs, traced=VALUES)

    assert len(segments) == 3
    assert len({curve.tobytes() for curve in together.values()}) == 4
    for one in specs:
        assert together[one.number].tobytes() == by_phase[one.number].tobytes()
    for one in specs[1:3]:
        alone = study.curves([one], lane_loop="vmap")[one.number]
        np.testing.assert_allclose(together[one.number], alone, rtol=RELATIVE)


@pytest.mark.parametrize(
    ("switching", "way"),
    [
        ("cond", "padded"),
        pytest.param("cond", "exact", marks=pytest.mark.slow),
        pytest.param("flag", "exact", marks=pytest.mark.slow),
        pytest.param("flag", "padded", marks=pytest.mark.slow),
    ],
)
def test_the_best_average_is_kept_and_a_trial_ends_early(
    switching: str, way: str, tmp_path: Path
) -> None:
    """The kept epoch is the best for the study, although another loss ends the trial."""
    study = turns(
        tmp_path,
        "study.metric=val_loss_follow",
        "study.value=best",
        "train.ema=0.8",
        "train.early_stop={metric='val_loss_data',patience=4,min_delta=250}",
        f"train.switching={switching}",
    )
    expected = plain(study, trial(6), ema=0.8)
    best, waited, last = np.inf, 0, 0
    while waited < 4:
        is_better = expected.curve[last, 2] < best - 250
        best, waited = (expected.curve[last, 2], 0) if is_better else (best, waited + 1)
        last += 1
    kept = int(np.argmin(expected.curve[:last, 3]))
    assert kept + 1 < last < EPOCHS

    outcome = study.train([trial(6)], **WAYS[way])
    (lane,) = outcome.lanes
    assert lane.ended
    np.testing.assert_allclose(lane.curve.values, expected.curve[:last], rtol=RELATIVE)
    agree_in_leaves(study, outcome, trial(6), expected.nets[kept])
