"""Modules that give different results each time they are imported are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.data.prepare import prepare
from sweeper.errors import StudyError
from sweeper.preflight.user_functions import check_training
from tests.preflight.test_check_model import STUDY

pytestmark = pytest.mark.usefixtures("float64")

NETS = """\
import random, time, uuid

import equinox as eqx, jax, jax.numpy as jnp, numpy as np, optax

SEED = time.time_ns() % 1000
SEEDED = np.random.default_rng(0).random(3)
DRAWN = np.random.random(3)
RUN_ID = uuid.uuid4()


class Net(eqx.Module):
    layer: eqx.nn.Linear
    DRAWN = random.random()

    def __call__(self, x):
        return self.layer(x){scaled}


def build(in_size, out_size, key, default=np.random.random(3)):
    net = Net(eqx.nn.Linear(in_size, out_size, key={key}))
    return eqx.tree_at(lambda net: net.layer.bias, net, jnp.asarray({bias}, jnp.float32))


def noisy(outputs, y):
    return jnp.mean(outputs) + {metric}
"""
PLAIN = {"scaled": "", "key": "key", "bias": "SEEDED", "metric": "SEEDED[0]"}
OTHERS = {
    "an array in the model's call": {"scaled": " * DRAWN"},
    "a class attribute": {"scaled": " * self.DRAWN"},
    "a seed": {"key": "jax.random.fold_in(key, SEED)"},
    "initial weights": {"bias": "DRAWN"},
    "a default argument": {"bias": "default"},
    "a metric": {"metric": "DRAWN[0]"},
}


def check(tmp_path: Path, **code: str) -> None:
    (tmp_path / "drawn_nets.py").write_text(NETS.format(**PLAIN | code), encoding="utf-8")
    model = "model={kind='python',function='drawn_nets:build'}"
    own = (model, "train.metrics=['drawn_nets:noisy']", "search={}")
    config = parse(STUDY, tmp_path / "study.toml", own)
    check_training(config, prepare(config))


def test_a_module_may_draw_with_a_fixed_seed_and_hold_what_training_does_not_use(
    tmp_path: Path,
) -> None:
    check(tmp_path)


@pytest.mark.parametrize("case", OTHERS)
def test_a_module_that_draws_when_it_is_imported_is_refused(case: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="'drawn_nets' gives different results each time"):
        check(tmp_path, **OTHERS[case])


@pytest.mark.parametrize(
    ("model", "key", "choices"),
    [
        ("{kind='mlp',depth=1,width=4}", "kind", "['mlp','tabm']"),
        ("{kind='mlp',depth=1,width=4,numbers='ple',n_bins=12}", "n_bins", "[3,5]"),
        ("{kind='mlp',depth=1,width=4,numbers='ple',bins='quantile'}", "bins", "['tree']"),
        ("{kind='mlp',depth=1,width=4,numbers='ple'}", "numbers", "['linear','plr']"),
    ],
)
def test_values_that_no_trial_has_are_not_traced(
    model: str, key: str, choices: str, tmp_path: Path
) -> None:
    (tmp_path / "drawn_nets.py").write_text(NETS.format(**PLAIN), encoding="utf-8")
    searched = f"search.model.{key}={{type='categorical',choices={choices}}}"
    own = (f"model={model}", "train.metrics=['drawn_nets:noisy']", "search={}", searched)
    config = parse(STUDY, tmp_path / "study.toml", own)
    check_training(config, prepare(config))
