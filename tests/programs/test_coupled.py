"""`coupled` equals plain Equinox and Optax, and no loss trains another loss's model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from sweeper.config import parse
from sweeper.data.order import epoch_order
from sweeper.errors import StudyError
from sweeper.executors.executor import Outcome
from sweeper.executors.trainer import Trainer
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile
from sweeper.programs.coupled import Coupled
from sweeper.programs.data_spec import data_spec
from sweeper.programs.generator_critic import directions, measure_of
from sweeper.programs.program import Batch, LaneParameters, State, only_model
from sweeper.trial import TrialSpec, words
from tests.programs.conftest import Bench, spec
from tests.programs.plain import Net, compiled_hastily, linears_of
from tests.programs.test_saved_state import saved, state_after
from tests.small_studies import COUPLED, bent

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
SEED, BATCH, EPOCHS = 5, 32, 30
STUDY = bent(
    COUPLED,
    f"study.seed={SEED}",
    "model={generator={in_size=3,depth=2,width=12},critic={depth=1,width=10,activation='tanh'}}",
    "optimizer.generator={name='adam',b1=0.5,b2=0.9,lr=1e-3}",
    "optimizer.critic.lr=5e-4",
    f"train={{program='coupled',objective='wgan_gp',epochs={EPOCHS},batch_size={BATCH},critic_steps=3}}",
    "search={}",
    "search.model.generator.width={type='int',low=4,high=16,name='g_width'}",
    "search.model.critic.depth={type='int',low=1,high=3,name='c_depth'}",
    "search.optimizer.generator.lr={type='float',low=1e-5,high=1e-1,log=true,name='g_lr'}",
    "search.optimizer.critic.lr={type='float',low=1e-5,high=1e-1,log=true,name='c_lr'}",
    "execution={precision='float64'}",
)
WGAN = ("train.objective=wgan", "train.clip=0.05")
GAN = ("train.objective=gan", "train.critic_steps=1")
# the objectives as user-defined losses; the program must find what they share in a step
OWN = """
import jax
import jax.numpy as jnp


def losses(models, batch, key):
    noise = jax.random.normal(key, (len(batch.x), 3), batch.x.dtype)
    rows = jax.vmap(models["generator"])(noise)
    critic = jax.vmap(models["critic"])
    apart = jnp.mean(critic(jax.lax.stop_gradient(rows))) - jnp.mean(critic(batch.x))
    return {"critic": apart + jnp.mean(critic(batch.x) ** 2), "generator": -jnp.mean(critic(rows))}


def broken(models, batch, key):
    found = losses(models, batch, key)
    return {**found, "generator": found["generator"] * jnp.nan}


def leaking(models, batch, key):
    noise = jax.random.normal(key, (len(batch.x), 3), batch.x.dtype)
    rows = jax.vmap(models["generator"])(noise)
    critic = jax.vmap(models["critic"])
    apart = jnp.mean(critic(rows)) - jnp.mean(critic(batch.x))
    return {"critic": apart, "generator": -jnp.mean(critic(rows))}
"""
USERS = ("train.objective=own:losses",)
TRIAL = spec(2, g_lr=1e-3, c_lr=5e-4)

Make = Callable[..., Bench]


@pytest.fixture
def coupled(tmp_path: Path) -> Make:
    """A study of a mixture of three modes, in units that do not suit a network."""
    rng = np.random.default_rng(0)
    mode = rng.integers(3, size=200)
    centres = np.array([[40.0, 0.0], [0.0, 3.0], [-40.0, 1.0]])
    x = centres[mode] + rng.normal(size=(200, 2)) * 0.05
    np.savez(tmp_path / "rows.npz", x=x, mode=np.array(["a", "b", "c"])[mode])
    (tmp_path / "own.py").write_text(OWN)

    def make(*overrides: str) -> Bench:
        return Bench(parse(STUDY, tmp_path / "study.toml", overrides), tmp_path)

    return make


def program_of(study: Bench, trial: TrialSpec) -> Coupled:
    settings = study.config.settings_of(trial.params)
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    assert isinstance(program, Coupled)
    return program


def trained(study: Bench, trial: TrialSpec, outcome: Outcome, member: int = 0) -> dict[str, Any]:
    """The models of a member of a finished trial."""
    program = program_of(study, trial)
    (lane,) = (lane for lane in outcome.lanes if lane.number == trial.number)
    assert lane.failure is None, lane.failure.error_message
    file = LaneFile(study.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
    model: Any = program.saver.model(
        file.lane(trial.number, only_model(program.layout.abstract()), member)
    )
    return model.parts


def plain_nets(study: Bench, trial: TrialSpec, replicate: int) -> tuple[Net, Net]:
    """Generator and critic before their first step."""
    program = program_of(study, trial)
    settings = study.config.settings_of(trial.params)
    start: Any = program.saver.model(program.layout.init(trial.number, settings, replicate))
    return (
        Net(linears_of(start.parts["generator"]), jax.nn.relu),
        Net(linears_of(start.parts["critic"]), jnp.tanh),
    )


@dataclass(frozen=True)
class Plain:
    """The steps of a trial in plain Equinox and Optax, compiled once for all replicates."""

    move_generator: optax.GradientTransformation
    move_critic: optax.GradientTransformation
    critic_step: Callable[..., Any]
    generator_step: Callable[..., Any]
    losses: Callable[..., Any]


@cache
def plain(objective: str, g_lr: float, c_lr: float) -> Plain:
    move_generator = optax.adam(g_lr, b1=0.5, b2=0.9)
    move_critic = optax.rmsprop(c_lr, decay=0.9, eps=1e-8, eps_in_sqrt=False)
    own = objective == "own:losses"

    def noise(key: Any, count: int) -> Any:
        return jax.random.normal(key if own else jax.random.fold_in(key, 0), (count, 3))

    def critic_loss(critic: Net, generated: Any, real: Any, key: Any) -> Any:
        of_generated, of_real = jax.vmap(critic)(generated), jax.vmap(critic)(real)
        if objective == "gan":
            real_loss = -jnp.mean(jax.nn.log_sigmoid(of_real))
            return real_loss - jnp.mean(jax.nn.log_sigmoid(-of_generated))
        loss = jnp.mean(of_generated) - jnp.mean(of_real)
        if own:
            loss += jnp.mean(of_real**2)
        if objective == "wgan_gp":
            share = jax.random.uniform(jax.random.fold_in(key, 1), (len(real),))[:, None]
            mixed = share * real + (1 - share) * generated
            slopes = jax.vmap(jax.grad(lambda row: critic(row)[0]))(mixed)
            loss += 10 * jnp.mean((jnp.linalg.norm(slopes, axis=1) - 1) ** 2)
        return loss

    def generator_loss(generator: Net, critic: Net, noise: Any) -> Any:
        scores = jax.vmap(critic)(jax.vmap(generator)(noise))
        if objective == "gan":
            return -jnp.mean(jax.nn.log_sigmoid(scores))
        return -jnp.mean(scores)

    @eqx.filter_jit
    def critic_step(critic: Net, state: Any, generator: Net, real: Any, key: Any) -> Any:
        generated = jax.vmap(generator)(noise(key, len(real)))
        gradient = eqx.filter_grad(critic_loss)(critic, generated, real, key)
        updates, state = move_critic.update(gradient, state)
        critic = eqx.apply_updates(critic, updates)
        if objective == "wgan":
            weights, rest = eqx.partition(critic, eqx.is_inexact_array)
            weights = jax.tree.map(lambda leaf: jnp.clip(leaf, -0.05, 0.05), weights)
            critic = eqx.combine(weights, rest)
        return critic, state

    @eqx.filter_jit
    def generator_step(generator: Net, state: Any, critic: Net, key: Any) -> Any:
        gradient = eqx.filter_grad(generator_loss)(generator, critic, noise(key, BATCH))
        updates, state = move_generator.update(gradient, state)
        return eqx.apply_updates(generator, updates), state

    @eqx.filter_jit
    def losses(generator: Net, critic: Net, real: Any, key: Any) -> Any:
        drawn = noise(key, len(real))
        of_critic = critic_loss(critic, jax.vmap(generator)(drawn), real, key)
        return generator_loss(generator, critic, drawn), of_critic

    return Plain(move_generator, move_critic, critic_step, generator_step, losses)


@dataclass(frozen=True)
class Begun:
    """The initial generator and critic of a trial, and the states of their optimizers."""

    nets: tuple[Net, Net]
    states: tuple[Any, Any]


@compiled_hastily()
def plain_run(
    study: Bench, trial: TrialSpec, replicate: int = 0, begun: Begun | None = None
) -> tuple[Net, Net, NDArray[Any]]:
    """Nets after the last step of the trial, and the losses after each epoch."""
    train: Any = study.config.train
    run = plain(train.objective, float(trial.params["g_lr"]), float(trial.params["c_lr"]))
    if begun is None:
        generator, critic = plain_nets(study, trial, replicate)
        state_g = run.move_generator.init(eqx.filter(generator, eqx.is_inexact_array))
        state_c = run.move_critic.init(eqx.filter(critic, eqx.is_inexact_array))
    else:
        (generator, critic), (state_g, state_c) = begun.nets, begun.states
    lane = jax.random.wrap_key_data(words(SEED, "latent", trial.number, replicate)[:2])
    shared = jax.random.wrap_key_data(words(SEED, "latent of evaluation")[:2])
    rows, count, data = [], 0, study.data
    for epoch in epoch_order(SEED, replicate, train.epochs, len(data.x_train), BATCH):
        seen = []
        for index in epoch:
            key, real = jax.random.fold_in(lane, count), data.x_train[index]
            seen.append([float(loss) for loss in run.losses(generator, critic, real, key)])
            before = critic
            critic, state_c = run.critic_step(critic, state_c, generator, real, key)
            count += 1
            if count % train.critic_steps == 0:
                # all losses of a user-defined objective are of the models before the step
                against = before if train.objective == "own:losses" else critic
                generator, state_g = run.generator_step(generator, state_g, against, key)
        after = [float(loss) for loss in run.losses(generator, critic, data.x_val, shared)]
        rows.append([*np.mean(seen, axis=0), *after])
    return generator, critic, np.array(rows)


def assert_same_weights(found: Any, plain: Net) -> None:
    """By the norm of each leaf."""
    leaves = [jnp.asarray(leaf) for layer in found.layers for leaf in (layer.weight, layer.bias)]
    expected = [leaf for linear in plain.linears for leaf in (linear.weight, linear.bias)]
    assert len(leaves) == len(expected)
    for leaf, other in zip(leaves, expected, strict=True):
        distance = float(jnp.linalg.norm(leaf - other) / jnp.linalg.norm(other))
        assert distance < RELATIVE


@pytest.mark.parametrize(
    ("settings", "lane_loops"),
    [
        ((), ("vmap",)),
        pytest.param((*WGAN, "study.replicates=2"), ("map",), marks=pytest.mark.slow),
        pytest.param(GAN, ("map", "vmap"), marks=pytest.mark.slow),
    ],
    ids=["wgan_gp", "wgan with replicates", "gan"],
)
def test_a_lane_equals_the_trial_in_plain_equinox(
    settings: tuple[str, ...], lane_loops: tuple[str, ...], coupled: Make
) -> None:
    study = coupled(*settings)
    companion = spec(1, g_lr=3e-4, c_lr=1e-3)
    members = range(study.config.study.replicates)
    expected = [plain_run(study, TRIAL, replicate) for replicate in members]

    for lane_loop in lane_loops:
        outcome = study.train([companion, TRIAL], lane_loop=lane_loop)

        (lane,) = (lane for lane in outcome.lanes if lane.number == TRIAL.number)
        for replicate in members:
            models = trained(study, TRIAL, outcome, replicate)
            generator, critic, losses = expected[replicate]
            assert_same_weights(models["generator"], generator)
            assert_same_weights(models["critic"], critic)
            curve = lane.curve.by_member[replicate]
            np.testing.assert_allclose(curve[:, :4], losses, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "shapes"),
    [((), ((12, 1), (5, 2))), (USERS, ((12, 1), (7, 2)))],
    ids=["wgan_gp", "own"],
)
def test_each_shape_in_a_padded_class_equals_its_plain_trial(
    objective: tuple[str, ...], shapes: tuple[tuple[int, int], ...], coupled: Make
) -> None:
    study = coupled(*objective)
    trials = [
        spec(number, g_width=width, c_depth=depth, **TRIAL.params)
        for number, (width, depth) in enumerate(shapes)
    ]

    outcome = study.train(trials, padded_to={"generator": (16, 2), "critic": (10, 2)})

    for trial in trials:
        models = trained(study, trial, outcome)
        generator, critic, _ = plain_run(study, trial)
        assert_same_weights(models["generator"], generator)
        assert_same_weights(models["critic"], critic)


def test_a_lane_resumes_from_its_checkpoint_bit_for_bit(coupled: Make) -> None:
    study = coupled(*GAN, "train.epochs=6", "train.ema=0.9")
    (whole,) = study.train([TRIAL]).lanes

    first = study.train([TRIAL], epochs=(0, 2))
    (rest,) = study.train([TRIAL], epochs=(2, 6), after=first).lanes

    joined = np.concatenate([first.lanes[0].curve.values, rest.curve.values])
    assert joined.tobytes() == whole.curve.values.tobytes()


@pytest.mark.slow
def test_trials_start_from_a_saved_game_as_in_plain_equinox(coupled: Make) -> None:
    """With weights and moments of both models; noise and order of the data are the trial's own."""
    study, padded_to = coupled(*WGAN, "train.epochs=4"), {"generator": (16, 3), "critic": (12, 2)}
    first = study.train([TRIAL], epochs=(0, 2), padded_to=padded_to)
    start, state = saved(study, TRIAL, state_after(study, first, TRIAL))
    models: Any = state.model
    moments: Any = state.opt_state
    nets = (
        Net(linears_of(models.parts["generator"]), jax.nn.relu),
        Net(linears_of(models.parts["critic"]), jnp.tanh),
    )
    other = spec(9, g_lr=7e-4, c_lr=1e-3)
    run = plain("wgan", 7e-4, 1e-3)
    fresh = [
        run.move_generator.init(eqx.filter(nets[0], eqx.is_inexact_array)),
        run.move_critic.init(eqx.filter(nets[1], eqx.is_inexact_array)),
    ]
    # the other entries of a saved state are not momentum
    kept = [
        jax.tree.unflatten(jax.tree.structure(one), leaves[: len(jax.tree.leaves(one))])
        for one, name in zip(fresh, ("generator", "critic"), strict=True)
        for leaves in [jax.tree.leaves(moments[name])]
    ]
    generator, critic, losses = plain_run(study, other, 0, Begun(nets, (kept[0], kept[1])))

    study.trainer = Trainer(study.config, study.data, study.directory, start)
    outcome = study.train([other], padded_to=padded_to)

    models = trained(study, other, outcome)
    assert_same_weights(models["generator"], generator)
    assert_same_weights(models["critic"], critic)
    np.testing.assert_allclose(outcome.lanes[0].curve.values[:, :4], losses, rtol=1e-8)


def begun(study: Bench) -> tuple[Coupled, State, LaneParameters, Batch]:
    """The program at its first step."""
    program, settings = program_of(study, TRIAL), study.config.settings_of(TRIAL.params)
    lane = program.lane(TRIAL.number, settings)
    state = program.begin(program.layout.init(TRIAL.number, settings), lane)
    return program, state, lane, Batch(study.data.x_train[:BATCH], study.data.y_train[:BATCH])


def bits(state: State, name: str) -> list[bytes]:
    """A model and the state of its optimizer."""
    return [
        np.asarray(leaf).tobytes()
        for leaf in jax.tree.leaves((state.model[name], state.optimizer[name]))
    ]


def every(steps: int, lane: LaneParameters) -> LaneParameters:
    """`lane` with this many steps of the critic per step of the generator."""
    numbers = lane.numbers.copy()
    numbers[lane.names.index("train.critic_steps")] = steps
    return eqx.tree_at(lambda lane: lane.numbers, lane, numbers)


@pytest.mark.parametrize(
    "objective",
    [(), pytest.param(WGAN, marks=pytest.mark.slow), GAN, USERS],
    ids=["wgan_gp", "wgan", "gan", "own"],
)
def test_each_loss_only_trains_its_own_model(objective: tuple[str, ...], coupled: Make) -> None:
    program, state, lane, batch = begun(coupled(*objective))
    step = jax.jit(program.step)

    critic_alone, _ = step(state, batch, every(2, lane), 0)
    both, _ = step(state, batch, every(1, lane), 0)

    # the loss of the critic affects no bit of the generator or its optimizer
    assert bits(critic_alone, "generator") == bits(state, "generator")
    assert bits(critic_alone, "critic") != bits(state, "critic")
    # that of the generator in the same step affects no further bit of the critic
    assert bits(both, "generator") != bits(state, "generator")
    assert bits(both, "critic") == bits(critic_alone, "critic")


def test_a_loss_that_is_nan_only_affects_its_own_model(coupled: Make) -> None:
    program, state, lane, batch = begun(coupled("train.objective=own:broken"))

    moved, _ = jax.jit(program.step)(state, batch, every(1, lane), 0)

    assert np.isnan(moved.model["generator"]).any()
    assert np.isfinite(moved.model["critic"]).all()


@pytest.mark.parametrize(
    "objective",
    [WGAN, pytest.param((), marks=pytest.mark.slow), pytest.param(USERS, marks=pytest.mark.slow)],
    ids=["wgan", "wgan_gp", "own"],
)
def test_gradients_are_the_same_if_they_are_reported(
    objective: tuple[str, ...], coupled: Make
) -> None:
    found = []
    for debug in ("true", "false"):
        program, state, lane, batch = begun(coupled(*objective, f"train.debug_gradients={debug}"))
        step = eqx.filter_jit(program.step)
        for _ in range(3):
            state, _ = step(state, batch, every(2, lane), 0)
        found.append(state.model)

    for looked_at, plain in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(looked_at, plain, rtol=RELATIVE)


@pytest.mark.slow
def test_a_loss_with_a_gradient_to_its_input_part_is_reported(coupled: Make) -> None:
    study = coupled(
        "train.objective=own:leaking",
        "model.critic.input=generator",
        "train.epochs=2",
        "train.debug_gradients=true",
    )
    (lane,) = study.trainer.train(study.work([TRIAL]), "here", None).lanes

    assert lane.failure is not None
    assert "the loss of critic has a gradient to generator" in lane.failure.error_message


def test_generated_rows_cannot_be_scaled_by_ranks(coupled: Make) -> None:
    with pytest.raises(StudyError, match=r"data\.scale: generated rows are scaled back by"):
        coupled(*GAN, "data.scale=quantile")


@pytest.mark.parametrize(
    "scale",
    ["standard", *(pytest.param(x, marks=pytest.mark.slow) for x in ("minmax", "robust", "none"))],
)
def test_generated_rows_are_measured_in_the_units_of_the_data(scale: str, coupled: Make) -> None:
    study = coupled(*GAN, f"data.scale={scale}")
    program, state, lane, _ = begun(study)
    data = study.data

    scores = jax.jit(program.evaluate)(state, Batch(data.x_val, data.y_val), lane)

    with np.load(study.directory / "rows.npz") as file:
        x, mode = file["x"], file["mode"]
    # a row before it was scaled, from its place in the scaled parts
    scaled = np.concatenate([data.x_train, data.x_val, data.x_test])
    slope = np.ptp(x, axis=0) / np.ptp(scaled, axis=0)
    offset = x.mean(axis=0) - scaled.mean(axis=0) * slope
    generated = first_rows(program, state, len(data.x_val)) * slope + offset
    real, training = (part * slope + offset for part in (data.x_val, data.x_train))
    nearest = {tuple(row): label for row, label in zip(np.round(x, 6), mode, strict=True)}
    labels = np.array([nearest[tuple(row)] for row in np.round(training, 6)])
    means = np.stack([training[labels == label].mean(axis=0) for label in "abc"])
    np.testing.assert_allclose(scores[2], sliced(generated, real), rtol=RELATIVE)
    np.testing.assert_allclose(data.mode_means, means, rtol=RELATIVE)


def first_rows(program: Coupled, state: State, count: int) -> NDArray[Any]:
    """The generator's output for the noise with which every trial is measured."""
    shared = jax.random.wrap_key_data(words(SEED, "latent of evaluation")[:2])
    noise = jax.random.normal(jax.random.fold_in(shared, 0), (count, 3))
    model: Any = program.saver.model(state)
    return np.asarray(model.parts["generator"](noise))


def sliced(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The distance by SciPy."""
    ways = directions(SEED, one.shape[1])
    return float(np.mean([wasserstein_distance(one @ way, other @ way) for way in ways]))


def test_a_mode_is_covered_by_one_row_in_a_hundred_near_its_mean(coupled: Make) -> None:
    study = coupled()
    covered = measure_of("modes_covered", data_spec(study.config, study.data))
    means = study.data.mode_means
    rows = np.full((200, 2), 1e3)
    rows[:2] = means[0] + [0.0, 0.249]
    rows[2:4] = means[1] + [0.251, 0.0]
    rows[4] = means[2]

    assert float(covered(jnp.asarray(rows), jnp.asarray(rows))) == 1
    rows[5] = means[2]
    assert float(covered(jnp.asarray(rows), jnp.asarray(rows))) == 2


@pytest.mark.slow
def test_a_fold_measures_in_the_units_of_the_data_too(coupled: Make) -> None:
    study = coupled(*GAN, "study.folds=3", "train.epochs=1")
    still = spec(2, g_lr=1e-30, c_lr=1e-3)
    (lane,) = study.train([still]).lanes

    data, (program, state, _, _) = study.data, begun(study)
    own = data.x_train * data.x_scale + data.x_mean
    for fold in range(3):
        training, real = own[data.fold_of != fold], own[data.fold_of == fold]
        rows = first_rows(program, state, len(real))
        generated = rows * training.std(axis=0) + training.mean(axis=0)
        measured = lane.curve.by_member[fold, 0, 4]
        np.testing.assert_allclose(measured, sliced(generated, real), rtol=RELATIVE)
