"""The study of residual networks, which shows how to use a user-defined model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import sweeper
from sweeper.api import plan
from sweeper.config.user_code import load_function

STUDIES = Path(__file__).parents[2] / "studies"
STUDY = STUDIES / "residual.toml"
# one structure of the space, because each must be compiled
SHORT = (
    "study.n_trials=2",
    "study.pruner={name='none'}",
    "search.model.blocks={type='categorical', choices=[1]}",
    "search.model.channels={type='categorical', choices=[8]}",
    "search.optimizer.lr={type='float', low=5e-3, high=1e-2}",
    "train.epochs=3",
    "schedule.round_epochs=3",
    "execution.threads=1",
    "execution.workers=0",
    "results.keep_models=1",
)


def test_its_convolution_equals_that_of_equinox() -> None:
    convolution: Any = load_function("residual_net:Convolution", STUDIES)
    with jax.enable_x64(True):
        image = jax.random.normal(jax.random.key(0), (3, 8, 8))
        ours = convolution(3, 5, jax.random.key(1))

        expected, found = jax.jit(lambda image: (ours.layer(image), ours(image)))(image)

        assert expected.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_its_plan_shares_programs_by_structure_and_pads_none() -> None:
    preview = plan(sweeper.load_study(STUDY)).as_dict()

    assert preview["structures_in_space"] == 6
    assert {program["strategy"] for program in preview["first_round"]["classes"]} == {"exact"}
    assert "similar ones do not" in preview["notes"][0]


@pytest.mark.slow
def test_its_trials_learn_and_their_models_are_plain_equinox(tmp_path: Path) -> None:
    config = sweeper.load_study(STUDY, [f"results.dir={tmp_path / 'run'}", *SHORT])

    sweeper.run(config)

    trials = sweeper.open_results(config.run_dir).trials()
    assert trials["class_id"].nunique() == 1
    assert (trials["value"] > 0.9).all()
    best = trials.loc[trials["value"].idxmax()]
    build: Any = load_function("residual_net:build", STUDIES)
    like = build(64, 10, jax.random.key(0), channels=8, blocks=1)
    kept = eqx.tree_deserialise_leaves(config.run_dir / best["model_path"], like)
    leaves = jax.tree.leaves(eqx.filter(kept, eqx.is_array))
    assert sum(leaf.size for leaf in leaves) == best["n_parameters"]
