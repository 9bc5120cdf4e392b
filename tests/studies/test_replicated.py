"""A study of replicates and folds: its rows, and that it resumes like any other."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeper.config import parse
from sweeper.data.prepare import prepare
from sweeper.errors import DataError
from tests.command_line import CommandLine, settings
from tests.studies.test_golden_digest import Golden, Study, run_golden

STUDY = """
version = 1
[study]
name = "replicated"
metric = "val_accuracy"
direction = "maximize"
n_trials = 6
replicates = 3
[study.sampler]
name = "random"
[data]
source = "sklearn"
name = "iris"
[model]
depth = 1
[optimizer]
name = "adamw"
[train]
loss = "cross_entropy"
metrics = ["accuracy"]
epochs = 4
batch_size = 16
[search]
model.width = { type = "int", low = 4, high = 8, base = 2 }
optimizer.lr = { type = "float", low = 1e-3, high = 1e-1, log = true }
[schedule]
round_epochs = 2
[results]
dir = "run"
keep_models = 2
"""
# on a grid, so that a sampler is killed that no other study in a golden digest has
MEMBERS = (
    "study.replicates=2",
    "study.folds=2",
    "study.sampler={name='grid'}",
    "search.optimizer.lr={type='float',low=1e-3,high=1e-2,step=3e-3}",
    "search.optimizer.weight_decay={same_as='optimizer.lr'}",
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> CommandLine:
    """The study, trained; no test changes its files."""
    command = CommandLine(tmp_path_factory.mktemp("replicated"), compile_cache)
    command.write(STUDY)
    assert command("run", "study.toml", "--quiet").returncode == 0
    return command


@pytest.fixture
def run(trained: CommandLine) -> Path:
    """Its run directory."""
    return trained.directory / "run"


def test_value_is_the_mean_and_value_std_the_spread(run: Path) -> None:
    trials = pd.read_parquet(run / "trials.parquet").set_index("trial_number")
    metrics = pd.read_parquet(run / "metrics")
    last = metrics[(metrics.metric == "val_accuracy") & (metrics.epoch == 4)]
    by_trial = last.groupby("trial_number").value

    assert sorted(metrics.replicate.unique()) == [0, 1, 2]
    assert by_trial.count().eq(3).all()
    np.testing.assert_allclose(trials.value, by_trial.mean(), rtol=1e-15)
    np.testing.assert_allclose(trials.value_std, by_trial.std(), rtol=1e-12, atol=1e-15)
    assert trials.n_replicates.eq(3).all()


def test_every_replicate_of_the_best_is_kept(run: Path) -> None:
    kept = sorted(path.name for path in (run / "models").iterdir())
    trials = pd.read_parquet(run / "trials.parquet")
    best = trials.dropna(subset="model_path").trial_number.tolist()

    assert len(best) == 2
    assert kept == sorted(
        f"trial-{number:06d}{which}{kind}"
        for number in best
        for which in ("", "-1", "-2")
        for kind in (".eqx", ".safetensors")
    )


def test_lanes_of_a_bucket_are_counted_with_their_replicates(run: Path) -> None:
    buckets = pd.read_parquet(run / "buckets.parquet")

    trials = buckets.trials.map(lambda told: len(json.loads(told)))
    assert buckets.lanes_live.tolist() == (3 * trials).tolist()
    assert (buckets.lanes_live <= buckets.capacity).all()


def test_its_best_is_refit_with_one_replicate(run: Path, command: CommandLine) -> None:
    done = command("refit", str(run), "--quiet")

    assert (done.returncode, done.stderr) == (0, "")
    assert "test_accuracy" in done.stdout
    assert "test_accuracy_std" not in done.stdout
    beside = command("refit", str(run), "--quiet", "--on", "all", "--to", "of_all")
    assert (beside.returncode, beside.stderr) == (0, "")


def test_metrics_name_replicate_and_fold(command: CommandLine) -> None:
    command.write(STUDY)
    overrides = settings("study.folds=2", "study.n_trials=1")
    assert command("run", "study.toml", "--quiet", *overrides).returncode == 0

    run = command.directory / "run"
    trials, metrics = pd.read_parquet(run / "trials.parquet"), pd.read_parquet(run / "metrics")
    last = metrics[(metrics.metric == "val_accuracy") & (metrics.epoch == 4)]
    assert list(zip(last.replicate, last.fold, strict=True)) == [*product(range(3), range(2))]
    assert trials.n_folds.tolist() == [2]
    np.testing.assert_allclose(trials.value, [last.value.mean()], rtol=1e-15)
    np.testing.assert_allclose(trials.value_std, [last.value.std()], rtol=1e-12)


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("study.folds=99", "study.folds: 99 folds of 9 rows; write 9 at most"),
        ("train.batch_size=9", "a batch of 9 rows, but a fold trains on 6; write 6 at most"),
    ],
)
def test_impossible_folds_are_refused(setting: str, refusal: str) -> None:
    split = "data.split={val=0.01, test=0.94}"
    overrides = ["study.folds=3", split, "train.batch_size=2", setting]

    with pytest.raises(DataError) as refused:
        prepare(parse(STUDY, Path("study.toml"), overrides))

    assert refused.value.exit_code == 3
    assert refusal in str(refused.value)


def test_a_study_is_not_resumed_with_another_number_of_replicates(trained: CommandLine) -> None:
    refused = trained("run", "study.toml", "--set", "study.replicates=4")

    assert refused.returncode == 2
    assert "study.replicates: was 3 when the study in run began, now 4" in refused.stderr


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return run_golden(tmp_path_factory, 10, "auto", MEMBERS)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["two threads", "two workers"])
def test_rows_do_not_depend_on_kills(place: str, golden: Golden, tmp_path: Path) -> None:
    digest, warm = golden
    study = Study(tmp_path, warm, place, strategy="auto", more=MEMBERS)
    study.run_killed(kills=2)

    assert study.digest() == digest
