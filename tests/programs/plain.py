"""A trial in plain Equinox and Optax: same initial weights, same data, same order, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from sweeper.data.dataset import Dataset, SplitName
from sweeper.data.order import epoch_order
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.trial import TrialSpec
from tests.programs.conftest import Bench

Measure = Callable[[Any, Any], Any]
ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}


@contextmanager
def compiled_hastily() -> Iterator[None]:
    """Compile code without optimization: the reference only runs once.

    Never use this for tested code, which must be compiled as for a user.
    """
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


class Net(eqx.Module):
    """Linear layers with an activation between."""

    linears: list[eqx.nn.Linear]
    activation: Callable[[Any], Any] = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        for linear in self.linears[:-1]:
            x = self.activation(linear(x))
        return self.linears[-1](x)


@dataclass
class Plain:
    """The result: rows of train loss, validation loss and scores, and the nets by epoch."""

    rows: NDArray[np.float64]
    nets: list[Net]


def first_net(bench: Bench, trial: TrialSpec) -> Net:
    """The network before its first step."""
    settings = bench.config.settings_of(trial.params)
    program = Programs(data_spec(bench.config, bench.data)).exact(settings)
    start: Any = program.saver.model(program.layout.init(trial.number, settings))
    return Net(linears_of(start), ACTIVATIONS[settings.model.activation])


def linears_of(model: Any) -> list[eqx.nn.Linear]:
    """The layers of an MLP as in Equinox."""

    def linear(layer: eqx.nn.Linear) -> eqx.nn.Linear:
        leaves = jnp.asarray(layer.weight), jnp.asarray(layer.bias)
        return eqx.tree_at(both_arrays, empty_linear(*leaves[0].shape[::-1]), leaves)

    return [linear(each) for each in model.layers]


def both_arrays(linear: eqx.nn.Linear) -> Any:
    return linear.weight, linear.bias


def empty_linear(in_size: int, out_size: int) -> eqx.nn.Linear:
    """Without values: drawing them would compile a program per shape."""
    return eqx.filter_eval_shape(eqx.nn.Linear, in_size, out_size, key=jax.random.key(0))


def weights_only(net: Net) -> Any:
    """The mask of decayed parameters."""
    return jax.tree.map(lambda leaf: leaf.ndim == 2, eqx.filter(net, eqx.is_inexact_array))


@compiled_hastily()
def train(
    bench: Bench,
    trial: TrialSpec,
    optimizer: optax.GradientTransformation,
    loss: Measure,
    val_loss: Measure | None = None,
    scores: Sequence[Measure] = (),
    units: tuple[float, float] = (1.0, 1.0),
    ema: float | None = None,
    net: Any = None,
) -> Plain:
    """Train `trial`; its loss is multiplied by `units[0]`, on validation data by `units[1]`.

    Losses and scores get outputs and targets, of weighted rows a pair of targets and weights.
    With `ema` the measured weights are their running average; `net` replaces its first network.
    """
    config, data = bench.config, bench.data
    settings = config.settings_of(trial.params)

    @eqx.filter_jit
    def step(net: Net, state: Any, x: Any, y: Any) -> Any:
        value, gradients = eqx.filter_value_and_grad(lambda net: loss(jax.vmap(net)(x), y))(net)
        arrays, given = eqx.filter(net, eqx.is_inexact_array), {"value": value, "grad": gradients}
        update = optax.with_extra_args_support(optimizer).update
        updates, state = update(gradients, state, arrays, **given)
        return eqx.apply_updates(net, updates), state, value

    y_train, y_val = targets_of(data, "train"), targets_of(data, "val")
    net = first_net(bench, trial) if net is None else net
    averaged, state = net, optimizer.init(eqx.filter(net, eqx.is_inexact_array))
    batch = settings.train.batch_size
    seed, epochs = config.study.seed, settings.train.epochs
    rows, nets = [], []
    for epoch in epoch_order(seed, 0, epochs, len(data.x_train), batch):
        seen = []
        for index in epoch:
            y = jax.tree.map(lambda of_rows: of_rows[index], y_train)  # noqa: B023
            net, state, value = step(net, state, data.x_train[index], y)
            if ema is not None:
                averaged = jax.tree.map(
                    lambda old, new: ema * old + (1 - ema) * new if eqx.is_array(new) else new,
                    averaged,
                    net,
                )
            seen.append(float(value))
        judged = net if ema is None else averaged
        outputs = jax.vmap(judged)(jnp.asarray(data.x_val))
        row = [(val_loss or loss)(outputs, y_val) * units[1]]
        row += [score(outputs, y_val) for score in scores]
        rows.append([np.mean(seen) * units[0], *map(float, row)])
        nets.append(judged)
    return Plain(np.array(rows), nets)


def cross_entropy(outputs: Any, y: Any) -> Any:
    """The mean over rows, of classes by index."""
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()


def accuracy(outputs: Any, y: Any) -> Any:
    """The share of rows whose class, by index, has the largest output."""
    return jnp.mean(jnp.argmax(outputs, 1) == y, dtype=jnp.float64)


def targets_of(data: Dataset, part: SplitName) -> Any:
    """The targets of a split, with their weights if they have some."""
    weights = data.weights(part)
    return data.targets(part) if weights is None else (data.targets(part), weights)


WAYS: Mapping[str, dict[str, Any]] = {
    "exact": {"lane_loop": "vmap"},
    "padded": {"lane_loop": "map", "padded_to": (24, 3)},
}
"""All ways to train a bucket; every setting has the same effect in each."""
