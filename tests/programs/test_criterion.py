"""Several targets and weighted classes, against plain Equinox and Optax."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray
from sklearn.metrics import log_loss, mean_squared_error, r2_score

from sweeper.config.toml import toml_value
from sweeper.data.order import epoch_order
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.trial import TrialSpec
from tests.programs.conftest import Bench, spec
from tests.programs.plain import compiled_hastily

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
BATCH = 64
TRIAL = spec(5, depth=2, width=16, activation="relu", lr=1e-3, weight_decay=0.3)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
TARGETS = np.stack([X[:, 0] * X[:, 1], 1000 * np.sin(X[:, 2]) + 7], axis=1)
Loss = Callable[[jax.Array, jax.Array], jax.Array]


@compiled_hastily()
def plain_run(bench: Bench, trial: TrialSpec, loss: Loss) -> tuple[list[float], NDArray, NDArray]:
    """The mean of `loss` over each epoch's steps, and the outputs after the last of them."""
    config, data = bench.config, bench.data
    settings = config.settings_of(trial.params)
    program = Programs(data_spec(config, data)).exact(settings)
    start = program.saver.model(program.layout.init(trial.number, settings))
    parameters = [(jnp.asarray(one.weight), jnp.asarray(one.bias)) for one in start.layers]

    def outputs(parameters, x):
        for weight, bias in parameters[:-1]:
            x = jax.nn.relu(x @ weight.T + bias)
        weight, bias = parameters[-1]
        return x @ weight.T + bias

    optimizer = optax.adamw(
        settings.optimizer.lr,
        weight_decay=settings.optimizer.weight_decay,
        mask=[(True, False)] * len(parameters),
    )

    @eqx.filter_jit
    def step(parameters, state, x, y):
        value, gradients = jax.value_and_grad(lambda ps: loss(outputs(ps, x), y))(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value, outputs(parameters, x)

    state, means = optimizer.init(parameters), []
    for epoch in epoch_order(config.study.seed, 0, config.train.epochs, len(data.x_train), BATCH):
        seen = []
        for rows in epoch:
            parameters, state, value, before = step(
                parameters, state, data.x_train[rows], data.y_train[rows]
            )
            seen.append(told_of(bench, value, before, data.y_train[rows]))
        means.append(float(np.mean(seen)))
    return means, outputs(parameters, data.x_val), outputs(parameters, data.x_test)


def told_of(bench: Bench, value, outputs, y) -> float:
    """What is reported of a batch: the loss itself, or errors in the units of the data."""
    if bench.config.train.target == "classes":
        return float(value)
    data = bench.data
    unit, mean = np.array(data.y_scale), np.array(data.y_mean)
    return mean_squared_error(y * unit + mean, outputs * unit + mean)


@pytest.fixture
def two_targets(bench: Callable[..., Bench], tmp_path: Path) -> Bench:
    np.savez(tmp_path / "rows.npz", x=X, y=TARGETS)
    data = f'data={{source="npz", path="{tmp_path}/rows.npz", split={{val=0.2, test=0.1}}}}'
    return bench(data, "train.loss=mse", 'train.metrics=["r2"]')


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"lane_loop": "map"}, marks=pytest.mark.slow),
        pytest.param({"lane_loop": "vmap"}, marks=pytest.mark.slow),
        {"padded_to": (24, 3)},
    ],
    ids=str,
)
def test_targets_count_equally_and_are_reported_in_their_units(
    two_targets: Bench, how: dict[str, object]
) -> None:
    data = two_targets.data
    assert data.out_size == 2

    (lane,) = two_targets.train([TRIAL], **how).lanes

    means, val, test = plain_run(two_targets, TRIAL, lambda out, y: jnp.mean((out - y) ** 2))
    unit, mean = np.array(data.y_scale), np.array(data.y_mean)
    np.testing.assert_allclose(lane.curve.values[:, 0], means, rtol=RELATIVE)
    for scores, outputs, y in (
        (lane.curve.values[-1, 1:], val, data.y_val),
        (lane.test, test, data.y_test),
    ):
        told = y * unit + mean, np.asarray(outputs) * unit + mean
        expected = [mean_squared_error(*told), r2_score(*told)]
        np.testing.assert_allclose(scores, expected, rtol=RELATIVE)
    # the second target is a thousand times the first, and would dominate
    assert unit[1] > 100 * unit[0]


@pytest.mark.parametrize(
    ("loss", "weights", "how"),
    [
        pytest.param("cross_entropy", "balanced", {"lane_loop": "map"}, marks=pytest.mark.slow),
        ("cross_entropy", {"3": 4.0, "0": 0.5}, {"lane_loop": "vmap"}),
        pytest.param(
            "binary_cross_entropy", "balanced", {"padded_to": (24, 3)}, marks=pytest.mark.slow
        ),
        pytest.param(
            "binary_cross_entropy",
            {"malignant": 4.0},
            {"lane_loop": "vmap"},
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_classes_count_by_their_weights(
    loss: str,
    weights: str | dict[str, float],
    how: dict[str, object],
    bench: Callable[..., Bench],
) -> None:
    by_one_logit = loss == "binary_cross_entropy"
    study = bench(
        f"data.name={'breast_cancer' if by_one_logit else 'digits'}",
        f"train.loss={loss}",
        f"data.class_weights={toml_value(weights)}",
    )
    data = study.data
    by_class = len(data.y_train) / (len(data.class_names) * np.bincount(data.y_train))
    if isinstance(weights, dict):
        assert weights.keys() <= set(data.class_names)
        by_class = np.array([weights.get(name, 1.0) for name in data.class_names])

    def weighted(outputs: jax.Array, y: jax.Array) -> jax.Array:
        if by_one_logit:
            losses = optax.sigmoid_binary_cross_entropy(outputs[:, 0], y)
        else:
            losses = optax.softmax_cross_entropy_with_integer_labels(outputs, y)
        each = jnp.asarray(by_class)[y]
        return jnp.sum(each * losses) / jnp.sum(each)

    (lane,) = study.train([TRIAL], **how).lanes

    means, val, test = plain_run(study, TRIAL, weighted)
    assert val.shape[1] == (1 if by_one_logit else 10)
    np.testing.assert_allclose(lane.curve.values[:, 0], means, rtol=RELATIVE)
    for scores, outputs, y in (
        (lane.curve.values[-1, 1:], val, data.y_val),
        (lane.test, test, data.y_test),
    ):
        # one logit is that of the second class, compared with a first one of 0
        logits = np.asarray(outputs)
        both = np.hstack([np.zeros_like(logits), logits]) if by_one_logit else logits
        shares = np.asarray(jax.nn.softmax(both))
        expected = log_loss(y, shares, sample_weight=by_class[y], labels=range(shares.shape[1]))
        accuracy = np.mean(np.argmax(both, 1) == y)  # which has no weight
        np.testing.assert_allclose(scores, [expected, accuracy], rtol=RELATIVE)
