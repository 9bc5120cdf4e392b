"""A lane of a padded class equals the trial alone, and its padding stays zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.config.model import TabMTable
from sweeper.executors.classes import Classes
from sweeper.executors.executor import Work
from sweeper.executors.lanes import TrialStart, stack
from sweeper.models.mlp import ACTIVATIONS, MLP, OTHER_THAN_ZERO, MlpShape
from sweeper.models.mlp_network import MlpNetwork
from sweeper.models.tabm import TabM, TabMShape
from sweeper.models.tabm_network import TabMNetwork
from sweeper.programs.program import State
from sweeper.programs.segment import Segment
from sweeper.trial import TrialSpec
from tests.programs.conftest import Bench, spec

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
CLASS = (24, 3)
RUN_WIDTHS = (8, 24)
EVERYTHING = (
    "data.name=iris",
    "train.epochs=50",
    "train.batch_size=16",
    "model.dropout=0.2",
    "optimizer.clip_norm=0.5",
)
KINDS = {
    "mlp": ("model.layer_norm=true", *EVERYTHING),
    "tabm": ("model={kind='tabm', ensemble_size=3}", *EVERYTHING),
}
OF_EACH_KIND = pytest.mark.parametrize("kind", KINDS)
TOLD = {"model.activation": ("relu", "tanh")}
# one program of each kind for all tests of what becomes of padding
SHORT = {kind: (*its, "train.epochs=6") for kind, its in KINDS.items()}
HOW = {
    "padded_to": CLASS,
    "run_widths": RUN_WIDTHS,
    "traced": {"model.activation": ("tanh", "sigmoid", "relu")},
}


@pytest.fixture(scope="module")
def known_classes() -> dict[tuple[str, ...], Classes]:
    """The compiled classes of each study of this file."""
    return {}


@pytest.fixture
def bench(
    bench: Callable[..., Bench], known_classes: dict[tuple[str, ...], Classes]
) -> Callable[..., Bench]:
    """Makes studies that share compiled classes with equal ones of other tests."""

    def make(*overrides: str) -> Bench:
        study = bench(*overrides)
        study.trainer.classes = known_classes.setdefault(overrides, study.trainer.classes)
        return study

    return make


def random_trials(lr: tuple[float, float], count: int) -> list[TrialSpec]:
    """Trials of random shapes within the class, with rates up to the larger `lr`."""
    rng = np.random.default_rng(5)
    return [
        spec(
            number,
            depth=int(rng.integers(1, CLASS[1] + 1)),
            width=int(rng.choice([3, 8, 17, CLASS[0]])),
            activation="relu",
            lr=float(np.exp(rng.uniform(*np.log(lr)))),
            weight_decay=float(rng.uniform(0, 0.3)),
        )
        for number in range(count)
    ]


def segment(
    study: Bench, specs: Sequence[TrialSpec], *, nudge: int | None = None, **how: object
) -> tuple[Segment, list[State]]:
    """The states of `specs` in a class, padding included, and the trials' own states.

    `nudge` moves each of the initial weights by one unit in the last place, up or down at random.
    """
    work = study.work(specs, capacity=len(specs), **how)  # type: ignore[arg-type]
    settings = [study.config.settings_of(each.params) for each in specs]
    program = study.trainer.classes.programs.of_class(work.program, settings[0])
    states = [program.layout.init(s.number, its) for s, its in zip(specs, settings, strict=True)]
    if nudge is not None:
        rng = np.random.default_rng(nudge)
        states = [State({"": _nudged(s.model[""], rng)}, s.optimizer, s.step) for s in states]
    lanes = stack(work, [TrialStart((state,), 0) for state in states], settings, program)
    parts = study.trainer.classes.data_on_device(settings[0].train.batch_size, is_spread=False)
    compiled = study.trainer.classes.compiled(work.program, specs[0].params)
    found: Segment = jax.device_get(compiled.run(lanes, parts))
    own = [
        program.exact(jax.tree.map(lambda leaf, i=i: leaf[i], found.state), its)
        for i, its in enumerate(settings)
    ]
    return found, own


def _nudged(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    ways = rng.choice([-np.inf, np.inf], weights.shape)
    return np.where(weights == 0, 0, np.nextafter(weights, ways))


def alone(study: Bench, specs: Sequence[TrialSpec], **how: object) -> np.ndarray:
    """The curves of `specs`, each shape in a separate exact class."""
    shapes: dict[tuple[object, ...], list[int]] = {}
    for index, each in enumerate(specs):
        shapes.setdefault((each.params["depth"], each.params["width"]), []).append(index)
    curves = np.zeros((len(specs), study.config.max_epochs, 3))
    for indices in shapes.values():
        curves[indices] = segment(study, [specs[i] for i in indices], **how)[0].curves
    return curves


@pytest.mark.parametrize(
    ("kind", "lane_loop", "run_widths", "count"),
    [
        ("mlp", "map", RUN_WIDTHS, 2),
        pytest.param("tabm", "map", RUN_WIDTHS, 2, marks=pytest.mark.slow),
        pytest.param("tabm", "vmap", (), 2, marks=pytest.mark.slow),
        pytest.param("mlp", "vmap", (), 2, marks=pytest.mark.slow),
        *(
            pytest.param(kind, "map", widths, 20, marks=pytest.mark.slow)
            for kind in KINDS
            for widths in ((), RUN_WIDTHS)
        ),
    ],
)
def test_a_padded_lane_equals_the_trial_alone(
    kind: str, lane_loop: str, run_widths: tuple[int, ...], count: int, bench: Callable[..., Bench]
) -> None:
    study = bench(*KINDS[kind])
    specs = random_trials((1e-4, 1e-3), count)
    how = {"lane_loop": lane_loop, "padded_to": CLASS, "run_widths": run_widths}

    padded, own = segment(study, specs, **how)

    np.testing.assert_allclose(padded.curves, alone(study, specs), rtol=RELATIVE)
    for each, state in zip(specs, own, strict=True):
        assert state.model[""].shape == (network_size(study, each),)


def network_size(study: Bench, each: TrialSpec) -> int:
    """How many parameters a trial has alone, counted from a real model."""
    table = study.config.settings_of(each.params).model
    sizes = {"depth": table.depth, "width": table.width}
    made: type[eqx.Module] = MLP
    if isinstance(table, TabMTable):
        made, sizes["members"] = TabM, table.ensemble_size
    else:
        sizes["layer_norm"] = table.layer_norm
    inner, outer = study.data.n_features, study.data.out_size
    model = eqx.filter_eval_shape(made, inner, outer, **sizes, key=jax.random.key(0))
    arrays = (leaf for leaf in jax.tree.leaves(model) if isinstance(leaf, jax.ShapeDtypeStruct))
    return sum(leaf.size for leaf in arrays)


@pytest.mark.slow
def test_at_any_learning_rate_padding_differs_only_by_rounding(bench: Callable[..., Bench]) -> None:
    """Training at high rates is chaotic: one unit in the last place grows as padding does.

    The growth depends on the weights that are moved up and down, by a factor of up to forty, so the
    largest of several attempts is used.
    """
    study = bench(*KINDS["mlp"], "train.epochs=20")
    specs = [
        replace(each, params={**each.params, "depth": 3, "width": 17})
        for each in random_trials((1e-3, 1e-1), 12)
    ]

    padded = segment(study, specs, padded_to=CLASS)[0].curves[..., :2]
    exact = segment(study, specs)[0].curves[..., :2]
    nudged = [segment(study, specs, nudge=seed)[0].curves[..., :2] for seed in range(5)]

    apart = np.abs(padded - exact).max(axis=(1, 2))
    by_rounding = np.max([np.abs(each - exact).max(axis=(1, 2)) for each in nudged], axis=0)
    assert (apart <= 10 * by_rounding + 1e-12).all(), apart / by_rounding


@pytest.mark.parametrize("kind", ["mlp", pytest.param("tabm", marks=pytest.mark.slow)])
@pytest.mark.parametrize("run_widths", [RUN_WIDTHS, pytest.param((), marks=pytest.mark.slow)])
def test_padding_stays_exactly_zero(
    run_widths: tuple[int, ...], kind: str, bench: Callable[..., Bench]
) -> None:
    study = bench(*SHORT[kind])
    specs = [
        replace(each, params={**each.params, "activation": activation})
        for each, activation in zip(of_each_width(1e-1), ["relu", "tanh"] * 2, strict=True)
    ]

    found, own = segment(study, specs, **{**HOW, "run_widths": run_widths})

    leaves = zip(jax.tree.leaves(found.state), jax.tree.leaves(own[0]), strict=True)
    vectors = [(leaf, part.size) for leaf, part in leaves if part.ndim == 1]
    assert len(vectors) == 3  # the model and both moments of Adam
    for lane, state in enumerate(own):
        for whole, part in zip(jax.tree.leaves(found.state), jax.tree.leaves(state), strict=True):
            if part.ndim == 1:
                assert np.count_nonzero(whole[lane]) == np.count_nonzero(part)


@pytest.mark.parametrize("kind", ["mlp", pytest.param("tabm", marks=pytest.mark.slow)])
def test_an_activation_chosen_at_run_time_equals_the_compiled_one(
    kind: str, bench: Callable[..., Bench]
) -> None:
    study = bench(*KINDS[kind], "data.name=digits", "train.epochs=2", "model.dropout=0.0")
    shape = {"depth": 1, "width": 16, "lr": 1e-3, "weight_decay": 0.1}
    specs = [spec(0, **shape, activation="tanh"), spec(1, **shape, activation="relu")]

    told = study.curves(specs, traced=TOLD)
    compiled = {each.number: study.curves([each])[each.number] for each in specs}

    for number, curve in told.items():
        np.testing.assert_allclose(curve, compiled[number], rtol=RELATIVE)


def of_each_width(lr: float = 1e-2) -> list[TrialSpec]:
    """Trials that run at each width of the class, at its limits and below; rates up to `lr`."""
    trials = zip(random_trials((1e-3, lr), 4), (24, 3, 16, 8), strict=True)
    return [replace(each, params={**each.params, "width": width}) for each, width in trials]


def alone_in_class(study: Bench, each: TrialSpec) -> Work:
    """A bucket of one trial, for the program of all widths."""
    program = study.work(of_each_width(), **HOW).program  # its settings are those of the first
    return replace(study.work([each], **HOW), program=program)


@OF_EACH_KIND
def test_a_padded_lane_resumes_from_its_checkpoint(kind: str, bench: Callable[..., Bench]) -> None:
    study, specs = bench(*SHORT[kind]), of_each_width()

    whole = study.curves(specs, **HOW)
    first = study.train(specs, **HOW, epochs=(0, 2))
    second = study.train(specs, **HOW, epochs=(2, 6), after=first)

    for lane in second.lanes:
        assert lane.curve.values.tobytes() == whole[lane.number][2:].tobytes()


@OF_EACH_KIND
def test_a_lane_of_any_width_has_the_same_bits_as_alone(
    kind: str, bench: Callable[..., Bench]
) -> None:
    study, specs = bench(*SHORT[kind]), of_each_width()

    together = study.curves(specs, **HOW)

    for each in specs:
        (lane,) = study.trainer.train(alone_in_class(study, each), "here", None).lanes
        assert lane.curve.values.tobytes() == together[each.number].tobytes()


@OF_EACH_KIND
def test_a_checkpoint_of_a_padded_lane_contains_only_the_small_model(
    kind: str, bench: Callable[..., Bench]
) -> None:
    study, small = bench(*SHORT[kind]), of_each_width()[1]

    study.trainer.train(alone_in_class(study, small), "here", None)

    (file,) = study.directory.glob("*.safetensors")
    assert file.stat().st_size < 3 * 8 * network_size(study, small) + 1000


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_the_vector_of_a_network_holds_the_leaves_of_its_model(
    depth: int, layer_norm: bool
) -> None:
    shape = MlpShape(5, 2, width=7, depth=depth, layer_norm=layer_norm)
    network = MlpNetwork(shape, ("relu",), has_dropout=False, padded=False, dtype="float64")
    key = jax.random.key(1)
    real = MLP(5, 2, depth=depth, width=7, layer_norm=layer_norm, key=key)

    model = network.model(np.arange(shape.n_parameters, dtype=np.float64))

    assert jax.tree.map(np.shape, model) == jax.tree.map(np.shape, real)
    values = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(model)])
    assert sorted(values) == list(range(shape.n_parameters))
    weights = {float(v) for layer in model.layers for v in np.ravel(layer.weight)}
    assert weights == set(np.flatnonzero(network.vector.decayed({})))


def test_a_lane_of_a_tabm_begins_with_the_weights_that_it_would_have_alone(
    bench: Callable[..., Bench],
) -> None:
    study = bench(*KINDS["tabm"], "optimizer.decay={other=true}")
    each = spec(0, width=5, depth=2, lr=1e-3)
    settings = study.config.settings_of(each.params)
    alone = study.trainer.classes.programs.exact(settings)
    work = study.work([each], padded_to=CLASS, run_widths=RUN_WIDTHS)
    padded = study.trainer.classes.programs.of_class(work.program, settings)

    own, state = alone.init(0, settings), padded.init(0, settings)

    shape, room = TabMShape(4, 3, 5, 2, 3), TabMShape(4, 3, RUN_WIDTHS[0], 2 + 1, 3)
    parts = shape.within(room, state.model[""][: room.n_parameters])
    model = alone.saver.model(own)
    for leaf, place in zip(parts, shape.places, strict=True):
        np.testing.assert_array_equal(leaf, jax.tree.leaves(model)[place])
    assert np.count_nonzero(state.model[""]) == np.count_nonzero(own.model[""])
    back = padded.exact(state, settings)
    np.testing.assert_array_equal(back.model[""], own.model[""])


@pytest.mark.parametrize("depth", [1, 3])
def test_the_vector_of_a_tabm_holds_the_leaves_of_its_model(depth: int) -> None:
    shape = TabMShape(5, 2, width=7, depth=depth, members=3)
    network = TabMNetwork(shape, ("relu",), False, True, "float64")
    real = TabM(5, 2, depth=depth, width=7, members=3, key=jax.random.key(1))

    model = network.model(np.arange(shape.n_parameters, dtype=np.float64))

    assert jax.tree.map(np.shape, model) == jax.tree.map(np.shape, real)
    weights = [*(layer.shared.weight for layer in model.layers), model.last.weight]
    decayed = np.flatnonzero(network.vector.decayed({"depth": depth}))
    assert {float(v) for weight in weights for v in np.ravel(weight)} == set(decayed)


@pytest.mark.parametrize("run_widths", [(), (3, 7, 9)])
@pytest.mark.parametrize("shape", [(4, 2), (9, 1), (2, 5)])
def test_a_shape_can_be_extracted_from_a_larger_one(
    shape: tuple[int, int], run_widths: tuple[int, ...], bench: Callable[..., Bench]
) -> None:
    study = bench("data.name=iris", "model.layer_norm=true")
    width, depth = shape
    settings = study.config.settings_of({"width": width, "depth": depth})
    small, large = (MlpShape(3, 2, w, d, True) for w, d in (shape, (9, 5)))
    outer = MlpNetwork(large, ("relu",), False, True, "float64", widths=run_widths)
    own = np.random.default_rng(0).normal(size=small.n_parameters)

    padding = outer.padding(settings)
    assert padding is not None
    vector = padding.pad(own)

    np.testing.assert_array_equal(padding.cut(vector), own)
    assert np.count_nonzero(vector) == len(own)
    inner = MlpNetwork(small, ("relu",), False, False, "float64")
    run = next((run for run in run_widths if width <= run), large.width)
    at = MlpNetwork(replace(large, width=run), ("relu",), False, True, "float64")
    little, big = inner.model(own), at.model(vector[: at.vector.n_parameters])
    for a, b in zip(little.layers[:-1], big.layers[:depth], strict=True):
        np.testing.assert_array_equal(a.weight, b.weight[:width, : a.weight.shape[1]])
        np.testing.assert_array_equal(a.bias, b.bias[:width])
    np.testing.assert_array_equal(little.layers[-1].weight, big.layers[-1].weight[:, :width])
    for a, b in zip(little.norms, big.norms[:depth], strict=True):
        np.testing.assert_array_equal(a.weight, b.weight[:width])


def test_only_named_activations_move_zero() -> None:
    moved = {name for name, function in ACTIVATIONS.items() if float(function(jnp.zeros(()))) != 0}

    assert moved == OTHER_THAN_ZERO
