"""`alternating` equals plain Equinox and Optax with an `if` for the phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, train_test_split
from sklearn.preprocessing import StandardScaler

from sweeper.config import parse
from sweeper.data.order import epoch_order
from sweeper.executors.executor import Outcome
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile
from sweeper.programs.data_spec import data_spec
from sweeper.programs.program import State, only_model
from sweeper.trial import TrialSpec, words
from tests.programs.conftest import Bench, spec
from tests.programs.plain import compiled_hastily, linears_of
from tests.small_studies import PARTS, bent

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
SEED, BATCH, EPOCHS = 3, 64, 30
WARMUP, FIT, FOLLOW = 3, 2, 1

STUDY = bent(
    PARTS,
    f"study.seed={SEED}",
    "data.split={val=0.2,test=0.1}",
    "model.b.activation=tanh",
    "optimizer={name='adamw',weight_decay=0.1,clip_norm=0.5}",
    f"train.epochs={EPOCHS}",
    f"train.batch_size={BATCH}",
    f"train.warmup.epochs={WARMUP}",
    f"train.phases.fit.epochs={FIT}",
    f"train.phases.follow.epochs={FOLLOW}",
    "search.model.a.depth={type='int',low=1,high=3,name='depth_a'}",
    "search.model.a.width={type='int',low=4,high=16,name='width_a'}",
    "search.model.b.width={type='int',low=4,high=16,name='width_b'}",
    "search.train.phases.fit.lr={type='float',low=1e-5,high=1,log=true,name='lr_fit'}",
    "search.train.phases.follow.lr={type='float',low=1e-5,high=1,log=true,name='lr_follow'}",
    "execution={precision='float64'}",
)
TRAINS = {"fit": ("a", "b"), "follow": ("c",)}
SHAPES = {
    "trunk of one layer": {"depth_a": 1, "width_a": 8, "width_b": 6},
    "deep trunk": {"depth_a": 3, "width_a": 5, "width_b": 6},
    "wide head": {"depth_a": 2, "width_a": 8, "width_b": 11},
}
SHAPE = SHAPES["trunk of one layer"]
# all ways to train a bucket; every setting has the same effect in each
ROOM = {"a": (9, 3), "b": (12, 1), "c": (7, 2)}
WAYS: Mapping[str, dict[str, Any]] = {
    "exact": {"lane_loop": "vmap"},
    "padded": {"lane_loop": "map", "padded_to": ROOM},
}
OWN = bent(
    STUDY,
    "optimizer={}",
    "optimizer.a={name='adamw',weight_decay=0.2,clip_norm=0.3}",
    "optimizer.b={name='sgd',momentum=0.9,schedule={name='cosine',end=0.2}}",
    "optimizer.c.name=rmsprop",
)


def turns(directory: Path, *overrides: str) -> Bench:
    return Bench(parse(STUDY, Path("study.toml"), list(overrides)), directory)


def trial(number: int, lr_fit: float = 1e-3, lr_follow: float = 5e-4, **shape: int) -> TrialSpec:
    return spec(number, **{**SHAPE, **shape}, lr_fit=lr_fit, lr_follow=lr_follow)


def phase_of(epoch: int) -> str:
    """The phase of an epoch, counted from 0."""
    if epoch < WARMUP:
        return "fit"
    return "fit" if (epoch - WARMUP) % (FIT + FOLLOW) < FIT else "follow"


class Net(eqx.Module):
    """Linear layers with an activation between, and dropout after it if there is a key."""

    linears: list[eqx.nn.Linear]
    activation: Callable[[Any], Any] = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __call__(self, x: Any, key: Any = None) -> Any:
        for index, linear in enumerate(self.linears[:-1]):
            x = self.activation(linear(x))
            if key is not None and self.dropout:
                kept = jax.random.uniform(jax.random.fold_in(key, index), x.shape) >= self.dropout
                x = jnp.where(kept, x / (1 - self.dropout), 0)
        return self.linears[-1](x)


def matrices(net: Any) -> Any:
    """The mask of decayed parameters."""
    return jax.tree.map(lambda leaf: leaf.ndim == 2, net)


@dataclass(frozen=True)
class Rows:
    """The training and validation data of a run, the order of its batches, and its unit."""

    x: NDArray[Any]
    y: NDArray[Any]
    x_val: NDArray[Any]
    y_val: NDArray[Any]
    order: NDArray[Any]
    unit: float


def rows_of(study: Bench, replicate: int = 0) -> Rows:
    data, epochs = study.data, study.config.train.epochs
    order = epoch_order(SEED, replicate, epochs, len(data.x_train), BATCH)
    unit = data.y_scale[0] ** 2
    return Rows(data.x_train, data.y_train, data.x_val, data.y_val, order, unit)


@dataclass(frozen=True)
class Plain:
    """Losses in training and in validation by epoch, and the nets that gave the latter."""

    curve: NDArray[np.float64]
    nets: list[dict[str, Net]]


def first_nets(study: Bench, of: TrialSpec, replicate: int) -> dict[str, Net]:
    """The parts before the first step."""
    settings = study.config.settings_of(of.params)
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    start: Any = program.saver.model(program.layout.init(of.number, settings, replicate))
    activations = {"a": jax.nn.relu, "b": jnp.tanh, "c": jax.nn.relu}
    dropout = {"a": 0.0, "b": settings.model.parts["b"].dropout, "c": 0.0}
    return {
        name: Net(linears_of(start.parts[name]), activations[name], dropout[name]) for name in "abc"
    }


Optimizers = Mapping[str, Callable[[Any, Any], optax.GradientTransformation]]
"""The optimizer of each part, at a rate and after a share of the steps."""


def adamw(lr: Any, share: Any) -> optax.GradientTransformation:
    return optax.adamw(lr, weight_decay=0.1, mask=matrices)


def cosine(lr: Any, share: Any) -> Any:
    return lr * (0.2 + 0.8 * 0.5 * (1 + jnp.cos(jnp.pi * share)))


SHARED: Optimizers = dict.fromkeys("abc", adamw)
OPTIMIZERS: Optimizers = {
    "a": lambda lr, share: optax.chain(
        optax.clip_by_global_norm(0.3), optax.adamw(lr, weight_decay=0.2, mask=matrices)
    ),
    "b": lambda lr, share: optax.sgd(cosine(lr, share), momentum=0.9),
    "c": lambda lr, share: optax.rmsprop(lr, decay=0.9, eps=1e-8, eps_in_sqrt=False),
}


def losses(nets: Any, x: Any, y: Any, key: Any = None) -> Any:
    """Loss 1, B against the data, and loss 2, C against B as it is."""
    trunk = jax.vmap(nets["a"])(x)
    if key is None:
        b = jax.vmap(nets["b"])(trunk)
    else:  # B is the second part, since each comes after its input
        b = jax.vmap(nets["b"])(trunk, jax.random.split(jax.random.fold_in(key, 1), len(x)))
    c = jax.vmap(nets["c"])(trunk)
    return jnp.mean((b - y) ** 2), jnp.mean((c - jax.lax.stop_gradient(b)) ** 2)


@eqx.filter_jit
def step(phase: str, own: Optimizers, clip_norm: Any, nets: Any, states: Any, *now: Any) -> Any:
    """One update of the parts that `phase` trains, and both losses before it."""
    lr, x, y, key, count, share = now

    def loss(trained: Any) -> Any:
        both = losses({**nets, **trained}, x, y, jax.random.fold_in(key, count))
        return both[0] if phase == "fit" else both[1], both

    trained = {part: nets[part] for part in TRAINS[phase]}
    gradients, both = eqx.filter_grad(loss, has_aux=True)(trained)
    clip = optax.clip_by_global_norm(clip_norm)
    gradients, _ = clip.update(gradients, clip.init(gradients))
    nets, states = {**nets}, {**states}
    for part in TRAINS[phase]:
        net = eqx.filter(nets[part], eqx.is_inexact_array)
        moves, states[part] = own[part](lr, share).update(gradients[part], states[part], net)
        nets[part] = eqx.apply_updates(nets[part], moves)
    return nets, states, both


@eqx.filter_jit
def mixed(ema: float, old: Any, new: Any) -> Any:
    """The running average of weights, including frozen ones, after an update to `new`."""
    return jax.tree.map(
        lambda old, new: ema * old + (1 - ema) * new if eqx.is_array(new) else new, old, new
    )


validated = eqx.filter_jit(losses)


@compiled_hastily()
def plain(
    study: Bench,
    of: TrialSpec,
    replicate: int = 0,
    rows: Rows | None = None,
    own: Optimizers = SHARED,
    clip_norm: float = 0.5,
    ema: float | None = None,
) -> Plain:
    """The trial in plain Equinox and Optax: same initial weights, same data, same order.

    The norm is clipped over all parts that a phase trains. With `ema` the measured weights are
    their running average.
    """
    rows = rows or rows_of(study, replicate)
    rates = {phase: jnp.asarray(of.params[f"lr_{phase}"]) for phase in TRAINS}
    nets = first_nets(study, of, replicate)
    states = {
        part: own[part](0.0, 0.0).init(eqx.filter(net, eqx.is_inexact_array))
        for part, net in nets.items()
    }
    drawn = words(SEED, "dropout", of.number, replicate)
    key = jax.random.wrap_key_data(jnp.asarray(drawn[:2]))
    averaged, all_nets, curve, count = nets, [], [], 0
    for epoch, batches in enumerate(rows.order):
        phase, seen = phase_of(epoch), []
        for batch in batches:
            share = jnp.asarray(count / (rows.order.shape[0] * rows.order.shape[1]))
            now = rates[phase], rows.x[batch], rows.y[batch], key, jnp.asarray(count), share
            nets, states, both = step(phase, own, jnp.asarray(clip_norm), nets, states, *now)
            averaged = nets if ema is None else mixed(ema, averaged, nets)
            seen.append(both)
            count += 1
        row = (*np.mean(np.asarray(seen), axis=0), *validated(averaged, rows.x_val, rows.y_val))
        curve.append([float(value) * rows.unit for value in row])
        all_nets.append(averaged)
    return Plain(np.array(curve), all_nets)


def state_of(
    study: Bench, outcome: Outcome, of: TrialSpec, member: int = 0, *, whole: bool = False
) -> State:
    """The final state of a lane: all of it, or only the model if the trial has ended."""
    lane = next(lane for lane in outcome.lanes if lane.number == of.number)
    settings = study.config.settings_of(of.params)
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    like = program.layout.exact_abstract(settings)
    path, digest = study.directory / lane.checkpoint, outcome.digests[lane.checkpoint]
    return LaneFile(path, digest).lane(of.number, like if whole else only_model(like), member)


def agree(study: Bench, outcome: Outcome, of: TrialSpec, expected: Plain, member: int = 0) -> None:
    """Every loss of every epoch and every leaf of the model equal those of the plain run."""
    lane = next(lane for lane in outcome.lanes if lane.number == of.number)
    np.testing.assert_allclose(lane.curve.by_member[member], expected.curve, rtol=RELATIVE)
    agree_in_leaves(study, outcome, of, expected.nets[-1], member)


def agree_in_leaves(
    study: Bench, outcome: Outcome, of: TrialSpec, nets: Mapping[str, Net], member: int = 0
) -> None:
    """Every leaf of the model equals that of the plain run, by its norm."""
    settings = study.config.settings_of(of.params)
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    model: Any = program.saver.model(state_of(study, outcome, of, member))
    for name, net in nets.items():
        for ours, theirs in zip(model.parts[name].layers, net.linears, strict=True):
            for leaf in ("weight", "bias"):
                found, wanted = np.asarray(getattr(ours, leaf)), np.asarray(getattr(theirs, leaf))
                error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
                assert error <= RELATIVE, f"{name}.{leaf}: {error}"


@pytest.mark.parametrize(
    ("shapes", "alone", "together"),
    [
        # alone it is one case of the next test, which also has different optimizers
        (("deep trunk", "wide head"), (), ("map",)),
        pytest.param(
            tuple(SHAPES), ("map", "vmap", "map"), ("map", "vmap"), marks=pytest.mark.slow
        ),
    ],
    ids=["two", "three"],
)
def test_a_lane_equals_the_trial_in_plain_equinox(
    shapes: Sequence[str], alone: Sequence[str], together: Sequence[str], tmp_path: Path
) -> None:
    """Architectures in separate classes, and all of them in one padded class."""
    study = turns(tmp_path)
    specs = [trial(5 + n, **SHAPES[shape]) for n, shape in enumerate(shapes)]
    expected = [plain(study, one) for one in specs]

    for one, its, lane_loop in zip(specs, expected, alone, strict=False):
        companion = replace(one, number=1, params={**one.params, "lr_fit": 2e-3})
        agree(study, study.train([companion, one], lane_loop=lane_loop), one, its)
    for lane_loop in together:
        outcome = study.train(specs, lane_loop=lane_loop, padded_to=ROOM)
        for one, its in zip(specs, expected, strict=True):
            agree(study, outcome, one, its)


def test_each_part_can_have_its_own_optimizer(tmp_path: Path) -> None:
    """A schedule counts all steps, including those in which its part is frozen."""
    study = Bench(parse(OWN, Path("study.toml")), tmp_path)
    expected = plain(study, trial(2), own=OPTIMIZERS, clip_norm=np.inf)

    agree(study, study.train([trial(2)]), trial(2), expected)


@pytest.mark.slow
def test_each_replicate_equals_the_trial_in_plain_equinox(tmp_path: Path) -> None:
    """With dropout, which depends on its part and its replicate."""
    study = turns(tmp_path, "study.replicates=2", "model.b.dropout=0.25")
    expected = [plain(study, trial(4), replicate) for replicate in range(2)]

    for how in WAYS.values():
        outcome = study.train([trial(4)], **how)
        for replicate in range(2):
            agree(study, outcome, trial(4), expected[replicate], replicate)


@pytest.mark.slow
def test_each_fold_equals_a_plain_run_on_the_split_of_scikit_learn(tmp_path: Path) -> None:
    study = turns(tmp_path, "study.folds=3")
    x, y = load_diabetes(return_X_y=True)
    pool, _ = train_test_split(np.arange(len(x)), test_size=0.1, random_state=SEED)
    x, y, unit = x[pool], ((y[pool] - y[pool].mean()) / y[pool].std())[:, None], y[pool].var()

    expected = []
    for train, val in KFold(3, shuffle=True, random_state=SEED).split(x):
        scaled = StandardScaler().fit(x[train]).transform(x)
        order = epoch_order(SEED, 0, EPOCHS, len(train), BATCH)
        rows = Rows(scaled[train], y[train], scaled[val], y[val], order, unit)
        expected.append(plain(study, trial(4), rows=rows))

    for how in WAYS.values():
        outcome = study.train([trial(4)], **how)
        for fold in range(3):
            agree(study, outcome, trial(4), expected[fold], fold)


def test_a_loss_can_be_a_user_defined_function(tmp_path: Path) -> None:
    """It gets both sides as in training: nothing is known of its unit."""
    (tmp_path / "losses_of_parts.py").write_text(
        "def squares(outputs, against):\n    return ((outputs - against) ** 2).mean()\n"
    )
    kinds = [f"train.losses.{name}.kind=losses_of_parts:squares" for name in ("data", "follow")]
    own = parse(STUDY, tmp_path / "study.toml", [*kinds, "train.task=numbers", "train.epochs=6"])
    study = Bench(own, tmp_path)

    curve = study.curves([trial(3)])[3]

    expected = plain(study, trial(3)).curve / study.data.y_scale[0] ** 2
    np.testing.assert_allclose(curve, expected, rtol=RELATIVE)


def test_only_losses_against_the_classes_of_the_data_weigh_them(tmp_path: Path) -> None:
    """A part that follows another has no classes."""
    weighted = ("data.name=wine", "data.class_weights=balanced", "train.epochs=5")
    kinds = ("train.losses.data.kind=cross_entropy", "train.losses.follow.kind=mse")
    study = turns(tmp_path, *weighted, *kinds)
    assert len(study.data.class_weights) == 3
    curve = study.curves([trial(1)])[1]
    assert np.isfinite(curve).all()
    program = Programs(data_spec(study.config, study.data)).exact(study.config.settings_of({}))
    follow = program._criteria["follow"]  # type: ignore[attr-defined]
    of, against = jnp.ones((4, 3)), jnp.zeros((4, 3))
    assert follow.minimised(of, against, {}) == 1


OF_PHASES = """\
import optax


def plain(*, lr):
    return optax.sgd(lr, momentum=0.9)


def injected(*, lr):
    return optax.inject_hyperparams(optax.sgd)(lr, momentum=0.9)
"""


def test_injected_hyperparameters_follow_the_phases(tmp_path: Path) -> None:
    """A part that two phases train with different rates."""
    (tmp_path / "phase_optimizers.py").write_text(OF_PHASES, encoding="utf-8")
    curves: dict[str, Any] = {}
    for name in ("plain", "injected"):
        optimizer = f"optimizer={{name='phase_optimizers:{name}',lr=1e-3}}"
        follow = "train.phases.follow={epochs=1,loss='data',trains=['a','b'],lr=1e-2}"
        short = "train.epochs=5", "train.warmup.epochs=1", "train.phases.fit.epochs=1"
        overrides = [optimizer, follow, *short, "search={}", "execution.precision=float64"]
        study = Bench(parse(PARTS, tmp_path / "study.toml", overrides), tmp_path)
        curves[name] = study.curves([spec(0)])[0]

    np.testing.assert_allclose(curves["injected"], curves["plain"], rtol=RELATIVE)


def test_injected_hyperparameters_follow_a_rate_that_only_some_trials_draw(tmp_path: Path) -> None:
    """Also if the class is compiled with the settings of a trial that does not draw it."""
    (tmp_path / "phase_optimizers.py").write_text(OF_PHASES, encoding="utf-8")
    specs = spec(0, lr=1e-3), spec(1, lr=2e-3, lr_follow=1e-2)
    drawn = "type='float',low=1e-3,high=1e-1,name='lr_follow',when={'optimizer.lr'=2e-3}"
    overrides = (
        "search={optimizer={lr={type='categorical',choices=[1e-3,2e-3]}}}",
        f"search.train.phases.follow.lr={{{drawn}}}",
        "train.phases.fit={epochs=1,loss='data',trains=['a','b']}",
        "train.phases.follow={epochs=1,loss='data',trains=['a','b']}",
        "train.epochs=5",
        "train.warmup.epochs=1",
        "execution.precision=float64",
    )
    curves: dict[str, Any] = {}
    for name in ("plain", "injected"):
        optimizer = f"optimizer={{name='phase_optimizers:{name}'}}"
        study = Bench(parse(PARTS, tmp_path / "study.toml", [*overrides, optimizer]), tmp_path)
        curves[name] = study.curves(specs)

    for number in (0, 1):
        np.testing.assert_allclose(
            curves["injected"][number], curves["plain"][number], rtol=RELATIVE
        )
