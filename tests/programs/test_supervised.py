"""`supervised` equals plain Equinox and Optax, whatever else trains next to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from sweeper.data.order import epoch_order
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.trial import TrialSpec, words
from tests.programs.conftest import Bench, spec
from tests.programs.plain import both_arrays, compiled_hastily, empty_linear

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps


@compiled_hastily()
def plain_curve(bench: Bench, trial: TrialSpec, replicate: int = 0) -> NDArray[np.float64]:
    """The trial in plain Equinox and Optax: same initial weights, same data, same order."""
    config, data = bench.config, bench.data
    settings = config.settings_of(trial.params)
    table, dropout = settings.model, settings.model.dropout
    program = Programs(data_spec(config, data)).exact(settings)
    start = program.saver.model(program.layout.init(trial.number, settings, replicate))
    weights = [(layer.weight, layer.bias) for layer in start.layers]
    is_regression = settings.train.loss == "mse"

    class Net(eqx.Module):
        linears: list[eqx.nn.Linear]
        norms: list[eqx.nn.LayerNorm]

        def __call__(self, x, key):
            for i, linear in enumerate(self.linears[:-1]):
                x = linear(x)
                if self.norms:
                    x = self.norms[i](x)
                x = {"relu": jax.nn.relu, "tanh": jnp.tanh}[table.activation](x)
                if key is not None and dropout > 0:
                    kept = jax.random.uniform(jax.random.fold_in(key, i), x.shape) >= dropout
                    x = jnp.where(kept, x / (1 - dropout), 0)
            return self.linears[-1](x)

    def linear(weight, bias):
        leaves = jnp.asarray(weight), jnp.asarray(bias)
        return eqx.tree_at(both_arrays, empty_linear(*weight.shape[::-1]), leaves)

    norms = [eqx.nn.LayerNorm(table.width) for _ in range(table.depth * table.layer_norm)]
    net = Net([linear(*pair) for pair in weights], norms)
    if settings.optimizer.name == "adamw":
        mask = jax.tree.map(lambda leaf: leaf.ndim == 2, eqx.filter(net, eqx.is_inexact_array))
        optimizer = optax.adamw(
            settings.optimizer.lr,
            b1=settings.optimizer.b1,
            b2=settings.optimizer.b2,
            eps=settings.optimizer.eps,
            weight_decay=settings.optimizer.weight_decay,
            mask=lambda _: mask,
        )
    else:
        optimizer = optax.sgd(settings.optimizer.lr, momentum=settings.optimizer.momentum)
    if settings.optimizer.clip_norm is not None:
        clipping = optax.clip_by_global_norm(settings.optimizer.clip_norm)
        optimizer = optax.chain(clipping, optimizer)

    def losses(outputs, y):
        if is_regression:
            return jnp.mean((outputs - y) ** 2)
        return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()

    @eqx.filter_jit
    def step(net, state, x, y, key):
        def loss(net):
            return losses(jax.vmap(net)(x, jax.random.split(key, len(x))), y)

        value, gradients = eqx.filter_value_and_grad(loss)(net)
        updates, state = optimizer.update(gradients, state, eqx.filter(net, eqx.is_inexact_array))
        return eqx.apply_updates(net, updates), state, value

    state = optimizer.init(eqx.filter(net, eqx.is_inexact_array))
    drawn = words(config.study.seed, "dropout", trial.number, replicate)
    lane_key = jax.random.wrap_key_data(drawn[:2])
    order = epoch_order(config.study.seed, replicate, config.train.epochs, len(data.x_train), 64)
    unit = data.y_scale[0] ** 2 if is_regression else 1.0
    rows, count = [], 0
    for epoch in order:
        seen = []
        for batch in epoch:
            key = jax.random.fold_in(lane_key, count)
            net, state, value = step(net, state, data.x_train[batch], data.y_train[batch], key)
            seen.append(float(value))
            count += 1
        outputs = jax.vmap(lambda x, net=net: net(x, None))(jnp.asarray(data.x_val))
        if is_regression:
            spread = jnp.sum((data.y_val - data.y_val.mean()) ** 2)
            score = 1 - jnp.sum((outputs - data.y_val) ** 2) / spread
        else:
            score = jnp.mean(jnp.argmax(outputs, 1) == data.y_val, dtype=jnp.float64)
        rows.append((np.mean(seen) * unit, float(losses(outputs, data.y_val)) * unit, float(score)))
    return np.array(rows)


REGRESSION = (
    "data.name=diabetes",
    "data.split.stratify=false",
    "train.loss=mse",
    'train.metrics=["r2"]',
)
SGD = ('optimizer={name="sgd",lr=1e-3,momentum=0.9}',)
MOMENTS = ("optimizer.b1=0.8", "optimizer.b2=0.95", "optimizer.eps=1e-3", "optimizer.clip_norm=0.5")
NORMED = ("model.layer_norm=true", "model.dropout=0.25")
SHAPE = {"depth": 2, "width": 16, "activation": "relu"}
TRIALS = {
    "adamw": ((), spec(5, **SHAPE, lr=1e-3, weight_decay=0.3)),
    "one layer": ((), spec(6, depth=1, width=9, activation="tanh", lr=5e-4, weight_decay=0.0)),
    "LayerNorm and dropout": (NORMED, spec(7, **SHAPE, lr=1e-3, weight_decay=0.1)),
    "moments and clipping": (MOMENTS, spec(3, **SHAPE, lr=1e-3, weight_decay=0.1)),
    "sgd": (SGD, spec(8, **SHAPE, lr=1e-3, weight_decay=0.0)),
    "regression": (REGRESSION, spec(9, **SHAPE, lr=1e-3, weight_decay=0.3)),
}


# each case in one way to loop over lanes, in turn; the other is for the slow tests
LOOPS = ("map", "vmap")


@pytest.mark.parametrize(
    ("case", "lane_loop"),
    [
        pytest.param(case, loop, marks=[pytest.mark.slow] * (LOOPS[index % 2] != loop))
        for index, case in enumerate(TRIALS)
        for loop in LOOPS
    ],
)
def test_a_lane_equals_the_trial_in_plain_equinox(
    case: str, lane_loop: str, bench: Callable[..., Bench]
) -> None:
    overrides, trial = TRIALS[case]
    study = bench(*overrides)
    companion = spec(1, **{**trial.params, "lr": 2e-3})

    expected = plain_curve(study, trial)
    curve = study.curves([companion, trial], lane_loop=lane_loop)[trial.number]
    np.testing.assert_allclose(curve, expected, rtol=RELATIVE)


def some(study: Bench, numbers: range) -> list[TrialSpec]:
    shape = {"depth": 2, "width": 16, "activation": "relu"}
    return [spec(n, **shape, lr=1e-4 * (n + 1), weight_decay=0.1 * n) for n in numbers]


def test_a_map_lane_equals_the_trial_alone_bit_for_bit(bench: Callable[..., Bench]) -> None:
    study = bench()
    specs = some(study, range(4))

    together = study.curves(specs)
    alone = {s.number: study.curves([s], capacity=1)[s.number] for s in specs}

    assert {n: c.tobytes() for n, c in together.items()} == {
        n: c.tobytes() for n, c in alone.items()
    }


def test_linear_models_of_any_width_share_a_program(bench: Callable[..., Bench]) -> None:
    """A linear model has no hidden layer, so a drawn width does not apply to it."""
    study = bench("train.epochs=2", "search.model.depth.low=0")
    shape = {"depth": 0, "activation": "relu", "lr": 1e-3, "weight_decay": 0.1}
    widths = (9, 32, 8)
    specs = [spec(number, width=width, **shape) for number, width in enumerate(widths)]

    together = study.curves(specs)

    for number, each in enumerate(specs):
        first = study.curves([replace(each, params={**each.params, "width": 8})])
        assert together[number].tobytes() == first[number].tobytes()


@pytest.mark.parametrize("lane_loop", ["map", "vmap"])
def test_position_and_other_lanes_in_a_class_change_no_bit(
    lane_loop: str, bench: Callable[..., Bench]
) -> None:
    study = bench()
    specs = some(study, range(4))
    how = {"lane_loop": lane_loop}

    first = study.curves(specs, **how)[3]
    moved = study.curves([specs[3], specs[0]], **how)[3]
    beside_nan = study.curves([spec(9, **{**specs[0].params, "lr": 1e30}), specs[3]], **how)[3]

    assert first.tobytes() == moved.tobytes() == beside_nan.tobytes()


def test_rounds_change_no_bit(bench: Callable[..., Bench]) -> None:
    study = bench()
    specs = some(study, range(3))

    whole = study.train(specs)
    first = study.train(specs, epochs=(0, 1))
    second = study.train(specs, epochs=(1, 4), after=first)
    third = study.train(specs, epochs=(4, 6), after=second)

    for index, lane in enumerate(whole.lanes):
        parts = [part.lanes[index].curve.values for part in (first, second, third)]
        assert np.concatenate(parts).tobytes() == lane.curve.values.tobytes()
        assert third.lanes[index].test == lane.test


def test_after_a_damaged_checkpoint_training_gives_the_same_bits(
    bench: Callable[..., Bench],
) -> None:
    study = bench()
    specs = some(study, range(2))
    whole = study.train(specs)
    first = study.train(specs, epochs=(0, 3))
    file = study.directory / first.lanes[0].checkpoint
    file.write_bytes(file.read_bytes()[:-1] + b"?")

    second = study.train(specs, epochs=(3, 6), after=first)

    assert [lane.retrained for lane in second.lanes] == [True, True]
    assert [lane.curve.values.tobytes() for lane in second.lanes] == [
        lane.curve.values[3:].tobytes() for lane in whole.lanes
    ]


def test_a_diverged_lane_ends_at_its_first_bad_epoch(bench: Callable[..., Bench]) -> None:
    study = bench("optimizer={name='sgd',lr=1e-3}")
    bad = spec(0, depth=2, width=16, activation="relu", lr=1e30, weight_decay=0.0)

    lane = study.train([bad]).lanes[0]

    assert lane.diverged_epoch == len(lane.curve.values) == 1
