"""Weight decay affects exactly the arrays in the rules of a study, by the given amounts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sweeper.config import parse
from sweeper.models.decay import DEFAULT, Decay
from sweeper.models.mlp import MlpShape
from sweeper.models.mlp_network import MlpNetwork
from sweeper.programs.optimizers import optimizer_of
from sweeper.programs.program import LaneParameters
from tests.programs import plain
from tests.programs.conftest import STUDY, Bench, spec
from tests.programs.test_padded import segment

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
FEW = ("train.epochs=2", "train.metrics=[]", "model.layer_norm=true")
# as in studies/decay.toml
BY_LAYER = "{linear={weight=true,bias=true},layer_norm={weight=false,bias=true},other=false}"
# the position of an array decides: the last layer, the second, and biases of the first
BY_PLACE = (
    "{other=false,linear={weight=true},where=["
    "{path='layers[1].*',decay=0.5},{depth=-1,decay=false},{depth=0,leaf='bias',decay=true},"
    "{path='norms[-1].weight',decay=2.0}]}"
)


def network(
    table: str | None, depth: int = 2, width: int = 7, *, padded: bool = False
) -> MlpNetwork:
    rules = None if table is None else parse(STUDY, Path("s"), [f"optimizer.decay={table}"])
    decay = DEFAULT if rules is None else Decay.of(rules.optimizer.decay, Path())
    shape = MlpShape(3, 2, width, depth, layer_norm=True)
    return MlpNetwork(shape, ("relu",), False, padded, "float64", decay)


SHRINKING: dict[str, tuple[str | None, dict[str, float]]] = {
    "without rules": (None, {f"layers[{n}].weight": 1.0 for n in range(3)}),
    "by layer": (
        BY_LAYER,
        {f"layers[{n}].{leaf}": 1.0 for n in range(3) for leaf in ("weight", "bias")}
        | {f"norms[{n}].bias": 1.0 for n in range(2)},
    ),
    "by place": (
        BY_PLACE,
        {
            "layers[0].weight": 1.0,
            "layers[0].bias": 1.0,
            "layers[1].weight": 0.5,
            "layers[1].bias": 0.5,
            "norms[0].bias": 1.0,
            "norms[1].weight": 2.0,
        },
    ),
}
OPTIMIZERS = ("adam", "adamw", "rmsprop", "lion", "sgd", "adafactor")


@pytest.mark.parametrize("case", SHRINKING)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_lane_decays_only_the_arrays_in_its_rules(name: str, case: str) -> None:
    """Without a gradient, under vmap, three coefficients."""
    table, shares = SHRINKING[case]
    rules = [] if table is None else [f"optimizer.decay={table}"]
    written = [f'optimizer={{name="{name}",lr=0.01}}', *rules]
    settings = parse(STUDY, Path("study.toml"), written).settings_of({})
    net = network(table)
    before = np.random.default_rng(0).normal(size=net.vector.n_parameters)
    coefficients = [0.0, 0.1, 0.5]
    lanes = [
        LaneParameters.of(
            {**settings.traced(), "optimizer.weight_decay": coefficient},
            {},
            np.zeros(2, np.uint32),
            "float64",
        )
        for coefficient in coefficients
    ]

    def step(lane: LaneParameters) -> Any:
        optimizer = optimizer_of(settings, lane.hparams, lane.traced, net, 0)
        parameters = jnp.asarray(before)
        updates, _ = optimizer.update(
            jnp.zeros_like(parameters), optimizer.init(parameters), parameters
        )
        return optax.apply_updates(parameters, updates)

    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)
    after = np.asarray(jax.jit(jax.vmap(step))(stacked))

    for coefficient, vector in zip(coefficients, after, strict=True):
        old, new = (named(net.model(values)) for values in (before, vector))
        for path, array in old.items():
            share = shares.get(path, 0.0) * coefficient
            if share:
                np.testing.assert_allclose(new[path], array * (1 - 0.01 * share), rtol=1e-15)
            else:
                assert new[path].tobytes() == array.tobytes(), path


def named(model: Any) -> dict[str, Any]:
    """The arrays of a model by path."""
    leaves = jax.tree_util.tree_leaves_with_path(model)
    return {jax.tree_util.keystr(path).removeprefix("."): np.asarray(a) for path, a in leaves}


FLAT = "def flat(outputs, y):\n    return 0 * outputs.sum()\n"


def test_a_lane_without_a_gradient_only_decays(tmp_path: Path) -> None:
    (tmp_path / "flat_loss.py").write_text(FLAT, encoding="utf-8")
    overrides = [
        *FEW,
        f"optimizer.decay={BY_LAYER}",
        'train.loss="flat_loss:flat"',
        'train.task="classes"',
        "train.batch_size=628",
    ]
    study = Bench(parse(STUDY, tmp_path / "study.toml", overrides), tmp_path)
    shape = {"depth": 2, "width": 16, "activation": "relu", "lr": 1e-2}
    trials = [spec(n, **shape, weight_decay=decay) for n, decay in enumerate((0.0, 0.1, 0.5))]

    _, states = segment(study, trials, lane_loop="vmap")

    steps = 2 * (len(study.data.x_train) // 628)
    for trial, state in zip(trials, states, strict=True):
        settings = study.config.settings_of(trial.params)
        program = study.trainer.classes.programs.exact(settings)
        old = named(program.saver.model(program.layout.init(trial.number, settings)))
        new = named(program.saver.model(state))
        shrunk = (1 - 1e-2 * float(trial.params["weight_decay"])) ** steps
        for path, array in old.items():
            kept = path.startswith("norms") and path.endswith("weight")
            np.testing.assert_allclose(new[path], array * (1 if kept else shrunk), rtol=1e-12)
            assert not kept or new[path].tobytes() == array.tobytes()


class NormedNet(eqx.Module):
    """Linear layers with LayerNorm and relu between."""

    linears: list[eqx.nn.Linear]
    norms: list[eqx.nn.LayerNorm]

    def __call__(self, x: Any) -> Any:
        for linear, norm in zip(self.linears[:-1], self.norms, strict=True):
            x = jax.nn.relu(norm(linear(x)))
        return self.linears[-1](x)


def normed(study: Bench, trial: Any) -> NormedNet:
    """The trial's network before its first step."""
    linears = plain.first_net(study, trial).linears
    return NormedNet(linears, [eqx.nn.LayerNorm(len(one.bias)) for one in linears[:-1]])


def loss(outputs: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()


def by_layer(net: NormedNet) -> Any:
    shares = jax.tree.map(lambda _: 1.0, net)
    return eqx.tree_at(lambda n: [norm.weight for norm in n.norms], shares, [0.0] * len(net.norms))


def by_place(net: NormedNet) -> Any:
    """As in BY_PLACE, written out for a network of any depth."""
    shares = jax.tree.map(lambda _: 0.0, net)
    last = len(net.linears) - 1
    for index, layer in enumerate(net.linears):
        if index == 1:
            pair = (0.5, 0.5)
        elif index == last:
            pair = (0.0, 0.0)
        else:
            pair = (1.0, 1.0 if index == 0 else 0.0)
        assert layer.bias is not None
        shares = eqx.tree_at(
            lambda n, i=index: (n.linears[i].weight, n.linears[i].bias), shares, pair
        )
    shares = eqx.tree_at(lambda n: n.norms[-1].weight, shares, 2.0)
    return eqx.tree_at(lambda n: n.norms[0].bias, shares, 1.0)


PARITY: dict[str, tuple[str, Callable[[NormedNet], Any]]] = {
    "by layer": (BY_LAYER, by_layer),
    "by place": (BY_PLACE, by_place),
}


def decoupled(shares: Any) -> optax.GradientTransformation:
    """Weight decay of 0.3, each array by its share, in plain Optax."""

    def update(updates: Any, parameters: Any) -> Any:
        return jax.tree.map(lambda u, p, s: u + 0.3 * s * p, updates, parameters, shares)

    return optax.stateless(update)


@pytest.mark.parametrize(
    ("case", "way"),
    [pytest.param("by layer", "exact", marks=pytest.mark.slow), ("by place", "padded")],
)
def test_a_lane_equals_the_trial_in_plain_optax(
    case: str, way: str, bench: Callable[..., Bench]
) -> None:
    """In a padded class two depths, whose last layers have different places there."""
    table, shares = PARITY[case]
    study = bench(*FEW, f"optimizer.decay={table}")
    shape = {"width": 16, "activation": "relu", "lr": 1e-3, "weight_decay": 0.3}
    depths = (2,) if way == "exact" else (1, 3)
    trials = [spec(depth, depth=depth, **shape) for depth in depths]

    curves = study.curves(trials, **plain.WAYS[way])

    for trial in trials:
        net = normed(study, trial)
        optimizer = optax.chain(
            optax.scale_by_adam(),
            decoupled(shares(eqx.filter(net, eqx.is_inexact_array))),
            optax.scale_by_learning_rate(1e-3),
        )
        expected = plain.train(study, trial, optimizer, loss, net=net)
        np.testing.assert_allclose(curves[trial.number], expected.rows, rtol=RELATIVE)


@pytest.mark.parametrize("table", [None, BY_LAYER, BY_PLACE], ids=["none", "layer", "place"])
def test_padding_does_not_affect_the_decay_of_arrays(
    table: str | None, bench: Callable[..., Bench]
) -> None:
    study = bench("data.name=iris", "model.layer_norm=true")
    outer = network(table, depth=5, width=9, padded=True)

    for depth in range(1, 6):
        settings = study.config.settings_of({"width": 4, "depth": depth})
        shares = np.asarray(outer.vector.decayed({"depth": np.int32(depth)}), np.float64)
        own = np.asarray(network(table, depth, width=4).vector.decayed({}), np.float64)
        padding = outer.padding(settings)
        assert padding is not None
        np.testing.assert_array_equal(padding.cut(shares), own)


def test_without_rules_decay_takes_one_comparison() -> None:
    """Compiling a mask as long as the vector would take longer, in every program."""
    text = str(jax.make_jaxpr(lambda: network(None).vector.decayed({}))())

    assert (text.count("lt"), text.count("select_n")) == (1, 0)


def test_adafactor_decays_the_arrays_of_a_callable_model(
    bench: Callable[..., Bench],
) -> None:
    written = f'optimizer={{name="adafactor",lr=1e-3,decay={BY_LAYER}}}'
    study = bench(*FEW, written)
    trial = spec(5, depth=1, width=16, activation="relu", lr=1e-3, weight_decay=0.3)

    curve = study.curves([trial])[5]

    net = normed(study, trial)
    optimizer = optax.chain(
        optax.scale_by_factored_rms(decay_rate=jnp.asarray(0.8)),
        optax.clip_by_block_rms(1.0),
        optax.scale_by_param_block_rms(),
        decoupled(by_layer(eqx.filter(net, eqx.is_inexact_array))),
        optax.scale_by_learning_rate(1e-3),
    )
    expected = plain.train(study, trial, optimizer, loss, net=net)
    np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)


MASKED = """\
import optax


def adamw(*, lr, weight_decay, mask):
    return optax.adamw(lr, weight_decay=weight_decay, mask=mask)
"""


def test_a_user_defined_optimizer_gets_the_mask(tmp_path: Path) -> None:
    (tmp_path / "masked_optimizers.py").write_text(MASKED, encoding="utf-8")
    table = f'optimizer={{name="masked_optimizers:adamw",lr=1e-3,decay={BY_LAYER}}}'
    study = Bench(parse(STUDY, tmp_path / "study.toml", [*FEW, table]), tmp_path)
    trial = spec(5, depth=1, width=16, activation="relu", lr=1e-3, weight_decay=0.3)

    curve = study.curves([trial])[5]

    net = normed(study, trial)
    shares = by_layer(eqx.filter(net, eqx.is_inexact_array))
    mask = jax.tree.map(bool, shares)
    optimizer = optax.adamw(1e-3, weight_decay=0.3, mask=lambda _: mask)
    expected = plain.train(study, trial, optimizer, loss, net=net)
    np.testing.assert_allclose(curve, expected.rows, rtol=RELATIVE)
