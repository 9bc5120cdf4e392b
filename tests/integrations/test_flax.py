"""Models of Flax and Haiku train, are kept and predict as those of Equinox do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import sweeper
from sweeper.data.order import epoch_order
from sweeper.errors import StudyError
from sweeper.export import export
from sweeper.models.decay import decisions, DEFAULT
from sweeper.trial import words
from tests.documents import GUIDES, code, section
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS

pytestmark = pytest.mark.integration

(GUIDE, *_) = code("python", section("Models in Flax or Haiku", GUIDES["models-and-programs"]))
NETS = """
import flax.linen
import haiku
import jax
import jax.numpy as jnp
from flax import nnx


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


def normed(in_size, out_size, key, width):
    return Normed(in_size, out_size, nnx.Rngs(key))


def normed_linen(in_size, out_size, key, width):
    net = NormedLinen()
    return net, net.init(key, jnp.zeros(in_size))


def bare_linen(in_size, out_size, key, width):
    return Linen(width, out_size), None


def bare_haiku(in_size, out_size, key, width):
    return haiku.transform(forward(width, out_size))


def stateful_haiku(in_size, out_size, key, width):
    net = haiku.transform_with_state(forward(width, out_size))
    return net, net.init(key, jnp.zeros(in_size))
"""
STUDY = (
    *("study.n_trials=2", "train.epochs=2", "results.keep_models=2", "execution.workers=0"),
    "search={optimizer.lr={type='float', low=1e-4, high=1e-3, log=true}}",
    "optimizer.weight_decay=0.1",
)


def study(directory: Path, function: str, *settings: str) -> sweeper.config.StudyConfig:
    """A study of digits whose model `function` builds."""
    directory.mkdir(exist_ok=True)
    (directory / "flax_nets.py").write_text(NETS, encoding="utf-8")
    model = f"model={{kind='python', function='flax_nets:{function}', width=8}}"
    return study_in(directory, DIGITS, model, *STUDY, *settings)


KINDS = {
    "plain": ("NnxModel", {"layers[0].kernel", "layers[1].kernel"}),
    "split": ("NnxModel", {"layers[0].kernel", "layers[1].kernel"}),
    "dropped": ("DrawingNnxModel", {"first.kernel", "last.kernel"}),
    "linen": ("DrawingLinenModel", {"Dense_0.kernel", "Dense_1.kernel"}),
    "drawing_haiku": ("DrawingHaikuModel", {"linear.w", "linear_1.w"}),
    "plain_haiku": ("HaikuModel", {"linear.w", "linear_1.w"}),
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
    found = {
        one.leaf.path for one in decisions(jax.tree.map(jnp.asarray, saved.model), DEFAULT)
        if one.rule.amount
    }
    assert len(found) == len(decaying) == 2
    assert {path.rpartition("'")[0].rpartition("'")[2] for path in found} <= {"kernel", "w"}
    x, _ = load_digits(return_X_y=True)
    text = "import sys\nsys.modules['sweeper'] = None\nimport load, numpy\n"
    text += "numpy.save('out.npy', load.outputs(numpy.load('x.npy')))"
    np.save(tmp_path / "best" / "x.npy", x[:50])
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path / "best", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    alone = np.load(tmp_path / "best" / "out.npy")
    np.testing.assert_allclose(alone, saved.outputs(x[:50]), rtol=1e-5, atol=1e-5)


REFUSED = {
    "normed": r"nnx\.BatchStat at norm\.mean.*LayerNorm",
    "normed_linen": "collections that training does not keep: batch_stats.*LayerNorm",
    "bare_linen": r"without its variables; return \(net, net\.init",
    "bare_haiku": r"haiku\.Transformed without its parameters; return \(net, net\.init",
    "stateful_haiku": r"haiku\.TransformedWithState, whose state is not kept",
}


@pytest.mark.parametrize("function", REFUSED)
def test_a_model_with_a_state_or_without_parameters_is_refused(
    tmp_path: Path, function: str
) -> None:
    with pytest.raises(StudyError, match=REFUSED[function]):
        sweeper.api.check(study(tmp_path, function))
