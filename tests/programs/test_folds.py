"""A fold equals the trial on scikit-learn's split, in plain Equinox and Optax."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sweeper.data.order import epoch_order
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.trial import TrialSpec
from tests.programs.conftest import Bench, spec
from tests.programs.plain import compiled_hastily

RELATIVE = 1e-9  # float64; features are scaled in two steps instead of one
SEED = 3
BATCH = 16
TRIAL = spec(2, depth=1, width=9, activation="tanh", lr=1e-3, weight_decay=0.0)
COMMON = (f"train.batch_size={BATCH}", "train.epochs=8", "data.split.stratify=false")
DIABETES = (*COMMON, "data.name=diabetes", "train.loss=mse", "train.metrics=[]", "study.folds=5")
IRIS = (*COMMON, "data.name=iris", "train.metrics=[]", "study.folds=4")


@compiled_hastily()
def plain_losses(
    study: Bench,
    trial: TrialSpec,
    split: tuple[NDArray[np.intp], NDArray[np.intp]],
    steps: int,
    scaler: type = StandardScaler,
) -> NDArray[np.float64]:
    """The validation loss after each epoch of a network trained on one split of the rows."""
    is_regression = study.config.train.loss == "mse"
    x, y = (load_diabetes if is_regression else load_iris)(return_X_y=True)
    pool, _ = train_test_split(np.arange(len(x)), test_size=0.1, random_state=SEED)
    x, y, (train, val) = x[pool], y[pool], split
    x = scaler().fit(x[train]).transform(x)
    unit = y.std() if is_regression else 1.0
    if is_regression:
        y = ((y - y.mean()) / y.std())[:, None]

    settings = study.config.settings_of(trial.params)
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    net = program.saver.model(program.layout.init(trial.number, settings))
    weights = [(jnp.asarray(layer.weight), jnp.asarray(layer.bias)) for layer in net.layers]
    optimizer = optax.adamw(settings.optimizer.lr, weight_decay=0.0)

    @jax.jit
    def losses(weights, x, y):
        (first, bias), (last, offset) = weights
        outputs = jnp.tanh(x @ first.T + bias) @ last.T + offset
        if is_regression:
            return jnp.mean((outputs - y) ** 2)
        return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()

    @jax.jit
    def step(weights, state, x, y):
        updates, state = optimizer.update(jax.grad(losses)(weights, x, y), state, weights)
        return eqx.apply_updates(weights, updates), state

    state, found = optimizer.init(weights), []
    for epoch in epoch_order(SEED, 0, 8, len(train), BATCH):
        for batch in epoch[:steps]:
            weights, state = step(weights, state, x[train[batch]], y[train[batch]])
        found.append(float(losses(weights, x[val], y[val])) * unit**2)
    return np.array(found)


@pytest.mark.parametrize("lane_loop", [pytest.param("map", marks=pytest.mark.slow), "vmap"])
def test_each_fold_of_diabetes_equals_a_plain_run_on_the_split_of_scikit_learn(
    lane_loop: str, bench: Callable[..., Bench]
) -> None:
    study = bench(*DIABETES)
    splits = list(KFold(5, shuffle=True, random_state=SEED).split(np.zeros(397)))

    (lane,) = study.train([TRIAL], lane_loop=lane_loop, capacity=8).lanes

    assert {len(train) for train, _ in splits} == {317, 318}
    plain = np.stack([plain_losses(study, TRIAL, split, 317 // BATCH) for split in splits])
    np.testing.assert_allclose(lane.curve.by_member[:, :, 1], plain, rtol=RELATIVE)


def test_a_padded_class_has_the_same_folds(bench: Callable[..., Bench]) -> None:
    study = bench(*DIABETES)

    (exact,) = study.train([TRIAL], capacity=5).lanes
    (padded,) = study.train([TRIAL], capacity=5, padded_to=(16, 3)).lanes

    np.testing.assert_allclose(padded.curve.by_member, exact.curve.by_member, rtol=RELATIVE)


def test_folds_keep_classes_in_proportion(bench: Callable[..., Bench]) -> None:
    stratified = (*IRIS, "data.split.stratify=true", "data.scale=minmax", "data.split.test=0.0")
    study = bench(*stratified)
    x, y = load_iris(return_X_y=True)
    folds = StratifiedKFold(4, shuffle=True, random_state=SEED)

    for fold, (train, val) in enumerate(folds.split(x, y)):
        assert study.data.training_rows(fold).tolist() == train.tolist()
        scaled = study.data.x_train * study.data.fold_scale[fold] + study.data.fold_shift[fold]
        expected = MinMaxScaler().fit(x[train]).transform(x)
        np.testing.assert_allclose(scaled[val], expected[val], atol=1e-12)


def test_every_replicate_has_every_fold(bench: Callable[..., Bench]) -> None:
    study = bench(*IRIS, "study.replicates=2")
    once = bench(*IRIS)

    (both,) = study.train([TRIAL], capacity=8).lanes
    (alone,) = once.train([TRIAL], capacity=8).lanes

    assert both.curve.by_member.shape == (8, 8, 2)
    assert both.curve.by_member[:4].tobytes() == alone.curve.by_member.tobytes()
    assert both.curve.by_member[4:].tobytes() != alone.curve.by_member.tobytes()


def test_text_columns_are_not_scaled(bench: Callable[..., Bench], tmp_path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.normal():.3f},{'red' if index % 3 else 'blue'},{index % 2}" for index in range(60)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["size,colour,target", *rows]))
    table = f'data={{source="csv",path="{tmp_path}/rows.csv",target="target",split={{test=0.1}}}}'
    data = bench(table, "study.folds=3", f"train.batch_size={BATCH}").data

    assert data.feature_names == ("size", "colour_blue", "colour_red")
    assert (data.fold_scale[:, 1:] == 1).all() and (data.fold_shift[:, 1:] == 0).all()
    assert (data.fold_scale[:, 0] != 1).all()
