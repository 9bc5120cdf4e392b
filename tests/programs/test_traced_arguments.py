"""Trials that differ in a float of a user-defined model share a program, and train as alone."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from sweeper.config import parse
from sweeper.config.user_code import load_function
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.trial import TrialSpec, generator
from tests.programs.conftest import STUDY, Bench, spec
from tests.programs.plain import accuracy, cross_entropy, train, weights_only
from tests.small_studies import bent

RELATIVE = 1e-9  # float64; the orders of summation differ

NETS = """\
import equinox as eqx
import jax
import jax.numpy as jnp


class Net(eqx.Module):
    layers: list
    slope: float
    alpha: jax.Array
    activation: object
    places: jax.Array

    def __init__(self, in_size, out_size, *, slope, scale, key):
        first, second = jax.random.split(key)
        hidden = eqx.nn.Linear(in_size, 8, key=first)
        hidden = eqx.tree_at(lambda one: one.weight, hidden, hidden.weight * scale)
        self.layers = [hidden, eqx.nn.Linear(8, out_size, key=second)]
        self.slope = 2 * slope
        self.alpha = jnp.asarray(slope)
        self.activation = lambda x: jax.nn.elu(x, scale)
        self.places = jnp.arange(in_size)[::-1]

    def __call__(self, x):
        x = self.activation(self.layers[0](x[self.places]))
        x = jnp.where(x > 0, x, self.alpha * x)
        return self.layers[1](jax.nn.leaky_relu(x, self.slope))
"""
NETS_STUDY = bent(
    STUDY,
    "model={kind='python',function='nets:Net'}",
    "train.epochs=2",
    "search.model={slope={type='float',low=0.01,high=0.5},scale={type='float',low=0.5,high=2.0}}",
)
ARGUMENTS = "model.slope", "model.scale"
TRIALS = [
    spec(0, slope=0.05, scale=0.75, lr=1e-3, weight_decay=0.1),
    spec(1, slope=0.4, scale=1.5, lr=5e-4, weight_decay=0.0),
]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    config = parse(NETS_STUDY, tmp_path / "study.toml").with_traced_arguments(ARGUMENTS)
    return Bench(config, tmp_path)


def plain_curve(bench: Bench, trial: TrialSpec) -> NDArray[np.float64]:
    """The curve of a trial in plain Equinox and Optax, whose model has Python floats."""
    config, params = bench.config, trial.params
    rng = generator(config.study.seed, "weights", trial.number, 0)
    key = jax.random.wrap_key_data(rng.integers(0, 2**32, 2, np.uint32))
    build = load_function("nets:Net", config.base_dir)
    net = build(64, 10, slope=params["slope"], scale=params["scale"], key=key)
    rates = {"learning_rate": params["lr"], "weight_decay": params["weight_decay"]}
    optimizer = optax.adamw(**rates, mask=lambda _: weights_only(net))
    found = train(bench, trial, optimizer, cross_entropy, scores=[accuracy], net=net)
    assert found.nets[-1].slope == 2 * params["slope"]
    return found.rows


@pytest.mark.parametrize("lane_loop", [pytest.param("map", marks=pytest.mark.slow), "vmap"])
def test_lanes_equal_trials_with_python_floats_in_plain_equinox(
    lane_loop: str, bench: Bench
) -> None:
    curves = bench.curves(TRIALS, lane_loop=lane_loop)

    for trial in TRIALS:
        np.testing.assert_allclose(curves[trial.number], plain_curve(bench, trial), rtol=RELATIVE)


def test_a_saved_model_has_python_floats(bench: Bench) -> None:
    settings = bench.config.settings_of(TRIALS[0].params)
    program = Programs(data_spec(bench.config, bench.data)).exact(settings)

    model = program.saver.model(program.layout.init(0, settings))

    assert model.slope == 0.1
    assert type(model.slope) is float
    assert model.layers[0].weight.shape == (8, 64)
