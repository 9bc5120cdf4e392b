"""Trials with too many parameters are not trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import sweeper
from sweeper import api
from sweeper.config import parse
from sweeper.dashboard.page import Page
from sweeper.dashboard.study import PublishedStudy
from sweeper.results import formatting
from sweeper.results.status import epochs_saved, read_status
from sweeper.rundir import RunDir
from sweeper.scheduler.lattice import plain_size
from sweeper.sweep.planning import make_forecast, prepare_classes
from tests.command_line import CommandLine, settings
from tests.in_process import prepared, study_in
from tests.small_studies import DIGITS, bent

LIMIT = "study.constraints=[{metric='n_parameters',max=1500}]"
SMALL = ("study.n_trials=8", "train.epochs=2", "schedule.parallel=4", "study.sampler.name='random'")


def rows(directory: Path, *overrides: str) -> pd.DataFrame:
    study = parse(
        DIGITS, directory / "study.toml", [f"results.dir={directory}/run", *SMALL, *overrides]
    )
    sweeper.run(study)
    return sweeper.open_results(directory / "run").trials().set_index("trial_number")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    directory = tmp_path_factory.mktemp("limited")
    rows(directory, LIMIT)
    return RunDir(directory / "run")


@pytest.fixture(scope="module")
def trials(run_dir: RunDir) -> pd.DataFrame:
    return sweeper.open_results(run_dir.root).trials().set_index("trial_number")


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


def test_a_plan_leaves_them_out_and_draws_others_as_a_run_does(
    trials: pd.DataFrame, run_dir: RunDir
) -> None:
    first = trials[trials["first_round"] == 1]
    study = parse(DIGITS, run_dir.root / "study.toml", [*SMALL, LIMIT, f"results.dir={run_dir}/no"])
    preview = api.plan(study)
    planned = sorted(number for bucket in preview.plan.buckets for number in bucket.numbers)
    assert planned == [*first[first["epochs_done"] > 0].index]
    assert [*preview.infeasible] == [*first[first["epochs_done"] == 0].index]
    shown = preview.as_dict()
    assert shown["first_round"]["infeasible"] == [*preview.infeasible]
    (note,) = [note for note in shown["notes"] if "study.constraints" in note]
    assert note.startswith(f"{len(preview.infeasible)} of the first {len(first)} trials would not")


def test_an_objective_that_counts_parameters_learns_from_all(tmp_path: Path) -> None:
    both = "study.metric=['val_loss','n_parameters']", "study.direction=['minimize','minimize']"
    assert set(rows(tmp_path, LIMIT, *both)["state"]) == {"COMPLETE"}


BUILDER = """\
import equinox as eqx

def build(in_size, out_size, key, width: int = 8, depth: int = 1):
    if (width, depth) == (9, 2):
        raise ValueError("no model has two layers of 9 units")
    return eqx.nn.MLP(in_size, out_size, width, depth, key=key)
"""


def test_a_model_that_cannot_be_built_fails_whatever_its_size_would_be(tmp_path: Path) -> None:
    (tmp_path / "built_here.py").write_text(BUILDER)
    sizes = ("width", 8, 9), ("depth", 1, 2)
    found = rows(
        tmp_path,
        "model={kind='python', function='built_here:build', width=8, depth=1}",
        "search={}",
        *(f"search.model.{name}={{type='int', low={a}, high={b}}}" for name, a, b in sizes),
        *("study.sampler.name='grid'", "study.n_trials=4"),
        "study.constraints=[{metric='n_parameters', min=10}]",
    )
    assert found["state"].value_counts().to_dict() == {"COMPLETE": 3, "FAIL": 1}
    failed = found[found["state"] == "FAIL"].iloc[0]
    assert (failed["reason"], failed["error_type"]) == ("error", "ValueError")
    assert "no model has two layers of 9 units" in failed["error_message"]


def test_a_study_without_a_feasible_trial_ends(tmp_path: Path) -> None:
    nothing = rows(tmp_path, "study.constraints=[{metric='n_parameters',max=1}]")
    assert set(nothing["reason"]) == {"infeasible"}
    assert not len(sweeper.open_results(tmp_path / "run").best(1))


@pytest.mark.parametrize(
    ("strategy", "bound", "compiled"),
    [
        ("padded", "max=1500", [16]),
        ("padded", "max=1600", [64, 16]),
        ("padded", "min=2000", [64]),
        ("padded", "max=1e6", [64, 16]),
        ("switch", "max=1500", [None]),
        ("switch", "min=1e6", []),
    ],
)
def test_programs_that_no_trial_may_use_are_not_compiled_ahead(
    strategy: str, bound: str, compiled: list[int | None], tmp_path: Path
) -> None:
    config = study_in(
        tmp_path,
        bent(DIGITS, "search={}"),
        "search.model.width={type='int', low=16, high=64, base=2}",
        *("model.depth=1", "study.n_trials=100", f"execution.strategy={strategy}"),
        f"study.constraints=[{{metric='n_parameters', {bound}}}]",
    ).with_parallel(32)
    data = prepared(config)
    forecast = make_forecast(config, data, None)
    ((name, family),) = forecast.families.items()
    (whole,) = family.classes
    small = replace(whole, sizes=plain_size(16, 1), widths=(8, 16), run_widths=(), train_s=1.0)
    large = replace(whole, sizes=plain_size(64, 1), widths=(21, 64), run_widths=(), train_s=2.0)
    forecast = replace(forecast, families={name: replace(family, classes=(small, large))})
    session: Any = SimpleNamespace(forecast=forecast, largest_n_trials=100)
    widths: list[int | None] = []
    prepare_classes(config, data, session, lambda one, _: widths.append(one.padded_width))
    assert widths == compiled


def test_only_pruned_trials_save_epochs(trials: pd.DataFrame, run_dir: RunDir) -> None:
    trained = trials["epochs_done"].sum()
    epochs = {"trained": trained, "without_pruning": trained, "pruned": 0}
    status = read_status(run_dir)
    assert status.epochs == epochs
    assert epochs_saved(status) is None
    pruned = replace(status, epochs={"trained": 184, "without_pruning": 720, "pruned": 30})
    line = "trained 184 of 720 epochs: 30 trials were pruned, which saved the others"
    assert epochs_saved(pruned) == line


def test_nothing_is_said_about_saved_epochs_if_a_limit_cut_trials_off(tmp_path: Path) -> None:
    lengths = "search.train.epochs={type='int', low=1, high=2}"
    found = rows(tmp_path, lengths, "study.stop={value=9.0}", "schedule.round_epochs=1")
    assert "stopped" in set(found["reason"])
    assert read_status(RunDir(tmp_path / "run")).epochs is None


def test_they_are_counted_apart_from_pruned_trials(trials: pd.DataFrame, run_dir: RunDir) -> None:
    status = read_status(run_dir)
    n = (trials["reason"] == "infeasible").sum()
    assert status.infeasible == n
    line = f"{len(trials) - n} complete, 0 pruned, {n} infeasible, 0 failed"
    assert formatting.ended(status) == line
    assert formatting.outcome({"state": "PRUNED", "reason": "infeasible"}) == "infeasible"
    assert formatting.none_feasible(status) is None
    assert f"{n} infeasible" in str(Page([PublishedStudy(run_dir)]).payload(0)["views"])


def test_a_study_without_a_feasible_trial_says_so_first(
    tmp_path: Path, command: CommandLine
) -> None:
    command.write(DIGITS)
    limited = settings(*SMALL, "study.n_trials=2", "study.constraints=[{metric='val_loss',max=0}]")
    done = command("run", "study.toml", *limited)
    assert done.stdout.startswith("no trial meets study.constraints; relax them, ")
    assert "no trial meets study.constraints" in command("status").stdout
    best = command("best").stdout
    assert best.startswith("no trial meets study.constraints; trial ")
    exported = command("export").stdout
    assert exported.startswith(best.partition("\n")[0])


def test_a_study_of_models_that_are_all_too_large_says_so(
    tmp_path: Path, command: CommandLine
) -> None:
    command.write(DIGITS)
    limited = settings(*SMALL, "study.constraints=[{metric='n_parameters',max=1}]")
    planned = command("plan", "study.toml", *limited)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "8 of the first 8 trials would not be trained" in " ".join(planned.stdout.split())
    done = command("run", "study.toml", *limited)
    assert done.stdout.startswith("no trial meets study.constraints; relax them, ")
    assert "not trained: the number of parameters violates a constraint" in done.stdout
    shown = " ".join(command("best").stderr.split())
    assert "had a number of parameters that violates study.constraints: relax them" in shown
