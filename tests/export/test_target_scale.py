"""Predictions are in the unit of the target, whichever way it was scaled for training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sweeper
from sweeper.export import export
from sweeper.export.predict import predict_table
from sweeper.export.reproduce import refit_study
from sweeper.results.baseline import read_baseline
from sweeper.rundir import RunDir
from tests.command_line import CommandLine
from tests.in_process import study_in, trained
from tests.standalone import standalone

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2)) * [1, 50] + [0, 300]
VISITS = RNG.poisson(np.exp(0.5 + 0.7 * X[:, 0]))
PARTS = """
import equinox as eqx
import jax
import jax.numpy as jnp


class Rates(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, x):
        return jnp.exp(self.linear(x))


def rates(in_size, out_size, key):
    return Rates(eqx.nn.Linear(in_size, out_size, key=key))


def poisson(outputs, y):
    return jnp.mean(outputs - y * jnp.log(outputs))


def least(outputs, y):
    return jnp.min(y)


class Own:
    def init(self, model, optimizer, key):
        return model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def error(self, model, data):
        return poisson(jax.vmap(model)(data.x), data.y)

    def step(self, model, opt_state, batch, optimizer, key):
        value, gradients = eqx.filter_value_and_grad(self.error)(model, batch)
        parameters = eqx.filter(model, eqx.is_inexact_array)
        updates, opt_state = optimizer.update(gradients, opt_state, parameters)
        return eqx.apply_updates(model, updates), opt_state, value

    def evaluate(self, model, data):
        return {"loss": self.error(model, data)}
"""
STUDY = """\
version = 1
[study]
name = "visits"
metric = "val_loss"
direction = "minimize"
n_trials = 1
[data]
source = "csv"
path = "visits.csv"
target = "visits"
target_scale = "none"
[model]
kind = "python"
function = "parts:rates"
[optimizer]
name = "adam"
lr = 0.05
[train]
loss = "parts:poisson"
task = "numbers"
metrics = ["mae", "parts:least"]
epochs = 30
batch_size = 30
[execution]
threads = 1
workers = 0
"""
PROGRAM = """program = "parts:Own"
task = "numbers"
"""


def written(directory: Path, shift: int = 0) -> Path:
    rows = np.column_stack([X, VISITS + shift])
    text = "\n".join(",".join(map(repr, row)) for row in rows.tolist())
    (directory / "visits.csv").write_text(f"a,b,visits\n{text}\n", encoding="utf-8")
    (directory / "parts.py").write_text(PARTS, encoding="utf-8")
    return directory


def rates_of(saved: sweeper.SavedModel) -> NDArray[np.float64]:
    """The rates of the rows by the exported weights, computed without the package."""
    linear = saved.model.linear
    info = saved.info["data"]["transform"]["scaling"]
    x = (X - np.array(info["shift"])) / np.array(info["scale"])
    return np.exp(x @ np.asarray(linear.weight)[0] + np.asarray(linear.bias)[0])


@pytest.mark.parametrize("program", ["", PROGRAM], ids=["loss", "program"])
def test_counts_are_trained_and_predicted_in_their_own_unit(program: str, tmp_path: Path) -> None:
    given = """loss = "parts:poisson"
task = "numbers"
metrics = ["mae", "parts:least"]
"""
    study = STUDY.replace(given, program or given)
    results = trained(study_in(written(tmp_path), study))
    row = results.trials().iloc[0]
    export(results.run_dir.root, None, 0, tmp_path / "best")

    saved = sweeper.load(tmp_path / "best", base_dir=tmp_path)
    rates = rates_of(saved)
    np.testing.assert_allclose(saved.predict(X), rates, rtol=1e-4)
    assert np.mean(np.abs(rates - VISITS)) < 0.8 * np.mean(np.abs(VISITS.mean() - VISITS))
    alone = standalone(tmp_path / "best", tmp_path, {"y": "load.predict(given['x'])"}, x=X)
    np.testing.assert_allclose(alone["y"], rates, rtol=1e-4)
    if not program:
        assert row["final_val_least"] == 0
    card = (tmp_path / "best" / "README.md").read_text(encoding="utf-8")
    assert "| outputs | predicted as they are, since the targets were not scaled |" in card
    assert saved.info["settings"]["data"]["target_scale"] == "none"


def test_the_command_predicts_what_a_refit_model_returns(
    tmp_path: Path, command: CommandLine
) -> None:
    config = study_in(written(tmp_path), STUDY)
    trained(config)
    again, _ = refit_study(RunDir(config.run_dir), 0, "all")
    assert not again.data.standardizes_targets

    assert command("refit", "run").returncode == 0
    done = command("predict", "refit", "visits.csv")
    assert done.returncode == 0, done.stderr
    name, *values = done.stdout.split()
    assert name == "visits"
    saved = sweeper.load(tmp_path / "refit", base_dir=tmp_path)
    np.testing.assert_allclose([float(value) for value in values], rates_of(saved), rtol=1e-4)


@pytest.mark.parametrize(("shift", "scale"), [(5_800_000, "standard"), (0, "none")])
def test_a_table_has_the_numbers_that_the_model_predicts(
    shift: int, scale: str, tmp_path: Path
) -> None:
    study = STUDY.replace('loss = "parts:poisson"', 'loss = "mse"').replace(', "parts:least"', "")
    study = study.replace('kind = "python"\nfunction = "parts:rates"', "depth = 0\nwidth = 4")
    rows = written(tmp_path, shift) / "visits.csv"
    trained(study_in(tmp_path, study, f"data.target_scale={scale}", "train.epochs=2"))
    export(tmp_path / "run", None, 0, tmp_path / "best")

    found = predict_table(tmp_path / "best", rows, [].append).predicted["visits"]

    saved = sweeper.load(tmp_path / "best")
    expected, resolution = saved.predict(X), np.spacing(np.abs(saved.outputs(X)[:, 0]))
    resolution = resolution.astype(float) * saved.info["data"]["spec"]["y_scale"][0]
    assert (np.abs(found - expected) <= resolution / 2).all()
    assert np.median([len(str(one)) for one in found]) <= 15
    if scale == "none":  # with the digits of a 32-bit float
        assert found == expected.astype(np.float32).astype(str).astype(float).tolist()


def test_metrics_and_simple_models_do_not_depend_on_the_scale_of_the_target(
    tmp_path: Path,
) -> None:
    study = STUDY.replace('loss = "parts:poisson"', 'loss = "mse"')
    study = study.replace('kind = "python"\nfunction = "parts:rates"', "depth = 0\nwidth = 4")
    scores: dict[str, dict[str, Mapping[str, float | None]]] = {}
    for scale in ("none", "standard"):
        directory = tmp_path / scale
        directory.mkdir()
        results = trained(study_in(written(directory), study, f"data.target_scale={scale}"))
        row = results.trials().iloc[0]
        assert row["final_val_least"] == pytest.approx(0, abs=1e-5)
        baseline = read_baseline(results.run_dir)
        assert baseline is not None and baseline.models
        scores[scale] = {one.name: one.scores for one in baseline.models}
    assert scores["none"].keys() == scores["standard"].keys()
    for name, one in scores["none"].items():
        assert one == pytest.approx(scores["standard"][name], rel=1e-3, abs=1e-5)
