"""Optimizers, schedules and clipping equal those of Optax on a trial in plain Equinox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sweeper.config import parse
from sweeper.config.optimizer import SHAPES
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.programs.optax_state import parameters_of
from sweeper.programs.program import Batch
from sweeper.programs.schedules import SCHEDULES
from tests.in_process import prepared
from tests.programs import plain
from tests.programs.conftest import STUDY, Bench, spec
from tests.small_studies import PARTS

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
SHAPE = {"depth": 1, "width": 16, "activation": "relu"}
WAYS = plain.WAYS
FEW = ("train.epochs=2", "train.metrics=[]")
DECAYED = spec(5, **SHAPE, lr=1e-3, weight_decay=0.3)
# what they train with in a lane, in which all of them are arrays: adafactor computes one in float32
ARRAY = jnp.asarray


def loss(outputs: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()


def smoothed(outputs: Any, y: Any) -> Any:
    labels = optax.smooth_labels(jax.nn.one_hot(y, outputs.shape[-1]), 0.1)
    return optax.softmax_cross_entropy(outputs, labels).mean()


def decoupled(*direction: optax.GradientTransformation, net: plain.Net) -> Any:
    """Along `direction`, with weight decay times the learning rate."""
    decay = optax.add_decayed_weights(0.3, mask=lambda _: plain.weights_only(net))
    return optax.chain(*direction, decay, optax.scale_by_learning_rate(1e-3))


# the table, and Optax's own transformation for its direction
OPTIMIZERS: dict[str, tuple[str, Callable[[], list[optax.GradientTransformation]]]] = {
    "adam": ('name="adam",b1=0.8', lambda: [optax.scale_by_adam(b1=0.8)]),
    "rmsprop": (
        'name="rmsprop",b2=0.8,eps=1e-4,momentum=0.5',
        lambda: [optax.scale_by_rms(0.8, 1e-4, eps_in_sqrt=False), optax.trace(0.5)],
    ),
    "lion": ('name="lion",b1=0.8,b2=0.95', lambda: [optax.scale_by_lion(0.8, 0.95)]),
    "sgd": (
        'name="sgd",momentum=0.9,nesterov=true',
        lambda: [optax.trace(0.9, nesterov=True)],
    ),
    "clip_value": (
        'name="sgd",clip_value=1e-3',
        lambda: [optax.clip(1e-3), optax.trace(0.0)],
    ),
    "clip_norm": (
        'name="lion",clip_norm=1e-2,b1=0.9,b2=0.9',
        lambda: [optax.clip_by_global_norm(1e-2), optax.scale_by_lion(0.9, 0.9)],
    ),
}


# each in one way to train a bucket, in turn; the other is for the slow tests
IN_WAYS = [
    pytest.param(
        case,
        way,
        marks=[pytest.mark.slow] * (case.startswith("clip") or [*WAYS][index % 2] != way),
    )
    for index, case in enumerate(OPTIMIZERS)
    for way in WAYS
]


@pytest.mark.parametrize(("case", "way"), IN_WAYS)
def test_an_optimizer_equals_that_of_optax(
    case: str, way: str, bench: Callable[..., Bench]
) -> None:
    table, direction = OPTIMIZERS[case]
    study = bench(*FEW, f"optimizer={{{table},lr=1e-3}}")
    companion = spec(1, **{**DECAYED.params, "lr": 2e-3})

    optimizer = decoupled(*direction(), net=plain.first_net(study, DECAYED))
    expected = plain.train(study, DECAYED, optimizer, loss)
    curve = study.curves([companion, DECAYED], **WAYS[way])[5]
    np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)


@pytest.mark.parametrize(
    ("factored", "written", "lane_loop"),
    [
        (8, "min_dim_size_to_factor=8,", "vmap"),
        pytest.param(128, "", "map", marks=pytest.mark.slow),
        pytest.param(8, "min_dim_size_to_factor=8,", "map", marks=pytest.mark.slow),
        pytest.param(128, "", "vmap", marks=pytest.mark.slow),
    ],
    ids=["8-vmap", "128-map", "8-map", "128-vmap"],
)
def test_adafactor_sees_the_arrays_of_the_model(
    factored: int, written: str, lane_loop: str, bench: Callable[..., Bench]
) -> None:
    table = f'name="adafactor",{written}decay_rate=0.7'
    study = bench(*FEW, f"optimizer={{{table},lr=1e-3,clipping_threshold=0.5}}")
    trial = spec(5, **SHAPE, lr=1e-3, weight_decay=0.0)

    curve = study.curves([trial], lane_loop=lane_loop)[5]

    optimizer = optax.adafactor(
        1e-3,
        min_dim_size_to_factor=factored,
        decay_rate=ARRAY(0.7, jnp.float64),
        clipping_threshold=0.5,
    )
    expected = plain.train(study, trial, optimizer, loss)
    np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)


def test_sizes_of_arrays_are_left_out_on_request(bench: Callable[..., Bench]) -> None:
    table = 'name="adafactor",multiply_by_parameter_scale=false'
    study = bench(*FEW, f"optimizer={{{table},lr=1e-4}}")
    trial = spec(5, **SHAPE, lr=1e-4, weight_decay=0.0)

    optimizer = optax.adafactor(
        1e-4, multiply_by_parameter_scale=False, decay_rate=ARRAY(0.8, jnp.float64)
    )
    expected = plain.train(study, trial, optimizer, loss)
    np.testing.assert_allclose(study.curves([trial])[5], expected.rows, rtol=RELATIVE)


def optax_schedule(name: str, steps: int, numbers: dict[str, float]) -> optax.Schedule:
    """The schedule of Optax with this name, for a rate of 2."""
    number = {**SHAPES[name], **numbers}
    match name:
        case "cosine":
            return optax.cosine_decay_schedule(2.0, steps, alpha=number["end"])
        case "warmup_cosine":
            top = round(number["warmup"] * steps)
            first, last = 2 * number["start"], 2 * number["end"]
            return optax.warmup_cosine_decay_schedule(first, 2.0, top, steps, last)
        case "flat_cosine":
            flat = round(number["flat"] * steps)
            falling = optax.cosine_decay_schedule(2.0, steps - flat, number["end"])
            return optax.join_schedules([optax.constant_schedule(2.0), falling], [flat])
        case "exponential":
            return optax.exponential_decay(2.0, steps, number["end"])
        case _:
            first, last = 1 / number["start"], number["start"] / number["end"]
            return optax.cosine_onecycle_schedule(steps, 2.0, number["warmup"], first, last)


@pytest.mark.parametrize("numbers", [{}, {"warmup": 0.25, "flat": 0.75, "start": 0.1, "end": 0.05}])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_equals_that_of_optax(name: str, numbers: dict[str, float]) -> None:
    steps = 40
    own = {key: numbers.get(key, default) for key, default in SHAPES[name].items()}
    theirs = optax_schedule(name, steps, {key: own[key] for key in own})

    rates = [2 * SCHEDULES[name](ARRAY(float(s)), ARRAY(40.0), own) for s in range(steps + 1)]

    expected = [theirs(ARRAY(float(step))) for step in range(steps + 1)]
    np.testing.assert_allclose(rates, expected, rtol=RELATIVE, atol=1e-12)


# the shape of each schedule is tested above
@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, way, marks=[pytest.mark.slow] * ((name, way) != ("one_cycle", "exact")))
        for name in SCHEDULES
        for way in WAYS
    ],
)
def test_the_rate_follows_the_steps_of_each_trial(
    name: str, way: str, bench: Callable[..., Bench]
) -> None:
    """Trials of different lengths are lanes of one program, each with its own schedule."""
    numbers = {"warmup": 0.25, "flat": 0.75, "start": 0.1, "end": 0.05}
    each = {"warmup": "warmup=0.25", "flat": "flat=0.75", "start": "start=0.1", "end": "end=0.05"}
    written = ",".join(each[key] for key in SHAPES[name])
    study = bench(
        "train.metrics=[]",
        f'optimizer={{name="sgd",lr=1e-2,schedule={{name="{name}",{written}}}}}',
        "search.train.epochs={type='int',low=1,high=4}",
        "train.batch_size=314",
    )
    trials = [spec(n, **SHAPE, lr=2e-2, weight_decay=0.0, epochs=n) for n in (2, 4)]

    curves = study.curves(trials, **WAYS[way], epochs=(0, 4))

    for trial in trials:
        steps = int(trial.params["epochs"]) * (len(study.data.x_train) // 314)
        schedule = optax_schedule(name, steps, numbers)
        optimizer = optax.sgd(lambda step, schedule=schedule: schedule(step) / 100)
        expected = plain.train(study, trial, optimizer, loss)
        found = curves[trial.number][: len(expected.rows)]
        np.testing.assert_allclose(found, expected.rows, rtol=RELATIVE)


def test_numbers_of_a_schedule_can_be_searched_and_are_traced(bench: Callable[..., Bench]) -> None:
    study = bench(
        *FEW,
        'optimizer={name="sgd",lr=1e-2,schedule={name="warmup_cosine"}}',
        "search.optimizer.schedule.warmup={type='float',low=0.0,high=0.9}",
        "train.batch_size=314",
    )
    trials = [
        spec(n, **SHAPE, lr=2e-2, weight_decay=0.0, warmup=warmup)
        for n, warmup in ((1, 0.25), (2, 0.75))
    ]

    curves = study.curves(trials)

    assert not study.config.structural["optimizer.schedule.warmup"]
    for trial in trials:
        numbers = {"warmup": float(trial.params["warmup"])}
        schedule = optax_schedule("warmup_cosine", 8, numbers)
        optimizer = optax.sgd(lambda step, schedule=schedule: schedule(step) / 100)
        expected = plain.train(study, trial, optimizer, loss)
        np.testing.assert_allclose(curves[trial.number], expected.rows, rtol=RELATIVE)


OWN = """\
import optax


def scaled(*, lr, b1, cap, sign=False):
    steps = [optax.clip_by_block_rms(cap), optax.trace(b1)]
    if sign:
        steps.append(optax.scale_by_sign())
    return optax.chain(*steps, optax.scale_by_learning_rate(lr))
"""


@pytest.mark.parametrize("lane_loop", [pytest.param("map", marks=pytest.mark.slow), "vmap"])
def test_an_optimizer_can_be_user_defined(lane_loop: str, tmp_path: Path) -> None:
    """It gets its keys, floats traced, and sees the arrays of the model."""
    (tmp_path / "own_optimizers.py").write_text(OWN, encoding="utf-8")
    schedule = 'schedule={name="cosine"}'
    table = (
        f'optimizer={{name="own_optimizers:scaled",cap=0.01,sign=true,{schedule},clip_value=0.1}}'
    )
    betas = "search.optimizer={lr={type='float',low=1e-5,high=1e-1},b1={type='float',low=0,high=1}}"
    overrides = [*FEW, table, betas, "train.batch_size=314"]
    study = Bench(parse(STUDY, tmp_path / "study.toml", overrides), tmp_path)
    trials = [spec(n, **SHAPE, lr=1e-3, b1=b1) for n, b1 in ((1, 0.4), (5, 0.5))]

    curves = study.curves(trials, lane_loop=lane_loop)

    structure = study.config.settings_of(trials[0].params).structure()
    assert structure["optimizer.sign"] is True and "optimizer.b1" not in structure
    for trial in trials:
        optimizer = optax.chain(
            optax.clip(0.1),
            optax.clip_by_block_rms(0.01),
            optax.trace(float(trial.params["b1"])),
            optax.scale_by_sign(),
            optax.scale_by_learning_rate(optax.cosine_decay_schedule(1e-3, 8)),
        )
        expected = plain.train(study, trial, optimizer, loss)
        np.testing.assert_allclose(curves[trial.number], expected.rows, rtol=RELATIVE)


OF_THE_LOSS = """\
import optax


def careful(*, lr):
    plateau = optax.contrib.reduce_on_plateau(patience=1, rtol=0.1)
    return optax.chain(optax.contrib.momo_adam(lr), plateau)


def plain(*, lr):
    return optax.sgd(lr)


def weighted(*, lr):
    def update(updates, state, params=None, *, value, **_):
        return optax.tree.scale(-lr * value, updates), state

    return optax.GradientTransformationExtraArgs(lambda params: (), update)
"""


@pytest.mark.parametrize("lane_loop", [pytest.param("map", marks=pytest.mark.slow), "vmap"])
def test_an_optimizer_gets_the_loss_and_its_gradient(lane_loop: str, tmp_path: Path) -> None:
    """Also if it resumes from a checkpoint."""
    (tmp_path / "loss_optimizers.py").write_text(OF_THE_LOSS, encoding="utf-8")
    table = 'optimizer={name="loss_optimizers:careful",clip_norm=0.5}'
    search = "search.optimizer={lr={type='float',low=1e-5,high=1e-1}}"
    overrides = [*FEW, table, search, "train.batch_size=157", "train.label_smoothing=0.1"]
    study = Bench(parse(STUDY, tmp_path / "study.toml", overrides), tmp_path)
    trials = [spec(n, **SHAPE, lr=lr) for n, lr in ((1, 1e-3), (5, 2e-3))]

    begun = study.train(trials, lane_loop=lane_loop, epochs=(0, 1))
    ended = study.train(trials, lane_loop=lane_loop, epochs=(1, 2), after=begun)

    for trial, first, last in zip(trials, begun.lanes, ended.lanes, strict=True):
        optimizer = optax.chain(
            optax.clip_by_global_norm(0.5),
            optax.contrib.momo_adam(float(trial.params["lr"])),
            optax.contrib.reduce_on_plateau(patience=1, rtol=0.1),
        )
        expected = plain.train(study, trial, optimizer, smoothed, val_loss=loss)
        curve = np.concatenate([first.curve.values, last.curve.values])
        np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)


def test_each_part_gets_its_own_loss(tmp_path: Path) -> None:
    (tmp_path / "loss_optimizers.py").write_text(OF_THE_LOSS, encoding="utf-8")
    moved: dict[str, Any] = {}
    for name in ("plain", "weighted"):
        table = f"optimizer={{name='loss_optimizers:{name}'}}"
        config = parse(PARTS, tmp_path / "s.toml", [table, "execution.precision=float64"])
        data, settings = prepared(config), config.settings_of({"width": 4})
        program = Programs(data_spec(config, data)).exact(settings)
        lane = program.layout.lane(0, settings)
        state = program.begin(program.layout.init(0, settings), lane)
        batch = Batch(data.x_train[:64], data.y_train[:64])
        after, losses = jax.jit(program.step)(state, batch, lane, 0)
        moved[name] = {part: after.model[part] - state.model[part] for part in "ab"}

    value = losses[0] / data.y_scale[0] ** 2  # without the unit of the data
    for part in "ab":
        np.testing.assert_allclose(
            moved["weighted"][part], value * moved["plain"][part], rtol=RELATIVE, atol=1e-15
        )


def test_each_trial_of_a_searched_optimizer_uses_its_own(bench: Callable[..., Bench]) -> None:
    choices = "['adam','sgd','lion','adafactor']"
    study = bench(
        *FEW,
        "optimizer={b1=0.8}",
        f"search.optimizer.name={{type='categorical',choices={choices},name='optimizer'}}",
        "search.optimizer.momentum={type='float',low=0.0,high=0.9}",
    )
    directions = {
        "adam": lambda: [optax.scale_by_adam(b1=0.8)],
        "sgd": lambda: [optax.trace(0.5)],
        "lion": lambda: [optax.scale_by_lion(0.8, 0.99)],
    }

    for name, direction in directions.items():
        trial = spec(5, **DECAYED.params, optimizer=name, momentum=0.5)
        curve = study.curves([trial])[5]
        optimizer = decoupled(*direction(), net=plain.first_net(study, trial))
        expected = plain.train(study, trial, optimizer, loss)
        np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)


INJECTED = """\
import optax


def injected(*, lr, b1):
    sgd = optax.inject_hyperparams(optax.sgd)(2 * lr, momentum=b1)
    return optax.chain(optax.clip_by_block_rms(0.01), optax.apply_if_finite(sgd, 3))
"""


def injected_study(tmp_path: Path, *overrides: str) -> Bench:
    """A study with `optax.inject_hyperparams`, twice the learning rate, and 8 steps."""
    (tmp_path / "injected_optimizers.py").write_text(INJECTED, encoding="utf-8")
    table = 'optimizer={name="injected_optimizers:injected",b1=0.9}'
    rates = "search.optimizer={lr={type='float',low=1e-5,high=1e-1}}"
    everything = [*FEW, table, rates, "train.batch_size=314", *overrides]
    return Bench(parse(STUDY, tmp_path / "study.toml", everything), tmp_path)


def injected_in_optax(rate: Any) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_block_rms(0.01), optax.sgd(rate, momentum=0.9))


RATES = {
    "constant": lambda _: 2e-3,
    "cosine": optax.cosine_decay_schedule(2e-3, 8),
    "warmup_cosine": optax.warmup_cosine_decay_schedule(0.0, 2e-3, 2, 8),
}


@pytest.mark.parametrize("lane_loop", [pytest.param("map", marks=pytest.mark.slow), "vmap"])
@pytest.mark.parametrize("schedule", RATES)
def test_injected_hyperparameters_follow_the_schedule(
    schedule: str, lane_loop: str, tmp_path: Path
) -> None:
    """Also if a trial resumes from a checkpoint, whose state contains an earlier rate."""
    share = ",warmup=0.25" if schedule == "warmup_cosine" else ""
    named = f'optimizer.schedule={{name="{schedule}"{share}}}'
    study = injected_study(tmp_path, named)
    trial = spec(5, **SHAPE, lr=1e-3)

    begun = study.train([trial], lane_loop=lane_loop, epochs=(0, 1))
    ended = study.train([trial], lane_loop=lane_loop, epochs=(1, 2), after=begun)

    curve = np.concatenate([one.lanes[0].curve.values for one in (begun, ended)])
    expected = plain.train(study, trial, injected_in_optax(RATES[schedule]), loss)
    np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_injected_hyperparameters_are_in_the_state_of_each_precision(
    precision: str, tmp_path: Path
) -> None:
    study = injected_study(tmp_path, f"execution.precision={precision}")
    settings = study.config.settings_of({**SHAPE, "lr": 1e-3})
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    state, lane = program.init(0, settings), program.layout.lane(0, settings)

    begun = jax.jit(program.begin)(state, lane)

    assert jax.tree.structure(begun) == jax.tree.structure(program.layout.abstract())
    optimizer: Any = program.saver.optimizer(settings)
    saved = program.saver.opt_state(begun, settings)
    model = parameters_of(program.saver.model(begun))
    updates, _ = jax.jit(optimizer.update)(model, saved, model)
    expected = injected_in_optax(2e-3)
    plainly, _ = expected.update(model, expected.init(model), model)
    for found, right in zip(jax.tree.leaves(updates), jax.tree.leaves(plainly), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-6 if precision == "float32" else RELATIVE)
