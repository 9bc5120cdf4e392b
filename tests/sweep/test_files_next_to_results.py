"""What `run` writes next to the tables: importances, SCHEMA.md, a log; and the stop file."""

from __future__ import annotations

import json
import logging
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import sweeper
from sweeper.results.columns import IMPORTANCE, LEAST_TRIALS
from sweeper.results.importance import is_importance
from sweeper.results.listing import read_trials
from sweeper.rundir import RunDir
from sweeper.sweep.importances import Importances
from sweeper.sweep.state import EndedTrials
from tests.command_line import STUDY, CommandLine, settings, wait_for
from tests.in_process import study_in, trained

TWO = (
    "study.metric=['val_loss','n_parameters']",
    "study.direction=['minimize','minimize']",
    "study.sampler={name='random'}",
    "search.model.width={type='int', low=4, high=16, or=[32], base=2}",
    "search.model.dropout={type='float', low=0.1, high=0.3, when={'model.width'=[4]}}",
    "search.optimizer.weight_decay={type='categorical', choices=[0.1]}",
    "execution.strategy=padded",
)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    directory = tmp_path_factory.mktemp("next")
    return trained(study_in(directory, STUDY, *TWO)).run_dir


@pytest.mark.slow
def test_importances_are_of_every_objective_and_parameter(run_dir: RunDir) -> None:
    found = pd.read_parquet(run_dir.importance)
    trials = sweeper.open_results(run_dir.root).trials()

    assert [*found.columns] == [column.name for column in IMPORTANCE]
    assert set(found["n_trials"]) == {sum(trials["state"] == "COMPLETE")}
    assert set(found.loc[found["parameter"] != "dropout", "n_trials_with"]) == {len(trials)}
    by_objective = found.set_index("parameter").groupby("metric")["importance"]
    assert set(by_objective.groups) == {"val_loss", "n_parameters"}
    names = {"lr", "epochs", "width", "dropout", "weight_decay"}
    for _, values in by_objective:
        assert set(values.index) == names
        assert values.sum() == pytest.approx(1)
        assert values["weight_decay"] == 0, "it is the same in every trial"
    assert by_objective.get_group("n_parameters").idxmax() == "width"


def test_importances_equal_those_of_optuna(run_dir: RunDir) -> None:
    import optuna
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    from sweeper.study.frozen_trials import frozen_trials
    from sweeper.study.importance import enclosing_distributions

    config = sweeper.load_study(run_dir.root.parent / "study.toml", TWO)
    rows = read_trials(run_dir).rows()
    study = optuna.create_study(directions=["minimize", "minimize"])
    study.add_trials([*frozen_trials(config, rows, {}, enclosing_distributions(config))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few trials, and that lower is better
        expected = get_param_importances(
            study, evaluator=PedAnovaImportanceEvaluator(), target=lambda trial: trial.values[0]
        )
    found = pd.read_parquet(run_dir.importance)
    own = found[found["metric"] == "val_loss"].set_index("parameter")["importance"]
    for name, value in expected.items():
        assert own[name] == pytest.approx(value)


def test_main_effects_are_close_to_those_of_optuna() -> None:
    import optuna
    from optuna.importance import FanovaImportanceEvaluator

    from sweeper.study.importance import main_effects

    places = np.random.default_rng(0).uniform(size=(60, 3))
    values = np.sin(4 * places[:, 0]) + places[:, 1] ** 2
    names = ("a", "b", "c")
    study = optuna.create_study()
    study.add_trials(
        [
            optuna.create_trial(
                params=dict(zip(names, place, strict=True)),
                distributions=dict.fromkeys(names, optuna.distributions.FloatDistribution(0, 1)),
                value=value,
            )
            for place, value in zip(places.tolist(), values.tolist(), strict=True)
        ]
    )
    expected = FanovaImportanceEvaluator(seed=0).evaluate(study)
    found = main_effects(places, values, np.random.default_rng(0))
    assert found == pytest.approx([expected[name] for name in names], abs=0.05)


def test_a_file_of_an_earlier_version_is_not_damaged(run_dir: RunDir, tmp_path: Path) -> None:
    whole = parquet.read_table(run_dir.importance).replace_schema_metadata(None)
    for count, is_whole in ((len(IMPORTANCE), True), (6, True), (5, False)):
        parquet.write_table(whole.select(whole.column_names[:count]), tmp_path / "some.parquet")
        assert is_importance(tmp_path / "some.parquet") is is_whole


def test_importances_need_trials_and_never_end_a_study(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, now = study_in(tmp_path, STUDY), [0.0]
    importances = Importances(config, RunDir(tmp_path / "run"), lambda: now[0])
    row: dict[str, Any] = {"state": "COMPLETE", "value": 1.0, "params_json": '{"lr": "no number"}'}
    ended = EndedTrials(["minimize"], 0)
    ended.add({number: {**row, "trial_number": number} for number in range(9)})
    with caplog.at_level(logging.WARNING, logger="sweeper"):
        importances.consider(1, ended)
        assert not caplog.messages, "it is too early"
        importances.finish(1, ended)
        assert not caplog.messages, "they are too few"
        ended.add({number: {**row, "trial_number": number} for number in range(9, 12)})
        importances.finish(1, ended)
    assert "importance.parquet was not written: " in caplog.text
    assert not (tmp_path / "run" / "importance.parquet").exists()


def test_importances_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    config = study_in(tmp_path, STUDY)
    run_dir = RunDir(tmp_path / "run")
    importances = Importances(config, run_dir)
    ended = EndedTrials(["maximize"], 0)
    params = [json.dumps({"lr": 0.001 * (n + 1)}) for n in range(LEAST_TRIALS)]
    rows = [
        {"state": "COMPLETE", "value": float(n), "params_json": p} for n, p in enumerate(params)
    ]
    ended.add({n: {**row, "trial_number": n} for n, row in enumerate(rows)})
    importances.finish(1, ended)
    assert not run_dir.importance.exists(), "its directory is missing"
    run_dir.root.mkdir()
    importances.finish(1, ended)
    assert run_dir.importance.exists()


def test_columns_are_described_next_to_the_tables(run_dir: RunDir) -> None:
    text = run_dir.schema.read_text(encoding="utf-8")
    for column in sweeper.open_results(run_dir.root).trials():
        assert f"\n| {column} | " in text
    for heading in ("trials.parquet", "metrics/", "buckets.parquet", "importance.parquet"):
        assert f"\n## {heading}\n" in text


def test_a_run_is_logged_in_its_directory_or_in_the_given_file(command: CommandLine) -> None:
    command.write()
    few = settings("study.n_trials=2")

    assert command("run", "study.toml", "--quiet", *few).returncode == 0
    log = command.run_dir.log.read_text(encoding="utf-8")
    more = ("--fresh", "--log-file", "own/run.log", "--log-level", "debug")
    assert command("run", "study.toml", "--quiet", *few, *more).returncode == 0
    own = (command.directory / "own" / "run.log").read_text(encoding="utf-8")
    refused = command("run", "study.toml", "--set", "data.name=nothing", "--quiet")

    assert " INFO study wine opened: 2 trials, 0 rounds done\n" in log
    assert " INFO round 1 closed: " in log
    assert " DEBUG " not in log
    assert " DEBUG bucket 0, exact: trials 0, 1, thread 0\n" in own
    assert not command.run_dir.log.exists()
    assert refused.returncode == 2


def test_a_stop_file_stops_a_study_at_its_next_commit(command: CommandLine) -> None:
    """From any machine; an old stop file does not stop a study."""
    command.write(STUDY)
    long = settings("study.n_trials=500", "schedule.parallel=1")
    assert command("stop", str(command.run_dir.root)).returncode == 3
    with command.started("run", "study.toml", *long) as process:
        wait_for("round 1", process)
        stopped = command("stop", str(command.run_dir.root))
        process.communicate(timeout=120)
    assert (stopped.returncode, process.returncode) == (0, 130)
    assert f"asked pid {process.pid} on " in stopped.stdout
    assert not command.run_dir.stop.exists()
    status = command.status()
    assert status["state"] == "interrupted"
    again = command("stop", str(command.run_dir.root))
    assert again.returncode == 2
    assert "the study is not running: its state is interrupted" in again.stderr
    command.run_dir.stop.touch()
    before = time.time()
    goes_on = command("run", "study.toml", "--quiet", *settings("study.n_trials=6"))
    assert goes_on.returncode in (0, 1), before
    assert command.status()["state"] == "finished"
