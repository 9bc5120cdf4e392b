"""A study with the strategy switch on four devices, which XLA simulates here."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

from sweeper import open_results
from sweeper.cli.new_study import begin_again
from sweeper.config import parse
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.trial import TrialSpec
from tests.digest import deterministic_digest
from tests.processes import finish, kill, start
from tests.programs.conftest import Bench
from tests.programs.plain import train, weights_only

RELATIVE = 1e-9  # float64; on several devices XLA takes some sums in another order
STUDY = """\
version = 1
[study]
name = "switched"
metric = "val_loss"
direction = "minimize"
n_trials = 12
sampler = { name = "grid" }
[data]
source = "sklearn"
name = "wine"
[model]
activation = "tanh"
[optimizer]
name = "adamw"
weight_decay = 0.1
[train]
loss = "cross_entropy"
epochs = 10
batch_size = 32
[search]
model.depth = { type = "int", low = 1, high = 2 }
model.width = { type = "int", low = 8, high = 16, base = 2 }
optimizer.lr = { type = "categorical", choices = [1e-3, 5e-4, 1e-4] }
[schedule]
parallel = 5
round_epochs = 1
[results]
keep_models = 12
[execution]
strategy = "switch"
threads = 1
workers = 0
precision = "float64"
"""
FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_LOG_COMPILES": "1"}


@dataclass(frozen=True)
class Switched:
    """The study, run to its end: directory, cache and output."""

    directory: Path
    cache: Path
    said: str


def begin(directory: Path, cache: Path) -> subprocess.Popen[str]:
    (directory / "study.toml").write_text(STUDY, encoding="utf-8")
    return start(directory, cache, ["run", "study.toml", "--quiet"], environment=FOUR)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Switched:
    directory, cache = tmp_path_factory.mktemp("four"), tmp_path_factory.mktemp("cache")
    process = begin(directory, cache)
    _, said = process.communicate()
    assert process.returncode == 0, said
    return Switched(directory, cache, said)


@pytest.fixture
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_four_architectures_share_one_compiled_program(four: Switched) -> None:
    results = open_results(four.directory / "runs" / "switched")
    trials, buckets = results.trials(), results.buckets()

    assert set(trials["strategy"]) == {"switch"}
    assert trials["structure_id"].nunique() == 4
    (class_id,) = set(trials["class_id"])
    compiled = re.findall(rf"Finished XLA compilation of jit\(segment_{class_id}\)", four.said)
    assert len(compiled) == 1
    assert len(re.findall(r"Finished XLA compilation of jit\(segment_", four.said)) == 1
    assert (buckets["compile_s"] > 0).sum() == 1
    assert set(buckets["device"]) == {"cpu:0,1,2,3"}
    assert set(trials["device"]) == {f"cpu:{device}" for device in range(4)}


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize(("depth", "width"), [(1, 8), (1, 16), (2, 8), (2, 16)])
def test_each_trial_equals_its_plain_run(depth: int, width: int, four: Switched) -> None:
    results = open_results(four.directory / "runs" / "switched")
    root = results.run_dir.root
    rows, metrics = results.trials(), results.metrics()
    row = rows[(rows["params_depth"] == depth) & (rows["params_width"] == width)].iloc[0]
    params = {"depth": depth, "width": width, "lr": float(row["params_lr"])}
    trial = TrialSpec(int(row["trial_number"]), params, params, 0)
    study = Bench(parse(STUDY, four.directory / "study.toml"), four.directory)
    own = metrics[metrics["trial_number"] == trial.number].pivot(
        index="epoch", columns="metric", values="value"
    )
    losses = optax.softmax_cross_entropy_with_integer_labels
    optimizer = optax.adamw(params["lr"], weight_decay=0.1, mask=weights_only)
    plain = train(study, trial, optimizer, lambda out, y: losses(out, y).mean())

    found = own[["train_loss", "val_loss"]].to_numpy()
    np.testing.assert_allclose(found, plain.rows, rtol=RELATIVE)
    layers = kept_model(study, trial, root / row["model_path"]).layers
    for layer, linear in zip(layers, plain.nets[-1].linears, strict=True):
        np.testing.assert_allclose(layer.weight, linear.weight, rtol=RELATIVE)
        np.testing.assert_allclose(layer.bias, linear.bias, rtol=RELATIVE)


def kept_model(study: Bench, trial: TrialSpec, path: Path) -> Any:
    """The weights of a trial as saved by the study."""
    settings = study.config.settings_of(trial.params)
    program = Programs(data_spec(study.config, study.data)).exact(settings)
    return eqx.tree_deserialise_leaves(
        path, program.saver.model(program.layout.init(trial.number, settings))
    )


def test_a_trial_can_be_repeated_in_its_own_class(four: Switched, tmp_path: Path) -> None:
    root = four.directory / "runs" / "switched"
    begin_again(root, 7, tmp_path / "again.toml")

    finish(start(tmp_path, four.cache, ["run", "again.toml", "--quiet"]))

    results = open_results(tmp_path / "runs" / "switched-trial-7")
    assert set(results.trials()["strategy"]) == {"exact"}
    metrics = open_results(root).metrics()
    by = ["epoch", "metric"]
    expected = metrics[metrics["trial_number"] == 7].sort_values(by)["value"]
    np.testing.assert_allclose(results.metrics().sort_values(by)["value"], expected, RELATIVE)


@pytest.mark.slow
def test_a_kill_changes_no_row(four: Switched, tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "runs" / "switched")
    process = begin(tmp_path, four.cache)
    while not run_dir.status.exists() or read_status(run_dir).round < 3:
        assert process.poll() is None
        time.sleep(0.005)
    assert kill(process) == []
    assert not run_dir.trials.exists() or len(open_results(run_dir.root).trials()) < 12
    finish(begin(tmp_path, four.cache))

    unbroken = RunDir(four.directory / "runs" / "switched")
    assert deterministic_digest(run_dir) == deterministic_digest(unbroken)
