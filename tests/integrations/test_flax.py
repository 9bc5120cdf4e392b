"""Models of Flax and Haiku train, are kept and predict as those of Equinox do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnxruntime
import optax
import pytest
from flax import nnx
from sklearn.datasets import load_digits

import sweeper
from sweeper.api import check
from sweeper.config import StudyConfig
from sweeper.config.user_code import load_function
from sweeper.errors import StudyError
from sweeper.export import export
from sweeper.export.formats import export_as
from sweeper.models.decay import DEFAULT, decisions
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from tests.documents import GUIDES, code
from tests.in_process import study_in, trained
from tests.programs.conftest import Bench, spec
from tests.programs.plain import accuracy, cross_entropy, train
from tests.small_studies import DIGITS

pytestmark = pytest.mark.integration

EXAMPLES = {
    library: one
    for one in code("python", GUIDES["models-and-programs"])
    for library in ("nnx", "linen", "haiku")
    if library in one
}
NETS = """
import flax.linen
import haiku
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from flax.training.train_state import TrainState


class Plain(nnx.Module):
    def __init__(self, in_size, out_size, width, rngs):
        self.layers = nnx.List(
            [nnx.Linear(in_size, width, rngs=rngs), nnx.Linear(width, out_size, rngs=rngs)]
        )
        self.norm = nnx.LayerNorm(width, rngs=rngs)

    def __call__(self, x):
        return self.layers[1](jax.nn.relu(self.norm(self.layers[0](x))))


class Dropped(nnx.Module):
    def __init__(self, in_size, out_size, width, rngs):
        self.first = nnx.Linear(in_size, width, rngs=rngs)
        self.drop = nnx.Dropout(0.3, rngs=rngs)
        self.last = nnx.Linear(width, out_size, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(jax.nn.relu(self.first(x))))


class Linen(flax.linen.Module):
    width: int
    out_size: int

    @flax.linen.compact
    def __call__(self, x, train=False):
        x = jax.nn.relu(flax.linen.Dense(self.width)(x))
        x = flax.linen.Dropout(0.3, deterministic=not train)(x)
        return flax.linen.Dense(self.out_size)(x)


def forward(width, out_size):
    def net(x):
        x = jax.nn.relu(haiku.Linear(width)(x))
        key = haiku.maybe_next_rng_key()
        if key is not None:
            x = haiku.dropout(key, 0.3, x)
        return haiku.Linear(out_size)(x)

    return net


def plain(in_size, out_size, key, width):
    return Plain(in_size, out_size, width, nnx.Rngs(key))


def split(in_size, out_size, key, width):
    return nnx.split(Plain(in_size, out_size, width, nnx.Rngs(key)))


def dropped(in_size, out_size, key, width):
    return Dropped(in_size, out_size, width, nnx.Rngs(key))


def linen(in_size, out_size, key, width):
    net = Linen(width, out_size)
    return net, net.init(key, jnp.zeros(in_size))


class Searched(flax.linen.Module):
    out_size: int
    rate: float

    @flax.linen.compact
    def __call__(self, x, train=False):
        x = flax.linen.Dropout(self.rate, deterministic=not train)(x)
        return flax.linen.Dense(self.out_size)(x)


def searched_linen(in_size, out_size, key, width, rate):
    net = Searched(out_size, rate)
    return net, net.init(key, jnp.zeros(in_size))


def drawing_haiku(in_size, out_size, key, width):
    net = haiku.transform(forward(width, out_size))
    return net, net.init(key, jnp.zeros(in_size))


def plain_haiku(in_size, out_size, key, width):
    net = haiku.without_apply_rng(haiku.transform(forward(width, out_size)))
    return net, net.init(key, jnp.zeros(in_size))


class Normed(nnx.Module):
    def __init__(self, in_size, out_size, rngs):
        self.norm = nnx.BatchNorm(in_size, rngs=rngs)
        self.last = nnx.Linear(in_size, out_size, rngs=rngs)

    def __call__(self, x):
        return self.last(self.norm(x))


class NormedLinen(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(10)(flax.linen.BatchNorm(use_running_average=False)(x))


class Waves(nnx.Module):
    def __init__(self, in_size, out_size, rngs, freqs, slope=0.5, rate=0.1):
        self.freqs = freqs
        self.slope = slope
        self.drop = nnx.Dropout(rate, rngs=rngs)
        self.last = nnx.Linear(in_size, out_size, rngs=rngs)

    def __call__(self, x):
        waves = jnp.sin(x[:, None] * self.freqs).sum(axis=1)
        return self.last(self.drop(jax.nn.leaky_relu(waves, self.slope)))


def waves(in_size, out_size, key, width):
    return Waves(in_size, out_size, nnx.Rngs(key), np.arange(1.0, 4.0))


def waves_of_jax(in_size, out_size, key, width):
    return Waves(in_size, out_size, nnx.Rngs(key), jnp.arange(1.0, 4.0))


def waves_of_objects(in_size, out_size, key, width):
    return Waves(in_size, out_size, nnx.Rngs(key), np.array([object()]))


def number_of_jax(in_size, out_size, key, width):
    return Waves(in_size, out_size, nnx.Rngs(key), 1.0, jnp.asarray(0.5))


def searched(in_size, out_size, key, width, slope, rate):
    return Waves(in_size, out_size, nnx.Rngs(key), np.arange(1.0, 4.0), slope, rate)


def normed(in_size, out_size, key, width):
    return Normed(in_size, out_size, nnx.Rngs(key))


def normed_linen(in_size, out_size, key, width):
    net = NormedLinen()
    return net, net.init(key, jnp.zeros(in_size))


class Misnamed(flax.linen.Module):
    out_size: int

    @flax.linen.compact
    def __call__(self, x, learning=False):
        x = flax.linen.Dropout(0.3, deterministic=not learning)(x)
        return flax.linen.Dense(self.out_size)(x)


class Undefaulted(Misnamed):
    def __call__(self, x, learning):
        return super().__call__(x, learning)


class Undecided(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, x):
        return flax.linen.Dense(10)(flax.linen.Dropout(0.3)(x))


def misnamed_linen(in_size, out_size, key, width):
    net = Misnamed(out_size)
    return net, net.init(key, jnp.zeros(in_size))


def undefaulted_linen(in_size, out_size, key, width):
    net = Undefaulted(out_size)
    return net, net.init(key, jnp.zeros(in_size), False)


def undecided_linen(in_size, out_size, key, width):
    net = Undecided()
    return net, net.init(key, jnp.zeros(in_size))


def linen_of_other_size(in_size, out_size, key, width):
    net = Linen(width, out_size)
    return net, net.init(key, jnp.zeros(in_size + 1))


def haiku_of_other_size(in_size, out_size, key, width):
    return plain_haiku(in_size + 1, out_size, key, width)


def variables_alone(in_size, out_size, key, width):
    return linen(in_size, out_size, key, width)[1]


def normed_haiku(in_size, out_size, key, width):
    net = haiku.transform(lambda x: haiku.BatchNorm(True, True, 0.9)(x, is_training=True))
    return net, net.init(key, jnp.zeros(in_size))


def bare_linen(in_size, out_size, key, width):
    return Linen(width, out_size), None


def bare_haiku(in_size, out_size, key, width):
    return haiku.transform(forward(width, out_size))


def key_as_rngs(in_size, out_size, key, width):
    return Plain(in_size, out_size, width, key)


def a_class(in_size, out_size, key, width):
    return Plain


def state_alone(in_size, out_size, key, width):
    return nnx.state(Plain(in_size, out_size, width, nnx.Rngs(key)))


def without_rngs(in_size, out_size, key, width):
    net = Dropped(in_size, out_size, width, nnx.Rngs(key))
    net.drop = nnx.Dropout(0.3)
    return net


def reversed_linen(in_size, out_size, key, width):
    return linen(in_size, out_size, key, width)[::-1]


def inner_linen(in_size, out_size, key, width):
    net, variables = linen(in_size, out_size, key, width)
    return net, variables["params"]


def always_drawing(in_size, out_size, key, width):
    net = flax.linen.Sequential(
        [flax.linen.Dense(out_size), flax.linen.Dropout(0.3, deterministic=False)]
    )
    return net, net.init({"params": key, "dropout": key}, jnp.zeros(in_size))


def train_state(in_size, out_size, key, width):
    net, variables = linen(in_size, out_size, key, width)
    return TrainState.create(apply_fn=net.apply, params=variables, tx=optax.sgd(0.1))


def always_drawing_haiku(in_size, out_size, key, width):
    def net(x):
        return haiku.Linear(out_size)(haiku.dropout(haiku.next_rng_key(), 0.3, x))

    net = haiku.transform(net)
    return net, net.init(key, jnp.zeros(in_size))


def stateful_haiku(in_size, out_size, key, width):
    net = haiku.transform_with_state(forward(width, out_size))
    return net, net.init(key, jnp.zeros(in_size))
"""
STUDY = (
    *("study.n_trials=2", "train.epochs=2", "results.keep_models=2", "execution.workers=0"),
    "search={optimizer.lr={type='float', low=1e-4, high=1e-3, log=true}}",
    "optimizer.weight_decay=0.1",
)


def study(directory: Path, function: str, *settings: str) -> StudyConfig:
    """A study of digits whose model `function` builds."""
    directory.mkdir(exist_ok=True)
    (directory / "flax_nets.py").write_text(NETS, encoding="utf-8")
    model = f"model={{kind='python', function='flax_nets:{function}', width=8}}"
    return study_in(directory, DIGITS, model, *STUDY, *settings)


KINDS = {
    "plain": ("NnxModel", {"['layers'][0]['kernel']", "['layers'][1]['kernel']"}),
    "split": ("NnxModel", {"['layers'][0]['kernel']", "['layers'][1]['kernel']"}),
    "dropped": ("DrawingNnxModel", {"['first']['kernel']", "['last']['kernel']"}),
    "waves": ("DrawingNnxModel", {"['last']['kernel']"}),
    "linen": ("DrawingLinenModel", {"['Dense_0']['kernel']", "['Dense_1']['kernel']"}),
    "drawing_haiku": ("DrawingHaikuModel", {"['linear']['w']", "['linear_1']['w']"}),
    "plain_haiku": ("HaikuModel", {"['linear']['w']", "['linear_1']['w']"}),
}


@pytest.mark.parametrize("function", KINDS)
def test_a_model_is_trained_exported_and_predicts_without_this_package(
    tmp_path: Path, function: str
) -> None:
    config = study(tmp_path, function)
    results = trained(config)
    export(results.run_dir.root, None, 0, tmp_path / "best")

    saved = sweeper.load(tmp_path / "best", base_dir=tmp_path)

    kind, decaying = KINDS[function]
    assert type(saved.model).__name__ == kind
    found = decisions(eqx.filter(saved.model, eqx.is_inexact_array), DEFAULT)
    assert {one.leaf.path.removeprefix("params") for one in found if one.rule.amount} == decaying
    assert {one.leaf.layer for one in found} == {""}  # of the library, which does not say it
    x, _ = load_digits(return_X_y=True)
    text = "import sys\nsys.modules['sweeper'] = None\nimport load, numpy\n"
    text += "numpy.save('out.npy', load.outputs(numpy.load('x.npy')))"
    np.save(tmp_path / "best" / "x.npy", x[:50])
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path / "best", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    library, package = ("haiku", "dm-haiku") if "Haiku" in kind else ("flax", "flax")
    for name in ("load.py", "README.md"):
        text_of_export = (tmp_path / "best" / name).read_text("utf-8")
        assert f"equinox, {package} and numpy" in text_of_export
    without = f"import sys\nsys.modules['{library}'] = None\nimport load"
    failed = subprocess.run(
        [sys.executable, "-c", without], cwd=tmp_path / "best", capture_output=True, text=True
    )
    assert f"this model needs {package}: python -m pip install {package}" in failed.stderr
    alone = np.load(tmp_path / "best" / "out.npy")
    np.testing.assert_allclose(alone, saved.outputs(x[:50]), rtol=1e-5, atol=1e-5)
    if kind.startswith("Drawing"):
        row, keys = jnp.asarray(x[0], "float32"), jax.random.split(jax.random.key(0), 16)
        drawn = jax.vmap(lambda key: saved.model(row, key=key))(keys)
        assert len({one.tobytes() for one in np.asarray(drawn)}) > 2


@pytest.mark.parametrize("function", ["dropped", "linen", "drawing_haiku"])
def test_onnx_runtime_predicts_like_the_model(tmp_path: Path, function: str) -> None:
    results = trained(study(tmp_path, function, "train.epochs=1"))
    export(results.run_dir.root, None, 0, tmp_path / "best")
    export_as("onnx", results.run_dir.root, None, 0, tmp_path / "onnx")

    session = onnxruntime.InferenceSession(tmp_path / "onnx" / "model.onnx")
    x, _ = load_digits(return_X_y=True)
    for rows in (x[:50], x[:1]):  # any number of them
        columns = zip(session.get_inputs(), rows.T[:, :, None], strict=True)
        _, found = session.run(None, {column.name: values for column, values in columns})
        own = sweeper.load(tmp_path / "best", base_dir=tmp_path).probabilities(rows)
        np.testing.assert_allclose(found, own, rtol=1e-5, atol=1e-5)


def test_trials_that_differ_in_floats_of_a_module_share_a_program(tmp_path: Path) -> None:
    settings = (
        *("model.slope=0.5", "model.rate=0.1", "study.n_trials=3"),
        "search.model.rate={type='categorical', choices=[0.0, 0.1, 0.4]}",
        "search.model.slope={type='float', low=0.1, high=0.9}",
    )
    own = trained(study(tmp_path / "own", "searched", *settings))
    compiled_in = study(tmp_path / "compiled_in", "searched", *settings, "traced_arguments=[]")

    assert own.study["settings"]["traced_arguments"] == ["model.rate", "model.slope"]
    columns = ["params_rate", "params_slope", "final_train_loss", "final_val_loss"]
    expected = trained(compiled_in).trials()[columns].to_numpy()
    np.testing.assert_allclose(own.trials()[columns].to_numpy(), expected, rtol=1e-5)


def test_a_rate_that_linen_compiles_in_is_named(tmp_path: Path) -> None:
    rate = "model.rate=0.1", "search.model.rate={type='float', low=0.1, high=0.4}"
    config = study(tmp_path, "searched_linen", *rate)

    (warning,) = [one for one in check(config).warnings if "compiled in" in one]

    assert "Dropout of Flax Linen branches on its rate (flax_nets.py, line " in warning
    assert warning.endswith("which get it at run time, or search few values, with choices or step")


REFUSED = {
    "normed": r"nnx\.BatchStat at norm\.mean.*LayerNorm",
    "waves_of_jax": r"an array in the plain attribute freqs; .* a NumPy array",
    "waves_of_objects": "an array of objects; keep numbers in it",
    "number_of_jax": r"an array in the plain attribute slope; .* a NumPy array",
    "normed_linen": "collections that training does not keep: batch_stats.*LayerNorm",
    "key_as_rngs": r"has no attribute params .*; pass nnx\.Rngs\(key\) as rngs",
    "a_class": r"returns a class, not an eqx\.Module; make one of it: return Plain\(",
    "state_alone": "the state of a module of Flax NNX; return the module",
    "without_rngs": r"; give rngs to the layers that draw: nnx\.Dropout\(rate, rngs=rngs\)",
    "reversed_linen": r"variables and a module of Flax Linen; return \(net, net\.init",
    "inner_linen": r"without the outer key 'params'; return \(net, .* all that net\.init returns",
    "variables_alone": r"a dict, .* without the network; return \(net, .* all that net\.init",
    "misnamed_linen": r"draws with 'learning', which is never passed.* must be called train, ",
    "undefaulted_linen": r"give it a default\. An argument that says .* must be called train, ",
    "undecided_linen": r"\"deterministic\" must be passed .*; write def .*=not train\)",
    "linen_of_other_size": r"initialize it with .* of this shape: net\.init\(key, jnp\.zeros",
    "haiku_of_other_size": r"initialize it with .* of this shape: net\.init\(key, jnp\.zeros",
    "normed_haiku": r"transforms layers whose state changes in training.*LayerNorm",
    "always_drawing": r"InvalidRngError.*nn\.Dropout\(rate, deterministic=not train\)",
    "always_drawing_haiku": r"draw only if hk\.maybe_next_rng_key\(\) is not None",
    "train_state": "a TrainState of Flax, but the study trains",
    "bare_linen": r"without its variables; return \(net, net\.init",
    "bare_haiku": r"haiku\.Transformed without its parameters; return \(net, net\.init",
    "stateful_haiku": r"haiku\.TransformedWithState, whose state is not kept",
}


@pytest.mark.parametrize("function", REFUSED)
def test_what_cannot_be_trained_is_refused_with_its_fix(tmp_path: Path, function: str) -> None:
    with pytest.raises(StudyError, match=REFUSED[function]):
        check(study(tmp_path, function))


def test_trials_are_repeated_and_refitted(tmp_path: Path) -> None:
    results = trained(study(tmp_path, "dropped"))
    directory = str(results.run_dir.root)

    sweeper.command("reproduce", directory, "0", "--quiet")  # exits with 1 if a value differs
    sweeper.command("refit", directory, "0", "--to", str(tmp_path / "refit"), "--quiet")

    saved = sweeper.load(tmp_path / "refit", base_dir=tmp_path)
    assert type(saved.model).__name__ == "DrawingNnxModel"


@pytest.mark.parametrize("library", EXAMPLES)
def test_the_examples_of_the_guide_train(tmp_path: Path, library: str) -> None:
    (tmp_path / f"{library}_nets.py").write_text(EXAMPLES[library], encoding="utf-8")
    arguments = "width=8, depth=2, dropout=0.1"
    model = f"model={{kind='python', function='{library}_nets:build', {arguments}}}"
    results = trained(study_in(tmp_path, DIGITS, model, *STUDY))
    assert results.trials()["value"].notna().all()
    export(results.run_dir.root, None, 0, tmp_path / "best")
    saved = sweeper.load(tmp_path / "best", base_dir=tmp_path)
    x, p = jnp.linspace(0.0, 1.0, 64), saved.model.params
    key = jax.random.key(0)
    net: Any = load_function(f"{library}_nets:build", tmp_path)(64, 10, key, 8, 2, 0.1)
    if library == "nnx":
        nnx.update(net, nnx.State(p))
        net.eval()
        outputs = net(x)
    else:
        applied = {"linen": ({"params": p}, x), "haiku": (p, None, x)}
        outputs = net[0].apply(*applied[library])
    np.testing.assert_allclose(outputs, saved.model(x), rtol=1e-5)


def test_the_guide_has_an_example_of_each_library() -> None:
    assert [*EXAMPLES] == ["nnx", "linen", "haiku"]


@pytest.fixture
def bench(tmp_path: Path, float64: None) -> Bench:
    settings = "execution.precision=float64", "study.seed=3", "train.epochs=3"
    return Bench(study(tmp_path, "plain", *settings), tmp_path)


class Held(eqx.Module):
    """A module of NNX as its parameters, without anything of this package."""

    params: Any
    graph: Any = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        return nnx.merge(self.graph, self.params)(x)


def test_a_lane_equals_the_trial_in_plain_flax(bench: Bench) -> None:
    config, data, trial = bench.config, bench.data, spec(5, lr=1e-3)
    settings = config.settings_of(trial.params)
    program = Programs(data_spec(config, data)).exact(settings)
    start: Any = program.saver.model(program.layout.init(trial.number, settings, 0))
    made = load_function("flax_nets:Plain", config.base_dir)(64, 10, 8, nnx.Rngs(0))
    net = Held(jax.tree.map(jnp.asarray, start.params), nnx.split(made, nnx.Param)[0])
    mask = jax.tree_util.tree_map_with_path(lambda path, _: "kernel" in str(path[-1]), net)
    optimizer = optax.adamw(1e-3, weight_decay=0.1, mask=lambda _: mask)

    expected = train(bench, trial, optimizer, cross_entropy, scores=[accuracy], net=net)

    curve = bench.curves([trial, spec(1, lr=5e-4)])[trial.number]
    np.testing.assert_allclose(curve, expected.rows, rtol=1e-9)
