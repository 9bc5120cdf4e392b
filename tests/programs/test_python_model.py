"""A user-defined model trains as in plain Equinox and Optax."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from sweeper.config import StudyConfig, parse
from sweeper.config.user_code import load_function
from sweeper.data.order import epoch_order
from sweeper.models.decay import Decay
from sweeper.models.user_network import UserNetwork, each_of
from sweeper.preflight.user_functions import check_training
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.scheduler.signature import Structures
from sweeper.trial import TrialSpec, words
from tests.in_process import prepared
from tests.programs.conftest import STUDY, Bench, spec
from tests.programs.plain import compiled_hastily
from tests.small_studies import bent

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps

NETS = """\
import equinox as eqx
import jax
import jax.numpy as jnp


class Head(eqx.Module):
    linear: eqx.nn.Linear
    norm: eqx.nn.LayerNorm


class Cnn(eqx.Module):
    scale: jax.Array
    convolution: eqx.nn.Conv2d
    places: jax.Array
    head: Head
    dropout: eqx.nn.Dropout
    activation: object
    side: int

    def __init__(self, in_size, out_size, *, channels, rate, key):
        first, second = jax.random.split(key)
        self.side = int(in_size**0.5)
        self.scale = jnp.ones(())
        self.convolution = eqx.nn.Conv2d(1, channels, 3, key=first)
        self.places = jnp.arange(in_size)[::-1]
        units = channels * (self.side - 2) ** 2
        self.head = Head(eqx.nn.Linear(units, out_size, key=second), eqx.nn.LayerNorm(units))
        self.dropout = eqx.nn.Dropout(rate)
        self.activation = jax.nn.gelu

    def __call__(self, x, *, key=None):
        x = self.scale * x[self.places].reshape(1, self.side, self.side)
        x = self.head.norm(self.activation(self.convolution(x)).ravel())
        return self.head.linear(self.dropout(x, key=key))


def keyless(in_size, out_size, *, key, bias=True):
    return eqx.nn.Lambda(lambda x: x[:out_size]) if bias is None else Plain(in_size, out_size, key)


class Masked(eqx.Module):
    scores: jax.Array
    chance: jax.Array
    linear: eqx.nn.Linear

    def __init__(self, in_size, out_size, key):
        first, second, third = jax.random.split(key, 3)
        self.scores = jax.random.uniform(first, in_size)
        self.chance = jax.random.uniform(second, in_size)
        self.linear = eqx.nn.Linear(in_size, out_size, key=third)

    def __call__(self, x):
        scores, chance = map(jax.lax.stop_gradient, (self.scores, self.chance))
        return self.linear(jnp.where(chance < 0.5, x[jnp.argsort(scores)], 0))


class Plain(eqx.Module):
    linear: eqx.nn.Linear

    def __init__(self, in_size, out_size, key):
        self.linear = eqx.nn.Linear(in_size, out_size, key=key)

    def __call__(self, x):
        return self.linear(x)
"""
CNNS = bent(
    STUDY,
    "model={kind='python',function='nets:Cnn',channels=3,rate=0.25}",
    "search.model={channels={type='categorical',choices=[2,3]}}",
)
RATES = {"lr": 1e-3, "weight_decay": 0.3}
TRIAL = spec(5, channels=3, **RATES)


def study(directory: Path, *overrides: str) -> StudyConfig:
    """A study of CNNs on the digits, with its module next to it."""
    (directory / "nets.py").write_text(NETS, encoding="utf-8")
    return parse(CNNS, directory / "study.toml", overrides)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(study(tmp_path), tmp_path)


@compiled_hastily()
def plain_curve(
    bench: Bench,
    trial: TrialSpec,
    decayed: Callable[[Any], Any] = lambda net: (net.convolution.weight, net.head.linear.weight),
) -> NDArray[np.float64]:
    """The trial in plain Equinox and Optax: same initial weights, same data, same order.

    `decayed` returns the arrays of the network that decay.
    """
    config, data = bench.config, bench.data
    settings = config.settings_of(trial.params)
    program = Programs(data_spec(config, data)).exact(settings)
    net = jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf,
        program.saver.model(program.layout.init(trial.number, settings)),
    )
    parameters = eqx.filter(net, eqx.is_inexact_array)
    undecayed = jax.tree.map(lambda _: False, parameters)
    mask = eqx.tree_at(decayed, undecayed, replace_fn=lambda _: True)
    optimizer = optax.adamw(
        settings.optimizer.lr, weight_decay=settings.optimizer.weight_decay, mask=lambda _: mask
    )
    losses = optax.softmax_cross_entropy_with_integer_labels

    @eqx.filter_jit
    def step(net, state, x, y, key):
        def loss(net):
            keys = jax.random.split(key, len(x))
            return losses(jax.vmap(lambda x, key: net(x, key=key))(x, keys), y).mean()

        value, gradients = eqx.filter_value_and_grad(loss)(net)
        updates, state = optimizer.update(gradients, state, eqx.filter(net, eqx.is_inexact_array))
        return eqx.apply_updates(net, updates), state, value

    state = optimizer.init(parameters)
    lane_key = jax.random.wrap_key_data(words(config.study.seed, "dropout", trial.number, 0)[:2])
    order = epoch_order(config.study.seed, 0, config.train.epochs, len(data.x_train), 64)
    rows, count = [], 0
    for epoch in order:
        seen = []
        for batch in epoch:
            key = jax.random.fold_in(lane_key, count)
            net, state, value = step(net, state, data.x_train[batch], data.y_train[batch], key)
            seen.append(float(value))
            count += 1
        outputs = jax.vmap(eqx.nn.inference_mode(net))(jnp.asarray(data.x_val))
        score = jnp.mean(jnp.argmax(outputs, 1) == data.y_val, dtype=jnp.float64)
        rows.append((np.mean(seen), float(losses(outputs, data.y_val).mean()), float(score)))
    return np.array(rows)


@pytest.mark.parametrize("lane_loop", [pytest.param("map", marks=pytest.mark.slow), "vmap"])
def test_a_lane_equals_the_trial_in_plain_equinox(lane_loop: str, bench: Bench) -> None:
    companion = spec(1, **{**TRIAL.params, "lr": 2e-3})

    curve = bench.curves([companion, TRIAL], lane_loop=lane_loop)[TRIAL.number]

    np.testing.assert_allclose(curve, plain_curve(bench, TRIAL), rtol=RELATIVE)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param("'nets:Head'={norm=true}", marks=pytest.mark.slow),
        "where=[{class='nets:Head',leaf='norm',decay=true}]",
    ],
)
def test_a_decay_rule_for_a_user_defined_class_equals_a_mask_in_plain_optax(
    rules: str, tmp_path: Path
) -> None:
    config = study(tmp_path, f"optimizer.decay={{other=false,{rules}}}")
    bench = Bench(config, tmp_path)
    check_training(config, bench.data)

    curve = bench.curves([TRIAL])[TRIAL.number]

    plain = plain_curve(bench, TRIAL, lambda net: (net.head.norm.weight, net.head.norm.bias))
    np.testing.assert_allclose(curve, plain, rtol=RELATIVE)


@pytest.mark.slow
def test_lanes_of_any_dropout_equal_trials_in_plain_equinox(tmp_path: Path) -> None:
    rates = "search.model={rate={type='float',low=0.0,high=0.5}}"
    config = study(tmp_path, rates, "model.channels=2").with_traced_arguments(["model.rate"])
    bench = Bench(config, tmp_path)
    trials = [spec(n, rate=rate, **RATES) for n, rate in enumerate((0.0, 0.2, 0.5))]

    curves = bench.curves(trials, lane_loop="vmap")

    for trial in trials:
        np.testing.assert_allclose(curves[trial.number], plain_curve(bench, trial), rtol=RELATIVE)


@pytest.mark.slow
def test_a_map_lane_equals_the_trial_alone_bit_for_bit(bench: Bench) -> None:
    companion = spec(1, **{**TRIAL.params, "lr": 2e-3})

    together = bench.curves([companion, TRIAL])[TRIAL.number]
    alone = bench.curves([TRIAL], capacity=1)[TRIAL.number]

    assert together.tobytes() == alone.tobytes()


def network(config: StudyConfig, **arguments: object) -> UserNetwork:
    filled = {**config.settings_of({}).model.arguments, **arguments}
    return UserNetwork("nets:Cnn", config.base_dir, tuple(filled.items()), 64, 10, "float64")


def test_weights_of_layers_come_first_in_the_vector(tmp_path: Path) -> None:
    config = study(tmp_path)
    cnn = network(config)

    vector = cnn.initial(config.settings_of({}), np.random.default_rng(0))
    model = cnn.model(vector)

    weights = 3 * 9 + 108 * 10
    others = [model.scale.reshape(1), model.convolution.bias, model.head.linear.bias]
    norm = [model.head.norm.weight, model.head.norm.bias]
    assert cnn.vector.n_parameters == weights + 1 + 3 + 10 + 2 * 108
    assert [*np.flatnonzero(cnn.vector.decayed({}))] == [*range(weights)]
    first = [model.convolution.weight.ravel(), model.head.linear.weight.ravel()]
    assert np.concatenate(first).tobytes() == vector[:weights].tobytes()
    rest = np.sort(np.concatenate([leaf.ravel() for leaf in [*others, *norm]]))
    assert rest.tobytes() == np.sort(vector[weights:]).tobytes()


def test_decay_rules_apply_to_its_arrays(tmp_path: Path) -> None:
    rules = "{other=false,linear=true,'nets:Head'={norm=0.5},where=[{ndim=3,decay=0.25}]}"
    config = study(tmp_path, f"optimizer.decay={rules}")
    settings = config.settings_of({})
    cnn = Programs(data_spec(config, prepared(config))).networks(settings)[""]

    shares = cnn.model(np.asarray(cnn.vector.decayed({}), np.float64))

    assert cnn.decay == Decay.of(settings.optimizer.decay, tmp_path)
    assert {
        jax.tree_util.keystr(path): {*np.unique(leaf)}
        for path, leaf in jax.tree_util.tree_leaves_with_path(
            eqx.filter(shares, lambda leaf: isinstance(leaf, np.ndarray) and leaf.dtype == float)
        )
    } == {
        ".scale": {0.0},
        ".convolution.weight": {0.0},
        ".convolution.bias": {0.25},
        ".head.linear.weight": {1.0},
        ".head.linear.bias": {1.0},
        ".head.norm.weight": {0.5},
        ".head.norm.bias": {0.5},
    }


def test_values_that_are_not_trained_stay_as_built(tmp_path: Path) -> None:
    config = study(tmp_path)
    cnn = network(config)

    model = cnn.model(cnn.initial(config.settings_of({}), np.random.default_rng(0)))

    assert np.asarray(model.places).tolist() == list(range(64))[::-1]
    assert (model.activation, model.side, model.dropout.p) == (jax.nn.gelu, 8, 0.25)
    assert cnn.initial(config.settings_of({}), np.random.default_rng(1)).dtype == np.float64


def test_each_trial_begins_with_different_weights(tmp_path: Path) -> None:
    config = study(tmp_path)
    cnn, settings = network(config), config.settings_of({})

    one, again, other = (cnn.initial(settings, np.random.default_rng(n)) for n in (0, 0, 1))

    assert one.tobytes() == again.tobytes() != other.tobytes()
    bound = 1 / np.sqrt(9)
    assert (np.abs(one[:27]) <= bound).all() and np.abs(one[:27]).max() > bound / 2


def test_floats_that_only_select_differ_between_trials_and_are_not_trained(tmp_path: Path) -> None:
    settings = study(tmp_path).settings_of({})
    masked = UserNetwork("nets:Masked", tmp_path, (), 64, 10, "float64")
    one, other = (masked.initial(settings, np.random.default_rng(n)) for n in (0, 1))
    x = np.random.default_rng(0).normal(size=(8, 64))

    gradient = jax.grad(lambda vector: jnp.sum(masked.outputs(vector, x, {})[0] ** 2))(one)

    own = masked.model(one)
    assert own.scores.tobytes() != masked.model(other).scores.tobytes()
    slopes = masked.model(gradient)
    assert not np.any(slopes.scores) and not np.any(slopes.chance)
    assert np.any(slopes.linear.weight)


def test_a_model_without_a_key_is_called_without_one(tmp_path: Path) -> None:
    config = study(tmp_path, "model={kind='python',function='nets:keyless'}", "search={}")
    bench = Bench(config, tmp_path)

    assert not UserNetwork("nets:keyless", tmp_path, (), 64, 10, "float64").needs_keys
    assert np.isfinite(bench.curves([spec(0)])[0]).all()


def test_each_combination_of_its_keys_is_a_structure_and_has_no_family(tmp_path: Path) -> None:
    config = study(tmp_path)
    spec_ = data_spec(config, Bench(config, tmp_path).data)
    structure_of = Structures(
        lambda s: config.settings_of(s.params), Programs(spec_).n_parameters, {}
    )

    two, three, again = (
        structure_of(spec(n, channels=channels, lr=10.0**-n, weight_decay=0.0))
        for n, channels in enumerate([2, 3, 3])
    )

    assert config.n_structures == 2
    assert three == again != two
    assert (two.n_parameters, three.family, three.kind) == (
        1 + 2 * 10 + 72 * 12 + 10,
        None,
        "python",
    )


def test_a_function_that_raises_fails_only_its_trial(tmp_path: Path) -> None:
    bench = Bench(study(tmp_path), tmp_path)
    bad = spec(0, channels=-1, lr=1e-3, weight_decay=0.0)

    outcome = bench.trainer.train(bench.work([bad]), "here", None)

    settings = bench.config.settings_of(bad.params)
    assert Programs(data_spec(bench.config, bench.data)).n_parameters(settings) == 0
    (lane,) = outcome.lanes
    assert lane.failure is not None and lane.failure.reason == "error"


def test_each_of_two_studies_uses_the_module_next_to_it(tmp_path: Path) -> None:
    before = list(sys.path)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_name.py").write_text(f"def build():\n    return {name!r}\n")

    loaded = [load_function("same_name:build", tmp_path / name)() for name in ("one", "other")]

    assert loaded == ["one", "other"]
    assert sys.path == before


def test_a_module_that_hides_one_of_python_is_only_used_by_the_study(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("def build():\n    return 'mine'\n")

    assert load_function("random:build", tmp_path)() == "mine"
    assert sys.modules["random"] is random


def test_a_module_that_is_not_next_to_the_study_can_be_installed(tmp_path: Path) -> None:
    assert load_function("equinox.nn:MLP", tmp_path) is eqx.nn.MLP


def test_models_that_differ_in_their_arrays_alone_share_what_is_compiled() -> None:
    traced = []

    class Scaled(eqx.Module):
        weights: jax.Array
        by: int | float
        note: object

        def __call__(self, x: jax.Array) -> jax.Array:
            traced.append(self.by)
            return x.astype(int) * self.by @ self.weights

    x, shared = np.arange(6.0).reshape(3, 2), {}
    settings = [(by, note) for note in ("", bytearray()) for by in (2, 2.0)]
    models = [
        Scaled(jnp.array(weights), *others) for others in settings for weights in ([1, 2], [3, 4])
    ]
    outputs = [np.asarray(each_of(model, shared)(x)) for model in models]

    assert traced == [2, 2.0, 2, 2, 2.0, 2.0]  # a bytearray cannot be hashed
    assert [type(by) for by in traced] == [int, float, int, int, float, float]
    for model, found in zip(models, outputs, strict=True):
        expected = np.asarray(jax.vmap(model)(x))
        assert (found == expected).all() and found.dtype == expected.dtype
