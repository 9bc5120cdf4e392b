"""A study is not resumed with other initial weights, which a builder may read from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sweeper
from sweeper import api
from sweeper.config import StudyConfig
from sweeper.errors import StudyError
from sweeper.export.reproduce import refuse_another
from sweeper.rundir import RunDir
from tests.command_line import CommandLine
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS

NETS = """\
from pathlib import Path
import equinox as eqx, jax, jax.numpy as jnp, numpy as np


def pretrained(in_size, out_size, key):
    return read(eqx.nn.Linear(in_size, out_size, key=key))


def with_fresh_bias(in_size, out_size, key):
    linear = read(eqx.nn.Linear(in_size, out_size, key=key))
    bias = jax.random.normal(key, linear.bias.shape)
    return eqx.tree_at(lambda linear: linear.bias, linear, bias)


def several(in_size, out_size, key, scale):
    return read(eqx.nn.Linear(in_size, out_size, key=key), scale)


def read(linear, name="weights"):
    weights = np.load(Path(__file__).parent / f"{name}.npz")
    which = lambda linear: (linear.weight, linear.bias)
    return eqx.tree_at(which, linear, (jnp.asarray(weights["w"]), jnp.asarray(weights["b"])))
"""
SMALL = ("data.name=iris", "study.n_trials=1", "train.epochs=1", "execution.workers=0")
MLP = 'kind = "mlp"\ndepth = 2\nwidth = 16\n'


def study(directory: Path, function: str, *overrides: str) -> StudyConfig:
    (directory / "nets.py").write_text(NETS, encoding="utf-8")
    model = f'kind = "python"\nfunction = "nets:{function}"\nfixed_start = true\n'
    text = DIGITS.partition("[search]")[0].replace(MLP, model)
    return study_in(directory, text, *SMALL, *overrides)


def write(path: Path, factor: float) -> None:
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(3, 4)), rng.normal(size=3)
    np.savez(path, w=factor * w.astype("f4"), b=b.astype("f4"))


@pytest.mark.parametrize(
    "function", ["with_fresh_bias", pytest.param("pretrained", marks=pytest.mark.slow)]
)
def test_a_changed_file_of_weights_is_refused(function: str, tmp_path: Path) -> None:
    write(tmp_path / "weights.npz", 1)
    config = study(tmp_path, function)
    trained(config)
    more = study(tmp_path, function, "study.n_trials=2")
    api.check(more)

    write(tmp_path / "weights.npz", 0.5)
    for refused in (api.check, sweeper.run):
        with pytest.raises(StudyError) as refusal:
            refused(more)
        (problem,) = refusal.value.problems
        assert problem.key == "model.function"
        assert problem.found.startswith(
            f"'nets:{function}' returns other initial weights than when the study in "
        )
        assert problem.found.endswith("a file that it reads has changed")
    with pytest.raises(StudyError, match="a file that it reads has changed"):
        refuse_another(RunDir(config.run_dir))

    write(tmp_path / "weights.npz", 1)
    assert len(trained(more).trials()) == 2


@pytest.mark.slow
def test_every_file_at_the_ends_of_the_search_is_compared(tmp_path: Path) -> None:
    for name in ("small", "large"):
        write(tmp_path / f"{name}.npz", 1)
    search = "search.model={scale={type='categorical',choices=['small','large']}}"
    config = study(tmp_path, "several", search, "study.n_trials=2")
    trained(config)
    write(tmp_path / "large.npz", 2)
    with pytest.raises(StudyError, match="'nets:several' returns other initial weights"):
        api.check(config)


def test_reproduce_says_that_the_weights_have_changed(tmp_path: Path, command: CommandLine) -> None:
    write(tmp_path / "weights.npz", 1)
    study(tmp_path, "pretrained")
    assert command("run", "study.toml", "--set", "results.dir=run").returncode == 2
    overrides = [word for one in (*SMALL, "results.dir=run") for word in ("--set", one)]
    assert command("run", "study.toml", *overrides).returncode == 0
    done = command("reproduce", "run", "0", "--quiet")
    assert (done.returncode, done.stdout.endswith("bit-equal\n")) == (0, True), done.stderr

    write(tmp_path / "weights.npz", 0.5)
    done = command("reproduce", "run", "0", "--quiet")
    assert done.returncode == 2
    assert "model.function: 'nets:pretrained' returns other initial weights than " in done.stderr
