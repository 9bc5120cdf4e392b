"""A study that searches its optimizer, its schedule, its activation and its batch size."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.in_process import study_in, trained

STUDY = """\
version = 1
[study]
name = "searched"
metric = "val_loss"
direction = "minimize"
n_trials = 3
seed = 31
sampler = { name = "random" }
[data]
source = "sklearn"
name = "wine"
[model]
depth = 1
width = 8
[optimizer]
lr = 1e-3
clip_norm = 1.0
[train]
loss = "cross_entropy"
epochs = 2
batch_size = 16
[search]
model.width = { type = "int", low = 8, high = 12, step = 4 }
model.activation = { type = "categorical", choices = ["relu", "tanh"] }
optimizer.name.type = "categorical"
optimizer.name.choices = ["adam", "sgd", "adafactor"]
optimizer.name.name = "optimizer"
optimizer.momentum = { type = "float", low = 0.0, high = 0.9 }
optimizer.nesterov = { type = "categorical", choices = [false, true] }
optimizer.schedule.name.type = "categorical"
optimizer.schedule.name.choices = ["constant", "cosine"]
optimizer.schedule.name.name = "schedule"
optimizer.schedule.end = { type = "float", low = 0.0, high = 0.5 }
train.batch_size = { type = "categorical", choices = [16, 32] }
[execution]
threads = 1
workers = 1
"""


# with this many trials some can share a padded class
MORE = ("study.n_trials=6", "study.seed=2")


def run(directory: Path, strategy: str, *more: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The trials of the study, all complete, and their curves."""
    results = trained(study_in(directory, STUDY, f"execution.strategy={strategy}", *more))
    trials = results.trials()
    assert (trials["state"] == "COMPLETE").all(), trials["error_message"].to_list()
    return trials, results.metrics()


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    return run(tmp_path_factory.mktemp("exact"), "exact")


@pytest.mark.slow
def test_every_kind_of_trial_was_drawn(exact: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    trials, _ = exact
    drawn = ["params_optimizer", "params_schedule", "params_activation", "params_batch_size"]
    assert [trials[column].nunique() for column in drawn] == [3, 2, 2, 2]


def test_a_batch_size_is_the_number_of_rows_per_step(
    exact: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    trials, metrics = exact
    steps = metrics[metrics["epoch"] == 1].groupby("trial_number")["step"].first()
    sizes = trials.set_index("trial_number")["params_batch_size"]

    assert steps.to_dict() == {n: 125 // int(size) for n, size in sizes.items()}


@pytest.mark.slow
def test_a_worker_changes_no_trial(
    exact: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    trials, _ = run(tmp_path, "process")

    pd.testing.assert_series_equal(trials["value"], exact[0]["value"], rtol=1e-4)
    assert not (trials["strategy"] == "padded").any()


@pytest.mark.slow
def test_a_padded_class_changes_no_trial(tmp_path: Path) -> None:
    found = {}
    for strategy in ("exact", "auto"):
        (tmp_path / strategy).mkdir()
        found[strategy], _ = run(tmp_path / strategy, strategy, *MORE)

    trials = found["auto"]
    pd.testing.assert_series_equal(trials["value"], found["exact"]["value"], rtol=1e-4)
    padded = trials["strategy"] == "padded"
    assert not (padded & (trials["params_optimizer"] == "adafactor")).any()
    assert padded.any()
