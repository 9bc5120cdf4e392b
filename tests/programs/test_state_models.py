"""Models with layers that have a state train as in plain Equinox and Optax."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from sweeper.config import parse
from sweeper.config.user_code import load_function
from sweeper.data.order import epoch_order
from sweeper.executors.executor import Outcome
from sweeper.models.keys import key_of
from sweeper.preflight.traced_arguments import decide_traced_arguments
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import Batch, State, judged_state
from sweeper.trial import TrialSpec, words
from tests.programs.conftest import STUDY, Bench, spec
from tests.programs.plain import compiled_hastily
from tests.small_studies import bent

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps

NETS = """\
import equinox as eqx
import jax
import jax.numpy as jnp


class Normed(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout
    last: eqx.nn.SpectralNorm

    def __init__(self, in_size, out_size, *, mode, rate, key):
        first, last, drawn = jax.random.split(key, 3)
        # BatchNorm cancels a bias, whose gradients would only be rounding errors
        self.first = eqx.nn.Linear(in_size, 8, use_bias=False, key=first)
        self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode=mode, momentum=0.9)
        self.dropout = eqx.nn.Dropout(rate)
        linear = eqx.nn.Linear(8, out_size, key=last)
        self.last = eqx.nn.SpectralNorm(linear, "weight", key=drawn)

    def __call__(self, x, state, *, key=None):
        x, state = self.norm(self.first(x), state)
        return self.last(self.dropout(jax.nn.relu(x), key=key), state)


def normed(in_size, out_size, *, mode, rate, key):
    return eqx.nn.make_with_state(Normed)(in_size, out_size, mode=mode, rate=rate, key=key)
"""
NORMED = bent(
    STUDY,
    "model={kind='python',function='stateful_nets:normed',mode='batch',rate=0.25}",
    "search.model={mode={type='categorical',choices=['batch','ema']}}",
    "train.ema=0.5",
    "study.value=best",
    "study.metric=val_loss",
    "study.direction=maximize",  # so that the best epoch is an early one
)
RATES = {"lr": 1e-3, "weight_decay": 0.3}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "stateful_nets.py").write_text(NETS, encoding="utf-8")
    return Bench(parse(NORMED, tmp_path / "study.toml"), tmp_path)


@compiled_hastily()
def plain(bench: Bench, trial: TrialSpec) -> tuple[np.ndarray, list[Any]]:
    """The trial as Equinox documents it: its curve, and its model with its state by epoch."""
    config, data = bench.config, bench.data
    settings: Any = config.settings_of(trial.params)
    program: Any = Programs(data_spec(config, data)).exact(settings)
    both = jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf,
        program.saver.model(program.layout.init(trial.number, settings)),
    )
    model, state = both.model, both.state
    parameters = eqx.filter(model, eqx.is_inexact_array)
    mask = eqx.tree_at(
        lambda net: (net.first.weight, net.last.layer.weight),
        jax.tree.map(lambda _: False, parameters),
        (True, True),
    )
    optimizer = optax.adamw(
        settings.optimizer.lr, weight_decay=settings.optimizer.weight_decay, mask=lambda _: mask
    )
    losses = optax.softmax_cross_entropy_with_integer_labels

    @eqx.filter_jit
    def step(model, state, opt_state, x, y, key):
        @eqx.filter_value_and_grad(has_aux=True)
        def loss(model, state):
            batch = jax.vmap(
                lambda x, state, key: model(x, state, key=key),
                axis_name="batch",
                in_axes=(0, None, 0),
                out_axes=(0, None),
            )
            outputs, state = batch(x, state, jax.random.split(key, len(x)))
            return losses(outputs, y).mean(), state

        (value, state), gradients = loss(model, state)
        arrays = eqx.filter(model, eqx.is_inexact_array)
        updates, opt_state = optimizer.update(gradients, opt_state, arrays)
        return eqx.apply_updates(model, updates), state, opt_state, value

    opt_state, average, decay = optimizer.init(parameters), model, settings.train.ema
    drawn = words(config.study.seed, "dropout", trial.number, 0)[:2]
    lane_key = jax.random.wrap_key_data(jnp.asarray(drawn))
    order = epoch_order(config.study.seed, 0, settings.train.epochs, len(data.x_train), 64)
    rows, models, count = [], [], 0
    for epoch in order:
        seen = []
        for batch in epoch:
            key = jax.random.fold_in(lane_key, count)
            told = data.x_train[batch], data.y_train[batch], key
            model, state, opt_state, value = step(model, state, opt_state, *told)
            average = jax.tree.map(
                lambda old, new: decay * old + (1 - decay) * new if eqx.is_array(new) else new,
                average,
                model,
            )
            seen.append(float(value))
            count += 1
        ready = eqx.nn.inference_mode(average)
        outputs, _ = jax.vmap(ready, in_axes=(0, None))(jnp.asarray(data.x_val), state)
        score = jnp.mean(jnp.argmax(outputs, 1) == data.y_val, dtype=jnp.float64)
        rows.append((np.mean(seen), float(losses(outputs, data.y_val).mean()), float(score)))
        models.append((average, state))
    return np.array(rows), models


@dataclass(frozen=True)
class Trained:
    """A trial before its last epoch: its curve, all of its state, and the model that is judged."""

    curve: NDArray[np.float64]
    state: State
    model: Any


def trained(bench: Bench, trial: TrialSpec, outcome: Outcome) -> Trained:
    """What `outcome` has of a trial."""
    settings = bench.config.settings_of(trial.params)
    program = Programs(data_spec(bench.config, bench.data)).exact(settings)
    lane = next(one for one in outcome.lanes if one.number == trial.number)
    file = LaneFile(bench.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
    state = file.lane(trial.number, program.layout.abstract())
    return Trained(lane.curve.values, state, program.saver.model(judged_state(state)))


def assert_close(found: Any, expected: Any) -> None:
    """The arrays of two trees are equal up to rounding."""
    trees = (eqx.filter(tree, eqx.is_array_like) for tree in (found, expected))
    for one, other in zip(*map(jax.tree.leaves, trees), strict=True):
        np.testing.assert_allclose(one, other, rtol=RELATIVE, atol=1e-12)


# each program is compiled for the first test that uses it
IN_WAYS = pytest.mark.parametrize(
    ("lane_loop", "mode"),
    [("map", "batch"), pytest.param("vmap", "ema", marks=pytest.mark.slow)],
)


@IN_WAYS
def test_a_lane_equals_the_trial_in_plain_equinox(lane_loop: str, mode: str, bench: Bench) -> None:
    trial, other = spec(5, mode=mode, **RATES), spec(1, mode=mode, lr=2e-3, weight_decay=0.3)

    found = trained(bench, trial, bench.train([other, trial], lane_loop=lane_loop, epochs=(0, 5)))

    rows, models = plain(bench, trial)
    rows, models = rows[:5], models[:5]
    np.testing.assert_allclose(found.curve, rows, rtol=RELATIVE)
    best = int(np.argmax(rows[:, 1]))
    assert best + 1 < len(rows), "else the last state could be mistaken for that of the best"
    assert_close((found.model.model, found.model.state), models[best])
    assert_close(found.state.untrained, models[-1][1])


@IN_WAYS
def test_a_resumed_lane_equals_an_unbroken_one(lane_loop: str, mode: str, bench: Bench) -> None:
    trials = [spec(n, mode=mode, **RATES) for n in (1, 5)]

    def of(outcome: Outcome) -> Trained:
        return trained(bench, trials[1], outcome)

    one = of(bench.train(trials, lane_loop=lane_loop, epochs=(0, 5)))
    half = bench.train(trials, lane_loop=lane_loop, epochs=(0, 2))
    # the lane of the first trial is empty from here on
    other = of(bench.train(trials[1:], lane_loop=lane_loop, epochs=(2, 5), after=half))

    assert one.curve[2:].tobytes() == other.curve.tobytes()
    assert eqx.tree_equal(one.state, other.state)


@pytest.mark.slow
def test_lanes_with_their_own_floats_equal_those_of_a_program_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "stateful_nets.py").write_text(NETS, encoding="utf-8")
    rates = "search.model={rate={type='float',low=0.1,high=0.5}}"
    config, _ = decide_traced_arguments(
        parse(NORMED, tmp_path / "study.toml", [rates]), 64, 10, lambda: 0.0
    )
    assert config.traced_arguments == ("model.rate",)
    bench = Bench(config, tmp_path)
    exact = Bench(config.with_traced_arguments([]), tmp_path)
    trials = [spec(n, rate=rate, **RATES) for n, rate in enumerate((0.1, 0.4))]

    curves = bench.curves(trials, lane_loop="vmap")

    for trial in trials:
        (own,) = exact.curves([trial], lane_loop="map", capacity=1).values()
        np.testing.assert_allclose(curves[trial.number], own, rtol=RELATIVE)


@pytest.mark.slow
def test_branches_of_one_program_may_have_different_states(bench: Bench) -> None:
    trials = [spec(n, mode=mode, **RATES) for n, mode in enumerate(("batch", "ema"))]

    curves = bench.curves(trials, switched=True)

    for trial in trials:
        (own,) = bench.curves([trial]).values()
        np.testing.assert_allclose(curves[trial.number], own, rtol=RELATIVE)


def test_a_trial_starts_with_the_state_of_its_own_weights(bench: Bench) -> None:
    """SpectralNorm draws its first vectors, and iterates them with the weights."""
    settings = bench.config.settings_of(spec(0, mode="batch", **RATES).params)
    network: Any
    (network,) = Programs(data_spec(bench.config, bench.data)).networks(settings).values()

    parameters = network.initial(settings, np.random.default_rng(1))
    state = network.initial_state(settings, np.random.default_rng(1))

    key = key_of(np.random.default_rng(1).integers(0, 2**32, 2, np.uint32))
    build: Any = load_function("stateful_nets:normed", bench.config.base_dir)
    model, expected = build(64, 10, mode="batch", rate=0.25, key=key)
    assert_close(network.model(parameters).model, model)
    assert_close([*state.values()], expected)


def test_weights_of_rows_do_not_change_the_statistics(bench: Bench) -> None:
    settings = bench.config.settings_of(spec(0, mode="batch", **RATES).params)
    program = Programs(data_spec(bench.config, bench.data)).exact(settings)
    x, y, lane = bench.data.x_train[:64], bench.data.y_train[:64], program.layout.lane(0, settings)
    begun = program.begin(program.layout.init(0, settings), lane)

    @jax.jit
    def after(weights: Any) -> State:
        return program.step(begun, Batch(x, y, weights=weights), lane, jnp.zeros((), jnp.int32))[0]

    even, odd = after(jnp.ones(64)), after(jnp.arange(64.0) % 2)
    assert not eqx.tree_equal(even.model, odd.model)
    assert eqx.tree_equal(even.untrained, odd.untrained)


def test_its_state_is_neither_counted_nor_decayed(bench: Bench) -> None:
    settings = bench.config.settings_of(spec(0, mode="batch", **RATES).params)
    (network,) = Programs(data_spec(bench.config, bench.data)).networks(settings).values()

    assert network.vector.n_parameters == 64 * 8 + 2 * 8 + 8 * 10 + 10
    assert [*np.flatnonzero(network.vector.decayed({}))] == [*range(64 * 8 + 8 * 10)]
