"""A trial continues with its moments, in its study and in plain Optax alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

from sweeper.config import parse
from sweeper.data.order import epoch_order
from sweeper.executors.executor import Outcome
from sweeper.executors.trainer import Trainer
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import LaneFile, write_lanes
from sweeper.programs.continued import SavedStart
from sweeper.programs.data_spec import blank_of, data_spec
from sweeper.programs.optax_state import has_schedule, parameters_of
from sweeper.programs.program import State, at_its_best
from sweeper.programs.saved_file import PlainState, SavedFile, plain_state_of, tensors_of
from sweeper.trial import TrialSpec
from tests.preflight.test_check_decay import SPEC
from tests.programs.conftest import Bench, spec
from tests.programs.plain import compiled_hastily
from tests.small_studies import PARTS, bent

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
WINE = ("data.name=wine", "train.batch_size=32", "results.save_optimizer=true")
TRIAL = spec(5, depth=2, width=16, activation="tanh", lr=1e-3, weight_decay=0.3)
CASES: dict[str, tuple[str, ...]] = {
    "clipped, with a schedule": (
        "optimizer.clip_norm=0.5",
        "optimizer.schedule={name='warmup_cosine'}",
    ),
    "an average is measured": ("optimizer={name='sgd',momentum=0.9}", "train.ema=0.8"),
    "whole arrays": (
        "optimizer={name='adafactor',min_dim_size_to_factor=8,schedule={name='cosine'}}",
    ),
    "the user's own": ("optimizer={name='own_optimizer:heavy_ball',schedule={name='cosine'}}",),
}
LONG = ("an average is measured", "whole arrays", "clipped, with a schedule")
OWN = """
import jax.numpy as jnp
import optax

def halved(lr, weight_decay):
    return optax.adamw(lr, weight_decay=weight_decay, mu_dtype=jnp.bfloat16)



def heavy_ball(lr, weight_decay):
    return optax.chain(optax.add_decayed_weights(weight_decay), optax.sgd(lr, momentum=0.9))


def injected(lr, weight_decay):
    sgd = optax.inject_hyperparams(optax.sgd)(lr, momentum=0.9)
    return optax.chain(optax.add_decayed_weights(weight_decay), sgd)
"""


def state_after(bench: Bench, outcome: Outcome, trial: TrialSpec) -> State:
    """The trial's own state at the end of a segment after which it is unfinished."""
    settings = bench.config.settings_of(trial.params)
    program = Programs(data_spec(bench.config, bench.data)).exact(settings)
    lane = next(lane for lane in outcome.lanes if lane.number == trial.number)
    file = LaneFile(bench.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
    return file.lane(trial.number, program.layout.exact_abstract(settings))


def saved(bench: Bench, trial: TrialSpec, state: State) -> tuple[SavedStart, PlainState]:
    """The contents of a file with the state, and plain objects from it."""
    settings, data = bench.config.settings_of(trial.params), data_spec(bench.config, bench.data)
    program = Programs(data).exact(settings)
    record = {"has_optimizer": True, "data": {"spec": asdict(data)}, "versions": {}}
    file = SavedFile("saved", record, tensors_of(program, settings, at_its_best(state)), "")
    return SavedStart(file, settings), plain_state_of(file, program, settings)


@compiled_hastily()
def val_losses(
    bench: Bench,
    start: PlainState,
    optimizer: optax.GradientTransformation,
    epochs: slice,
    ema: float,
) -> list[float]:
    """The result of plain Optax continuing from `start`, after each epoch."""
    config, data = bench.config, bench.data
    model, average, state = start.trained, start.model, start.opt_state
    assert state is not None

    def loss(model: Any, x: Any, y: Any) -> Any:
        outputs = jax.vmap(model)(x)
        return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()

    @eqx.filter_jit
    def step(model: Any, average: Any, state: Any, x: Any, y: Any) -> Any:
        gradients = eqx.filter_grad(loss)(model, x, y)
        updates, state = optimizer.update(gradients, state, parameters_of(model))
        model = eqx.apply_updates(model, updates)
        if ema:
            new, rest = eqx.partition(model, eqx.is_inexact_array)
            old = parameters_of(average)
            mean = jax.tree.map(lambda old, new: old + (1 - ema) * (new - old), old, new)
            average = eqx.combine(mean, rest)
        return model, average, state

    losses: list[float] = []
    rows, batch = len(data.x_train), config.train.batch_size
    for epoch in epoch_order(config.study.seed, 0, config.train.epochs, rows, batch)[epochs]:
        for index in epoch:
            model, average, state = step(
                model, average, state, data.x_train[index], data.y_train[index]
            )
        losses.append(float(loss(average if ema else model, data.x_val, data.y_val)))
    return losses


# no phase trains c before the end
TURNS = bent(
    PARTS,
    "data.split={val=0.2,test=0.1}",
    "optimizer={name='adamw',weight_decay=0.1,schedule={name='cosine'}}",
    "train.epochs=6",
    "train.warmup.epochs=6",
    "train.switching=flag",
    "train.phases.fit={epochs=1,loss='data',trains=['a','b']}",
    "train.phases.follow={epochs=1,loss='follow',trains=['c']}",
    "search={optimizer={lr={type='float',low=1e-4,high=1e-2,log=true}}}",
    "results.save_optimizer=true",
    "execution={precision='float64'}",
)


@pytest.fixture
def own_optimizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_optimizer.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case in LONG)) for case in CASES]
)
def test_plain_optax_continues_like_the_study(
    case: str, bench: Callable[..., Bench], own_optimizer: None
) -> None:
    """The second half of a trial; in padded classes also another that starts from the first."""
    study = bench(*WINE, *CASES[case])
    trial, ema = TRIAL, study.config.settings_of(TRIAL.params).train.ema or 0.0
    padded = {} if "arrays" in case or "own" in case else {"padded_to": (24, 3)}

    first = study.train([trial], epochs=(0, 3), **padded)
    second = study.train([trial], epochs=(3, 6), after=first, **padded)
    start, plain = saved(study, trial, state_after(study, first, trial))
    losses = val_losses(study, plain, plain.optimizer, slice(3, 6), ema)

    column = study.config.train.metric_names.index("val_loss")
    np.testing.assert_allclose(second.lanes[0].curve.values[:, column], losses, rtol=RELATIVE)
    shapes = [leaf.shape for leaf in jax.tree.leaves(plain.model) if eqx.is_array(leaf)]
    assert (24, 24) not in shapes, "padding is not to be seen"
    if not padded:
        return

    other = TrialSpec(9, {**trial.params, "lr": 5e-4}, {}, 0)
    study.trainer = Trainer(study.config, study.data, study.directory, start)
    continued = study.train([other], epochs=(0, 3), **padded).lanes[0].curve.values[:, column]

    program = Programs(data_spec(study.config, study.data)).exact(start.settings)
    optimizer = program.saver.optimizer(study.config.settings_of(other.params))
    fresh: Any = optimizer.init(parameters_of(plain.trained))
    moments = jax.tree.leaves(plain.opt_state)
    if has_schedule(start.settings):  # it begins again
        moments[-1] = jax.tree.leaves(fresh)[-1]
    state = jax.tree.unflatten(jax.tree.structure(fresh), moments)
    begun = PlainState(plain.model, plain.trained, optimizer, state)
    losses = val_losses(study, begun, optimizer, slice(0, 3), ema)
    np.testing.assert_allclose(continued, losses, rtol=RELATIVE)


@pytest.mark.slow
def test_the_rate_of_a_trial_that_starts_from_another_is_its_own(
    bench: Callable[..., Bench], own_optimizer: None
) -> None:
    """Also if the saved state of its optimizer contains that of the other."""
    curves: dict[str, Any] = {}
    for name in ("heavy_ball", "injected"):
        study = bench(*WINE, f"optimizer={{name='own_optimizer:{name}'}}")
        first = study.train([TRIAL], epochs=(0, 1))
        start, _ = saved(study, TRIAL, state_after(study, first, TRIAL))
        study.trainer = Trainer(study.config, study.data, study.directory, start)
        faster = TrialSpec(9, {**TRIAL.params, "lr": 5e-3}, {}, 0)
        curves[name] = study.train([faster], epochs=(0, 2)).lanes[0].curve.values

    np.testing.assert_allclose(curves["injected"], curves["heavy_ball"], rtol=RELATIVE)


def test_a_trial_continues_with_moments_in_bfloat16(
    bench: Callable[..., Bench], own_optimizer: None
) -> None:
    study = bench(*WINE, "optimizer={name='own_optimizer:halved'}")
    whole = study.train([TRIAL]).lanes[0].curve.values
    first = study.train([TRIAL], epochs=(0, 3))
    second = study.train([TRIAL], epochs=(3, 6), after=first).lanes[0].curve.values

    types = {str(leaf.dtype) for leaf in jax.tree.leaves(state_after(study, first, TRIAL))}
    assert "bfloat16" in types
    assert second.tobytes() == whole[3:].tobytes()


def test_a_trial_without_its_moments_ends_differently(bench: Callable[..., Bench]) -> None:
    study = bench(*WINE)
    whole = study.train([TRIAL]).lanes[0].curve.values
    first = study.train([TRIAL], epochs=(0, 3))
    kept = study.train([TRIAL], epochs=(3, 6), after=first).lanes[0].curve.values

    state = state_after(study, first, TRIAL)
    lost = eqx.tree_at(lambda s: s.optimizer, state, jax.tree.map(np.zeros_like, state.optimizer))
    file = first.lanes[0].checkpoint
    digest = write_lanes(study.directory / file, {(TRIAL.number, 0): lost})
    first.digests[file] = digest  # type: ignore[index]
    other = study.train([TRIAL], epochs=(3, 6), after=first).lanes[0].curve.values

    assert kept.tobytes() == whole[3:].tobytes()
    assert not np.allclose(other, kept, rtol=1e-3)


def test_the_saved_state_is_that_of_the_best_epoch(bench: Callable[..., Bench]) -> None:
    """Saved after its last epoch, it equals the state after the best one."""
    study = bench(*WINE, "study.value=best", "train.epochs=4")
    fast = spec(5, **{**TRIAL.params, "lr": 0.1})
    column = study.config.train.metric_names.index("val_loss")
    outcome = study.train([fast])
    losses = outcome.lanes[0].curve.values[:, column]
    best = int(np.argmin(losses)) + 1
    assert best < 4, "else this test shows nothing"

    settings = study.config.settings_of(fast.params)
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    lane = outcome.lanes[0]
    file = LaneFile(study.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
    state = file.lane(5, at_its_best(program.layout.abstract()))
    then = study.train([fast], epochs=(0, best))
    expected = at_its_best(state_after(study, then, fast))

    assert int(state.step) == best * (len(study.data.x_train) // 32)
    assert [leaf.tobytes() for leaf in jax.tree.leaves(state)] == [
        leaf.tobytes() for leaf in jax.tree.leaves(expected)
    ]


@compiled_hastily()
def parts_val_losses(
    study: Bench, start: PlainState, optimizers: Any, states: Any, epochs: slice
) -> list[float]:
    """The result of plain Optax for the parts a and b, each with its own state."""
    data, train, model = study.data, study.config.train, start.model
    unit = data.y_scale[0] ** 2

    def loss(trained: Any, x: Any, y: Any) -> Any:
        outputs = jax.vmap(lambda x: trained["b"](trained["a"](x)))(x)
        return ((outputs - y) ** 2).mean()

    @eqx.filter_jit
    def step(parts: Any, states: Any, x: Any, y: Any) -> Any:
        moved, new = {}, {}
        for name, gradients in eqx.filter_grad(loss)(parts, x, y).items():
            arrays = parameters_of(parts[name])
            updates, new[name] = optimizers[name].update(gradients, states[name], arrays)
            moved[name] = eqx.apply_updates(parts[name], updates)
        return moved, new

    parts: dict[str, Any] = {name: model.parts[name] for name in "ab"}  # type: ignore[attr-defined]
    states = {name: states[name] for name in parts}
    losses: list[float] = []
    rows = len(data.x_train)
    orders = epoch_order(study.config.study.seed, 0, train.epochs, rows, train.batch_size)
    for epoch in orders[epochs]:
        for index in epoch:
            parts, states = step(parts, states, data.x_train[index], data.y_train[index])
        losses.append(float(loss(parts, data.x_val, data.y_val)) * unit)
    return losses


@pytest.mark.slow
def test_each_part_continues_with_its_own_moments(tmp_path: Path) -> None:
    """In phases with a compiled program each; a part that no phase trained has moments of zero."""
    study = Bench(parse(TURNS, Path("study.toml")), tmp_path)
    trial = spec(5, lr=1e-3)
    first = study.train([trial], epochs=(0, 2))
    second = study.train([trial], epochs=(2, 4), after=first)
    start, plain = saved(study, trial, state_after(study, first, trial))
    optimizers: Any = plain.optimizer
    moments: Any = plain.opt_state
    column = study.config.train.metric_names.index("val_loss_data")

    losses = parts_val_losses(study, plain, optimizers, moments, slice(2, 4))

    np.testing.assert_allclose(second.lanes[0].curve.values[:, column], losses, rtol=RELATIVE)
    assert all(not leaf.any() for leaf in jax.tree.leaves(moments["c"]) if leaf.ndim)

    other = spec(9, lr=5e-4)
    study.trainer = Trainer(study.config, study.data, study.directory, start)
    continued = study.train([other], epochs=(0, 2)).lanes[0].curve.values[:, column]

    program: Any = Programs(data_spec(study.config, study.data)).exact(start.settings)
    optimizers = program.saver.optimizer(study.config.settings_of(other.params))
    states: dict[str, Any] = {}
    for name, part in plain.model.parts.items():  # type: ignore[attr-defined]
        fresh = optimizers[name].init(parameters_of(part))
        kept = jax.tree.leaves(moments[name])[:-1]
        leaves = [*kept, jax.tree.leaves(fresh)[-1]]  # the schedule begins again
        states[name] = jax.tree.unflatten(jax.tree.structure(fresh), leaves)
    losses = parts_val_losses(study, plain, optimizers, states, slice(0, 2))
    np.testing.assert_allclose(continued, losses, rtol=RELATIVE)


@pytest.mark.parametrize("optimizer", ["optimizer={name='sgd'}", "optimizer={name='sgd',lr=9.0}"])
def test_the_optimizer_of_a_part_has_the_rate_of_its_phase(optimizer: str) -> None:
    """The first of a cycle that trains the part, or the warm-up."""
    phases = [
        "train.warmup={phase='fit',epochs=1}",
        "train.cycle=['follow','both']",
        "train.phases.follow.lr=0.5",
        "train.phases.fit={epochs=1,loss='data',trains=['a','b'],lr=0.25}",
        "train.phases.both={epochs=1,loss='follow',trains=['a','c'],lr=0.125}",
    ]
    settings = parse(PARTS, Path("study.toml"), [optimizer, *phases, "search={}"]).settings_of({})
    program = Programs(SPEC).exact(settings)
    parts: Any = program.saver.model(blank_of(program.layout.abstract()))

    rates: dict[str, set[float]] = {}
    for name, sgd in program.saver.optimizer(settings).items():
        arrays = parameters_of(parts.parts[name])
        ones = jax.tree.map(np.ones_like, arrays)
        updates, _ = sgd.update(ones, sgd.init(arrays), arrays)
        rates[name] = {-float(np.ravel(leaf)[0]) for leaf in jax.tree.leaves(updates)}

    assert rates == {"a": {0.125}, "b": {0.25}, "c": {0.5}}
