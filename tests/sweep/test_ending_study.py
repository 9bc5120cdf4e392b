"""A study whose trials end early, with the weights of their best epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest

import sweeper
from sweeper.models.mlp import MLP
from sweeper.results.read import Results
from tests.in_process import study_in, trained

STUDY = """\
version = 1
[study]
name = "ending"
metric = "val_accuracy"
direction = "maximize"
value = "best"
n_trials = 6
sampler = { name = "random" }
[data]
source = "sklearn"
name = "wine"
split = { val = 0.4, test = 0.2 }
[model]
depth = 1
width = 8
[optimizer]
name = "adam"
lr = 1e-2
[train]
loss = "cross_entropy"
metrics = ["accuracy"]
epochs = 12
batch_size = 8
early_stop = { metric = "val_loss", patience = 2 }
[search]
model.width = { type = "int", low = 4, high = 8, step = 4 }
model.activation = { type = "categorical", choices = ["relu", "tanh"] }
optimizer.lr = { type = "float", low = 1e-3, high = 1e-1, log = true }
[execution]
threads = 1
workers = 1
"""


def run(directory: Path, *overrides: str) -> Results:
    return trained(study_in(directory, STUDY, *overrides))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run(tmp_path_factory.mktemp("ending"), "execution.strategy=exact")


def curves(results: Results, metric: str) -> dict[int, list[float]]:
    rows = results.metrics()
    rows = rows[rows["metric"] == metric].sort_values(["trial_number", "epoch"])
    return {int(n): its["value"].to_list() for n, its in rows.groupby("trial_number")}


@pytest.mark.slow
def test_a_trial_ends_with_its_best_epoch(results: Results) -> None:
    trials = results.trials()
    losses, scores = curves(results, "val_loss"), curves(results, "val_accuracy")

    assert (trials["state"] == "COMPLETE").all()
    early = trials["reason"] == "early_stop"
    assert early.any() and not early.all(), "else this test shows nothing"
    assert (early == (trials["epochs_done"] < 12)).all()
    assert (trials["value"] == trials["best_value"]).all()
    for row in trials.itertuples():
        number = int(row.trial_number)
        assert row.value == max(scores[number])
        assert len(losses[number]) == row.epochs_done
        if row.reason == "early_stop":
            assert len(losses[number]) - 1 - int(np.argmin(losses[number])) == 2


@pytest.mark.slow
def test_saved_weights_are_those_of_the_best_epoch(results: Results) -> None:
    """Each kept model gives the test metrics of its row, which are those of its weights."""
    config = sweeper.load_study(results.run_dir.root.parent / "study.toml")
    from sweeper.data.prepare import prepare

    data = prepare(config)
    kept = results.trials().dropna(subset="model_path")
    assert len(kept) == 5
    for row in kept.itertuples():
        sizes: dict[str, Any] = {"depth": 1, "width": int(row.params_width)}
        like = MLP(
            data.n_features,
            data.out_size,
            **sizes,
            activation=str(row.params_activation),
            key=jax.random.key(0),
        )
        model = eqx.tree_deserialise_leaves(results.run_dir.root / str(row.model_path), like)
        predicted = np.argmax(np.asarray(model(data.x_test)), axis=1)
        assert np.mean(predicted == data.y_test) == pytest.approx(row.test_accuracy)
        predicted = np.argmax(np.asarray(model(data.x_val)), axis=1)
        assert np.mean(predicted == data.y_val) == pytest.approx(row.value)


DETERMINISTIC = ["trial_number", "state", "reason", "value", "best_epoch", "epochs_done"]


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(
            ("schedule.round_epochs=1", "execution.strategy=exact"), marks=pytest.mark.slow
        ),
        ("execution.strategy=padded",),
        pytest.param(("execution.strategy=process",), marks=pytest.mark.slow),
    ],
)
def test_rounds_and_strategies_do_not_change_how_trials_end(
    overrides: tuple[str, ...], results: Results, tmp_path: Path
) -> None:
    other = run(tmp_path, *overrides)

    pd.testing.assert_frame_equal(
        other.trials()[[*DETERMINISTIC, "test_loss"]],
        results.trials()[[*DETERMINISTIC, "test_loss"]],
        rtol=1e-4,
    )
    if "exact" in overrides[-1]:
        assert curves(other, "val_loss") == curves(results, "val_loss")


def test_each_replicate_ends_separately(tmp_path: Path) -> None:
    results = run(
        tmp_path,
        "study.replicates=2",
        "study.n_trials=3",
        "search.optimizer.lr.low=5e-2",
        "schedule.round_epochs=2",
        "execution.strategy=exact",
        "execution.workers=0",
    )
    metrics, trials = results.metrics(), results.trials()
    members = ["trial_number", "replicate"]
    scores = metrics[metrics["metric"] == "val_accuracy"].dropna(subset="value")
    losses = metrics[metrics["metric"] == "val_loss"].dropna(subset="value")
    best = scores.groupby(members)["value"].max().unstack()
    last = losses.groupby(members)["epoch"].max().unstack()

    assert (last[0] != last[1]).any(), "else this test shows nothing"
    assert trials["epochs_done"].to_list() == last.max(axis=1).to_list()
    np.testing.assert_allclose(trials["value"], best.mean(axis=1))
    np.testing.assert_allclose(trials["value_std"], best.std(axis=1, ddof=1))
    for (_, _), its in losses.groupby(members):
        values = its.sort_values("epoch")["value"].to_numpy()
        assert len(values) == 12 or len(values) - 1 - int(np.argmin(values)) == 2
