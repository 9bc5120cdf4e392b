"""A study of MLPs and user-defined networks: those without a shared program go to workers."""

from __future__ import annotations

import json

import equinox as eqx
import jax
import numpy as np
import pytest

import sweeper
from sweeper.config import StudyConfig
from sweeper.config.user_code import load_function
from sweeper.results.read import Results
from sweeper.scheduler.cost import shipped
from sweeper.scheduler.forecast import DataSizes, forecast

NETS = """\
import equinox as eqx
import jax


class Cnn(eqx.Module):
    convolution: eqx.nn.Conv2d
    linear: eqx.nn.Linear

    def __init__(self, in_size, out_size, *, channels, kernel, key):
        first, second = jax.random.split(key)
        self.convolution = eqx.nn.Conv2d(1, channels, kernel, key=first)
        self.linear = eqx.nn.Linear(channels * (9 - kernel) ** 2, out_size, key=second)

    def __call__(self, x):
        return self.linear(jax.nn.relu(self.convolution(x.reshape(1, 8, 8))).ravel())
"""
STUDY = """\
version = 1
[study]
name = "mixed"
metric = "val_accuracy"
direction = "maximize"
n_trials = 8
seed = 1
sampler = { name = "random" }
[data]
source = "sklearn"
name = "digits"
[model]
depth = 1
width = 8
function = "nets:Cnn"
kernel = 3
[optimizer]
name = "adamw"
lr = 1e-3
[train]
loss = "cross_entropy"
metrics = ["accuracy"]
epochs = 2
batch_size = 64
[search]
model.kind = { type = "categorical", choices = ["mlp", "python"] }
model.depth = { type = "int", low = 1, high = 2 }
model.width = { type = "int", low = 8, high = 16, base = 2 }
model.channels = { type = "int", low = 1, high = 16 }
optimizer.lr = { type = "float", low = 1e-4, high = 1e-2, log = true }
[execution]
strategy = "auto"
threads = 1
workers = 1
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> StudyConfig:
    directory = tmp_path_factory.mktemp("mixed")
    (directory / "nets.py").write_text(NETS, encoding="utf-8")
    (directory / "study.toml").write_text(STUDY, encoding="utf-8")
    return sweeper.load_study(directory / "study.toml", [f"results.dir={directory / 'run'}"])


@pytest.fixture(scope="module")
def results(config: StudyConfig) -> Results:
    sweeper.run(config)
    return sweeper.open_results(config.run_dir)


@pytest.mark.slow
def test_mlps_share_programs_and_others_go_to_workers(results: Results) -> None:
    trials = results.trials()
    is_mlp = trials["params_kind"] == "mlp"
    cnns, mlps = trials[~is_mlp], trials[is_mlp]
    has_partner = cnns["params_channels"].duplicated(keep=False)
    alone = cnns[~has_partner]

    assert (trials["state"] == "COMPLETE").all(), trials["error_message"].to_list()
    assert (len(mlps), len(cnns), len(alone)) == (5, 3, 1)
    assert set(mlps["strategy"]) <= {"exact", "padded"}
    assert set(cnns[has_partner]["strategy"]) == {"exact"}
    assert set(alone["strategy"]) == {"process"}
    assert alone["memory_fraction"].between(0, 1, inclusive="neither").all()
    assert not set(alone["worker_pid"]) & set(mlps["worker_pid"])
    assert cnns["n_parameters"].to_list() == [
        channels * (9 + 1) + channels * 36 * 10 + 10 for channels in cnns["params_channels"]
    ]


@pytest.mark.slow
def test_settings_of_other_models_do_not_split_mlps(results: Results) -> None:
    trials = results.trials()
    mlps = trials[trials["params_kind"] == "mlp"]
    shapes = mlps[["params_depth", "params_width"]].drop_duplicates()

    assert mlps["structure_id"].nunique() == len(shapes)


@pytest.mark.slow
def test_weights_of_both_kinds_are_kept(results: Results, config: StudyConfig) -> None:
    kept = results.trials().dropna(subset="model_path")

    assert len(kept) == 5 and "python" in set(kept["params_kind"])
    for row in kept[kept["params_kind"] == "python"].itertuples():
        build = load_function("nets:Cnn", config.base_dir)
        sizes = {"in_size": 64, "out_size": 10, "channels": int(row.params_channels), "kernel": 3}
        fresh = build(**sizes, key=jax.random.key(0))
        model = eqx.tree_deserialise_leaves(config.run_dir / row.model_path, fresh)
        assert model(np.zeros(64, np.float32)).shape == (10,)


def test_predictions_count_the_share_of_mlps(config: StudyConfig) -> None:
    sizes = DataSizes(in_size=64, out_size=10, train_rows=1200, val_rows=300)
    families = forecast(
        config.with_parallel(32), sizes, shipped("cpu"), "map", {}, config.study.n_trials
    ).families

    ((name, mlps),) = families.items()
    assert mlps.trials == 4
    assert json.loads(name)["model.kind"] == "mlp"
    assert not {"model.channels", "model.function", "model.kernel"} & json.loads(name).keys()
