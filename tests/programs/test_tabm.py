"""TabM equals members that plain Equinox and Optax train together, each with its own loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sweeper.data.order import epoch_order
from sweeper.models.tabm import TabMShape, averaged
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.trial import TrialSpec, words
from tests.programs.conftest import Bench, spec
from tests.programs.plain import compiled_hastily

TABM = (
    "model={kind='tabm', ensemble_size=3}",
    "search={optimizer.lr={type='float', low=1e-4, high=1e-2, log=true}}",
    "optimizer.weight_decay=0.1",
    "train.epochs=2",
)
SIZES = ("model.depth=2", "model.width=8")
NUMBERS = ("data.name=diabetes", "data.split.stratify=false", "train.loss=mse")
HUBER = (*NUMBERS[:2], "train.loss=huber")
BINARY = ("data.name=breast_cancer", "train.loss=binary_cross_entropy")
TRIAL = spec(5, lr=1e-3)


class Member(eqx.Module):
    """A member with views of the shared weights: `x` times r, the weights, times s, plus bias."""

    linears: list[tuple[Any, Any, Any, Any]]
    last: tuple[Any, Any]

    def __call__(self, x: Any, keys: Any, dropout: float, place: int, members: int) -> Any:
        for index, (weight, r, s, bias) in enumerate(self.linears):
            x = jax.nn.relu((x * r) @ weight.T * s + bias)
            if dropout > 0 and keys is not None:
                of_all = jax.vmap(
                    lambda key, n=members * x.shape[-1], index=index: jax.random.uniform(
                        jax.random.fold_in(key, index), (n,)
                    )
                )(keys)
                kept = jnp.split(of_all, members, axis=1)[place] >= dropout
                x = jnp.where(kept, x / (1 - dropout), 0)
        return x @ self.last[0].T + self.last[1]


def members_of(net: Any) -> list[Member]:
    """The members of a network with arrays by name."""
    return [
        Member(
            [(one["w"], one["r"][k], one["s"][k], one["bias"][k]) for one in net["layers"]],
            (net["last"][0][k], net["last"][1][k]),
        )
        for k in range(len(net["last"][0]))
    ]


def loss_of(name: str, outputs: Any, y: Any) -> Any:
    match name:
        case "mse":
            return jnp.mean((outputs - y) ** 2)
        case "huber":
            return optax.huber_loss(outputs, y).mean()
        case "binary_cross_entropy":
            return optax.sigmoid_binary_cross_entropy(outputs[:, 0], y).mean()
        case _:
            return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()


def mean_of(name: str, outputs: Any) -> Any:
    """The mean prediction of members (k, rows, out): for classes, logits of mean probabilities."""
    if name in ("mse", "huber"):
        return outputs.mean(0)
    if name == "binary_cross_entropy":
        chance = jax.nn.sigmoid(outputs).mean(0)
        return jnp.log(chance / (1 - chance))
    return jnp.log(jax.nn.softmax(outputs).mean(0))


@compiled_hastily()
def plain_curve(bench: Bench, trial: TrialSpec) -> np.ndarray:
    """Rows of training loss and validation loss."""
    config, data = bench.config, bench.data
    settings = config.settings_of(trial.params)
    name, dropout = settings.train.loss, settings.model.dropout
    program = Programs(data_spec(config, data)).exact(settings)
    start = program.saver.model(program.layout.init(trial.number, settings))
    named = ("w", "r", "s", "bias")
    net = {
        "layers": [
            dict(
                zip(
                    named,
                    map(jnp.asarray, (one.shared.weight, one.r, one.s, one.bias)),
                    strict=True,
                )
            )
            for one in start.layers
        ],
        "last": (jnp.asarray(start.last.weight), jnp.asarray(start.last.bias)),
    }
    decays = {
        "layers": [{one: one == "w" for one in named} for _ in net["layers"]],
        "last": (True, False),
    }
    optimizer = optax.adamw(settings.optimizer.lr, weight_decay=0.1, mask=decays)
    state = optimizer.init(net)

    def outputs_of(net: Any, x: Any, keys: Any) -> Any:
        members = members_of(net)
        each = [one(x, keys, dropout, k, len(members)) for k, one in enumerate(members)]
        return jnp.stack(each)

    @jax.jit
    def step(net: Any, state: Any, x: Any, y: Any, key: Any) -> Any:
        def loss(net: Any) -> Any:
            keys = jax.random.split(key, len(x))
            return jnp.mean(jnp.array([loss_of(name, o, y) for o in outputs_of(net, x, keys)]))

        value, gradients = jax.value_and_grad(loss)(net)
        updates, state = optimizer.update(gradients, state, net)
        return optax.apply_updates(net, updates), state, value

    key = jax.random.wrap_key_data(words(config.study.seed, "dropout", trial.number, 0)[:2])
    degree = {"mse": 2, "huber": 2}.get(name, 0)
    unit = data.y_scale[0] ** degree if degree else 1.0
    rows, count = [], 0
    for epoch in epoch_order(config.study.seed, 0, config.train.epochs, len(data.x_train), 64):
        seen = []
        for batch in epoch:
            drawn = jax.random.fold_in(key, count)
            net, state, value = step(net, state, data.x_train[batch], data.y_train[batch], drawn)
            seen.append(float(value))
            count += 1
        mean = mean_of(name, outputs_of(net, jnp.asarray(data.x_val), None))
        rows.append((np.mean(seen) * unit, float(loss_of(name, mean, data.y_val)) * unit))
    return np.array(rows)


@pytest.mark.parametrize(
    ("case", "lane_loop"),
    [
        pytest.param((), "map", marks=pytest.mark.slow),
        (("model.dropout=0.25",), "vmap"),
        (NUMBERS, "vmap"),
        pytest.param(HUBER, "map", marks=pytest.mark.slow),
        pytest.param(BINARY, "map", marks=pytest.mark.slow),
    ],
)
def test_members_are_trained_as_in_plain_equinox_and_optax(
    case: tuple[str, ...], lane_loop: str, bench: Callable[..., Bench]
) -> None:
    one = bench(*TABM, *SIZES, "train.metrics=[]", "study.metric=val_loss", *case)
    expected = plain_curve(one, TRIAL)
    curve = one.curves([TRIAL, spec(6, lr=3e-3)], lane_loop=lane_loop)[5]
    np.testing.assert_allclose(curve, expected, rtol=1e-9)


def test_the_mean_of_members_is_that_of_their_probabilities() -> None:
    outputs = np.random.default_rng(0).normal(size=(4, 5, 3)) * 30
    for logits in (outputs, outputs[..., :1]):
        mean = averaged(jnp.asarray(logits), "classes")
        assert np.isfinite(mean).all()
        probability, of_mean = (
            (jax.nn.softmax(logits), jax.nn.softmax(mean))
            if logits.shape[-1] > 1
            else (jax.nn.sigmoid(logits), jax.nn.sigmoid(mean))
        )
        np.testing.assert_allclose(of_mean, probability.mean(0), rtol=1e-6, atol=1e-12)


def test_members_differ_by_signs_and_last_layers_at_first() -> None:
    shape = TabMShape(in_size=6, out_size=2, width=5, depth=2, members=4)
    _, r, s, bias, _, r2, s2, _, last, _ = shape.initial(np.random.default_rng(1))
    assert set(np.unique(r)) == {-1.0, 1.0}
    assert len(np.unique(r, axis=0)) == 4
    assert all((one == 1.0).all() for one in (s, r2, s2))
    assert len(np.unique(bias, axis=0)) == 1
    assert len(np.unique(last, axis=0)) == 4
