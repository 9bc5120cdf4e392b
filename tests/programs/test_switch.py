"""A lane of a class of several structures equals the trial alone, whatever the other branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from sweeper.config import parse
from sweeper.programs.switch import Packing
from sweeper.trial import Failure
from tests.programs.conftest import STUDY, Bench, spec

# MLPs, a linear model, and a user-defined one, whose optimizers keep different arrays
SEVERAL = (
    "data.name=iris",
    "train.batch_size=16",
    "train.epochs=4",
    "study.folds=2",
    "train.ema=0.9",
    "train.early_stop={patience=1,min_delta=0.05}",
    "model.function=nets:build",
    "model.layer_norm=true",
    "optimizer.min_dim_size_to_factor=4",
    "search.model.hidden={type='categorical',choices=[5,13]}",
    "search.model.kind={type='categorical',choices=['mlp','python']}",
    "search.model.depth.low=0",
    "search.optimizer.name={type='categorical',choices=['adamw','adafactor']}",
)
NETS = """\
import equinox as eqx
import jax


def build(in_size, out_size, hidden, *, key):
    if hidden == 13:
        raise ValueError("thirteen units")
    first, second = jax.random.split(key)
    return eqx.nn.Sequential([
        eqx.nn.Linear(in_size, hidden, key=first),
        eqx.nn.Lambda(jax.nn.silu),
        eqx.nn.Linear(hidden, out_size, key=second),
    ])
"""
FIXED = {"lr": 1e-3, "weight_decay": 0.1, "activation": "tanh"}
TRIALS = [
    spec(0, kind="mlp", depth=2, width=8, name="adamw", **FIXED),
    spec(1, kind="mlp", depth=0, width=8, name="adamw", **FIXED),
    spec(2, kind="python", hidden=5, name="adafactor", **FIXED),
    spec(3, kind="mlp", depth=2, width=8, name="adamw", **{**FIXED, "activation": "relu"}),
]
HOW: dict[str, Any] = {"traced": {"model.activation": ("relu", "tanh")}, "capacity": 8}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    directory = tmp_path_factory.mktemp("several")
    (directory / "nets.py").write_text(NETS, encoding="utf-8")
    return Bench(parse(STUDY, directory / "study.toml", SEVERAL), directory)


@pytest.mark.slow
def test_a_lane_equals_the_trial_alone_and_its_bits_do_not_depend_on_the_others(
    study: Bench,
) -> None:
    work = study.work(TRIALS, switched=True, **HOW)
    elsewhere = replace(
        work,
        bucket=replace(work.bucket, lanes=work.bucket.lanes[:1:-1]),
        specs=work.specs[:1:-1],
    )

    switched, again = (study.trainer.train(each, "here", None) for each in (work, elsewhere))

    for each, lane in zip(TRIALS, switched.lanes, strict=True):
        own = study.train([each], **HOW).lanes[0]
        # XLA may sum the losses of a branch in another order than those of a whole program
        np.testing.assert_array_max_ulp(lane.curve.by_member, own.curve.by_member, maxulp=1)
        assert (lane.test, lane.ended) == (own.test, own.ended)
    for lane in again.lanes:
        assert lane.curve.values.tobytes() == switched.lanes[lane.number].curve.values.tobytes()
    assert any(lane.ended for lane in switched.lanes)
    assert {lane.place.device for lane in switched.lanes} == {"cpu:0"}


@pytest.mark.slow
def test_a_lane_resumes_from_its_checkpoint_in_either_class(study: Bench) -> None:
    how = {**HOW, "epochs": (1, 4)}
    whole = study.curves(TRIALS, switched=True, **HOW)
    first = study.train(TRIALS, switched=True, **HOW, epochs=(0, 1))

    on = study.train(TRIALS, switched=True, after=first, **how)
    alone = study.train(TRIALS[:1], after=first, **how)

    for lane in (*on.lanes, *alone.lanes):
        assert lane.curve.values.tobytes() == whole[lane.number][1:].tobytes()


@pytest.mark.parametrize("which", ["one", "all"])
def test_a_structure_that_cannot_be_built_fails_alone(which: str, study: Bench) -> None:
    healthy, broken = TRIALS[2], spec(1, kind="python", hidden=13, name="adafactor", **FIXED)
    trials = [broken] if which == "all" else [broken, healthy]
    work = study.work(trials, switched=True, **HOW)

    outcome = study.trainer.train(work, "here", None)

    assert [lane.number for lane in outcome.lanes] == [trial.number for trial in trials]
    failures = [lane.failure for lane in outcome.lanes]
    assert isinstance(failures[0], Failure) and failures[0].error_type == "ValueError"
    assert failures[1:] == [None] * (len(trials) - 1)
    for lane in outcome.lanes[1:]:
        own = study.curves([healthy], **HOW)[healthy.number]
        assert lane.curve.values.tobytes() == own.tobytes()


def test_packed_values_can_be_unpacked() -> None:
    trees = (
        {"a": np.arange(6.0).reshape(2, 3), "b": np.array(7, np.int32)},
        {"c": [np.arange(2.0), np.array(3.5)], "d": np.arange(3, dtype=np.int32)},
        {"e": np.array([True])},
    )
    packing = Packing(trees)

    for which, tree in enumerate(trees):
        packed = packing.pack(tree)
        assert {name: vector.shape for name, vector in packed.items()} == {
            name: leaf.shape for name, leaf in packing.abstract.items()
        }
        found = packing.unpack(packed, which)
        assert jax.tree.structure(found) == jax.tree.structure(tree)
        assert jax.tree.all(jax.tree.map(np.array_equal, found, tree))
        assert jax.tree.map(lambda leaf: leaf.dtype, found) == jax.tree.map(
            lambda leaf: leaf.dtype, tree
        )
    lengths: Mapping[str, int] = {name: len(leaf) for name, leaf in packed.items()}
    assert lengths == {"float64": 6, "int32": 3, "bool": 1}
