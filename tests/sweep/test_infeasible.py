"""Trials with too many parameters are not trained."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import sweeper
from sweeper.config import parse
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from tests.small_studies import DIGITS

LIMIT = "study.constraints=[{metric='n_parameters',max=1500}]"
SMALL = ("study.n_trials=8", "train.epochs=2", "schedule.parallel=4", "study.sampler.name='random'")


def rows(directory: Path, *overrides: str) -> pd.DataFrame:
    study = parse(
        DIGITS, directory / "study.toml", [f"results.dir={directory}/run", *SMALL, *overrides]
    )
    sweeper.run(study)
    return sweeper.open_results(directory / "run").trials().set_index("trial_number")


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return rows(tmp_path_factory.mktemp("limited"), LIMIT)


def test_they_end_as_infeasible_without_an_epoch(trials: pd.DataFrame) -> None:
    is_large = trials["n_parameters"] > 1500
    assert 0 < is_large.sum() < len(trials)
    large = trials[is_large]
    assert set(large["state"]) == {"PRUNED"}
    assert set(large["reason"]) == {"infeasible"}
    assert set(large["epochs_done"]) == {0}
    assert set(large["strategy"]) == {"none"}
    assert large[["value", "best_value", "class_id", "device"]].isna().all(axis=None)
    assert not large["feasible"].any()
    assert set(trials[~is_large]["state"]) == {"COMPLETE"}


def test_another_is_drawn_in_the_same_round_for_each(trials: pd.DataFrame) -> None:
    n_first = (trials["first_round"] == 1).sum()
    assert n_first == 4 + (trials.iloc[:4]["epochs_done"] == 0).sum()


def test_an_objective_that_counts_parameters_learns_from_all(tmp_path: Path) -> None:
    both = "study.metric=['val_loss','n_parameters']", "study.direction=['minimize','minimize']"
    assert set(rows(tmp_path, LIMIT, *both)["state"]) == {"COMPLETE"}


def test_a_study_without_a_feasible_trial_ends(tmp_path: Path) -> None:
    nothing = rows(tmp_path, "study.constraints=[{metric='n_parameters',max=1}]")
    assert set(nothing["reason"]) == {"infeasible"}
    assert not len(sweeper.open_results(tmp_path / "run").best(1))


def test_only_pruned_trials_save_epochs(tmp_path: Path) -> None:
    rows(tmp_path, LIMIT, "study.stop={value=9.0}", "study.name=ends")
    status = read_status(RunDir(tmp_path / "run"))
    assert status.epochs is not None
    found = sweeper.open_results(tmp_path / "run").trials()
    infeasible = (found["reason"] == "infeasible").sum()
    saved = status.epochs["without_pruning"] - status.epochs["trained"]
    assert saved == 2 * infeasible, "those that study.stop ended do not count"
    assert status.epochs["trained"] == found["epochs_done"].sum()
