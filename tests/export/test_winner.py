"""The winner is confirmed with fresh seeds, reproduced alone, and trained again on more rows."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweeper
from sweeper.cli import trial_tables
from sweeper.cli.commands.training import train_study as trained_with_view
from sweeper.cli.tables import TextTable
from sweeper.cli.trial_tables import after_confirming
from sweeper.config import parse
from sweeper.config.load import study_of
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, SetupError, StudyError
from sweeper.export.confirm import finalists, lead, rank_finalists, refuse_others
from sweeper.export.reproduce import (
    alone,
    compare_with_record,
    refit_study,
    with_defined_objective,
)
from sweeper.export.trial_file import trial_file
from sweeper.ledger import Ledger
from sweeper.rundir import RunDir
from sweeper.study.lint import study_warnings
from sweeper.sweep.session.reconcile import reconcile
from tests.command_line import STUDY, CommandLine, settings
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS

MORE = (
    "study.n_trials=5",
    "data.split={val=0.2, test=0.2, stratify=true}",
    "train.metrics=['accuracy']",
    "search.model.dropout={type='float', low=0.1, high=0.3, when={'train.epochs'=[4]}}",
    "search.train.epochs={type='int', low=3, high=4}",
    "study.value=best",
    "train.early_stop={patience=2}",
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("winner")
    trained(study_in(directory, STUDY, *MORE))
    return directory


@pytest.fixture
def run_dir(directory: Path) -> RunDir:
    return RunDir(directory / "run")


def test_finalists_are_trained_with_other_seeds_on_the_same_parts(run_dir: RunDir) -> None:
    found = finalists(run_dir, 3, 4)
    before = sweeper.open_results(run_dir.root)
    original = before.study["settings"]

    assert trained_with_view(found.config, quiet=True)[0].state == "finished"
    rows = rank_finalists(found)

    best = before.best(3)
    assert [row["trial"] for row in sorted(rows, key=lambda row: row["rank_before"])] == [
        *best["trial_number"]
    ]
    assert found.config.study.seed != original["study"]["seed"]
    assert found.config.split_seed == original["study"]["seed"]
    again = sweeper.open_results(run_dir.confirm).trials()
    assert set(again["n_replicates"]) == {4}
    for number, old in enumerate(found.rows):
        assert json.loads(again.loc[number, "params_json"]) == json.loads(old["params_json"])
    assert [row["mean"] for row in rows] == sorted(again["value"])
    assert {row["std"] for row in rows} == set(again["value_std"])
    for name in ("test_accuracy", "test_accuracy_std", "test_loss", "test_loss_std"):
        assert {row[name] for row in rows} == set(again[name])
    assert (again["test_loss_std"] > 0).all()
    config = sweeper.load_study(before.study["study_file"])
    split = {"test": 0.2, "val": 0.2, "stratify": True}
    assert {**found.config.data.split.model_dump(), **split} == found.config.data.split.model_dump()
    assert config.data.source == found.config.data.source


def test_finalists_have_values_of_the_kinds_that_they_had(tmp_path: Path) -> None:
    net = "import equinox as eqx\n\n\ndef build(in_size, out_size, mark, key):\n"
    net += "    assert mark in (False, 0.5, 1) and type(mark) in (bool, float, int)\n"
    net += "    return eqx.nn.MLP(in_size, out_size, 4, 1, key=key)\n"
    (tmp_path / "nets.py").write_text(net, encoding="utf-8")
    model = "model={kind='python', function='nets:build'}"
    marks = "search={model.mark={type='categorical', choices=[false, 0.5, 1]}}"
    few = "study.n_trials=3", "train.epochs=1", "study.sampler={name='grid'}"
    trained(study_in(tmp_path, STUDY, model, marks, *few))

    found = finalists(RunDir(tmp_path / "run"), 3, 2)
    marks_again = [one["mark"] for one in found.config.study.enqueue]
    assert sorted(map(repr, marks_again)) == ["0.5", "1", "False"]


def test_finalists_say_whether_they_meet_the_constraints(tmp_path: Path) -> None:
    bound = "study.constraints=[{metric='val_loss', max=100.0}]"
    trained(study_in(tmp_path, STUDY, bound, "study.n_trials=2", "train.epochs=1"))

    found = finalists(RunDir(tmp_path / "run"), 2, 2)
    assert trained_with_view(found.config, quiet=True)[0].state == "finished"

    assert [row["feasible"] for row in rank_finalists(found)] == [True, True]


def test_trials_have_time_for_all_their_seeds_and_rows(tmp_path: Path) -> None:
    few = "study.n_trials=1", "study.replicates=3", "train.epochs=1"
    config = study_in(tmp_path, STUDY, *few)
    trained(config)
    limit = "execution={trial_timeout='90s', workers=1, strategy='exact'}"
    trained(study_in(tmp_path, STUDY, *few, limit))  # a setting that may change
    run_dir = RunDir(config.run_dir)

    for seeds, expected in ((2, "90s"), (3, "90s"), (8, "240s")):
        assert finalists(run_dir, 1, seeds).config.execution.trial_timeout == expected
    assert alone(run_dir, 0, tmp_path / "again")[0].execution.trial_timeout == "90s"
    assert refit_study(run_dir, 0, "all")[0].execution.trial_timeout is None


@pytest.fixture(scope="module")
def of_own_loss(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A study with a loss of its own, a split by time and a long name, without a warning."""
    directory = tmp_path_factory.mktemp("own_loss")
    own = "def squared(outputs, y):\n    return ((outputs - y) ** 2).mean()\n"
    (directory / "own_loss.py").write_text(own, encoding="utf-8")
    rng = np.random.default_rng(0)
    rows = "".join(f"{day},{a},{a * a}\n" for day, a in enumerate(rng.random(200)))
    (directory / "rows.csv").write_text(f"day,a,price\n{rows}", encoding="utf-8")
    data = 'data={source="csv",path="rows.csv",target="price",target_scale="standard"}'
    short = "study.n_trials=2", "study.sampler={name='random'}", "model.numbers=ple"
    short += (f"study.name={100 * 'n'}",)
    loss = "train.loss=own_loss:squared", "train.task=numbers"
    config = study_in(directory, STUDY, data, "data.split.time=day", *loss, *short)
    assert study_warnings(config) == ()
    return RunDir(trained(config).run_dir.root)


def test_the_study_of_finalists_has_a_name_of_at_most_100_letters(of_own_loss: RunDir) -> None:
    assert finalists(of_own_loss, 2, 2).config.study.name == f"{92 * 'n'}-confirm"


def test_studies_of_a_winner_do_not_warn_about_settings_that_they_write(
    of_own_loss: RunDir, tmp_path: Path
) -> None:
    confirmed = finalists(of_own_loss, 2, 2).config
    assert study_warnings(confirmed) == ()
    assert study_warnings(alone(of_own_loss, None, tmp_path)[0]) == ()
    (of_rows,) = study_warnings(refit_study(of_own_loss, None, "all")[0])
    assert of_rows.startswith("trials train on the validation and test rows, too")


def test_studies_of_a_winner_do_not_warn_about_the_seed_of_a_given_split(tmp_path: Path) -> None:
    parts = ("train", "val", "train", "test")
    rows = "".join(f"{parts[i % 4]},{i % 7},{i % 2}\n" for i in range(80))
    (tmp_path / "rows.csv").write_text(f"part,a,kind\n{rows}", encoding="utf-8")
    data = 'data={source="csv",path="rows.csv",target="kind",split.column="part"}'
    short = "study.n_trials=1", "train.epochs=1", "train.batch_size=8"
    run_dir = RunDir(trained(study_in(tmp_path, STUDY, data, *short)).run_dir.root)
    confirmed = finalists(run_dir, 1, 2).config
    for config in (confirmed, refit_study(run_dir, None, "all")[0]):
        assert config.data.split.seed is not None
        assert not any("seed" in note for note in prepare(config).notes)


def test_finalists_of_a_split_by_time_resume_with_the_seed_of_an_earlier_version(
    of_own_loss: RunDir,
) -> None:
    found = finalists(of_own_loss, 2, 2).config
    record = found.canonical()
    earlier = {**record["data"]["split"], "seed": 0}
    record = {**record, "data": {**record["data"], "split": earlier}}
    begun = study_of(record, found.source.path)

    assert found.data.split.seed is None
    assert reconcile(begun.canonical(), found.as_begun(record).canonical()).refused == ()


def test_the_trial_that_a_study_repeats_is_confirmed(run_dir: RunDir, tmp_path: Path) -> None:
    path = tmp_path / "trial.toml"
    text = trial_file(run_dir.root, 3, path)
    assert "number = 3" in text
    path.write_text(text, encoding="utf-8")
    repeated = sweeper.load_study(path, [f"results.dir={tmp_path / 'again'}"])
    value = trained(repeated).trials()["value"].item()

    found = finalists(RunDir(tmp_path / "again"), 1, 2)
    assert trained_with_view(found.config, quiet=True)[0].state == "finished"
    (row,) = rank_finalists(found)
    assert (row["rank"], row["trial"], row["rank_before"], row["before"]) == (1, 3, 1, value)
    assert row["mean"] is not None


def test_other_finalists_need_a_fresh_start(run_dir: RunDir) -> None:
    first = finalists(run_dir, 2, 2)
    assert trained_with_view(first.config, quiet=True, fresh=True)[0].state == "finished"

    refuse_others(finalists(run_dir, 2, 2))
    for top, seeds in ((3, 2), (2, 3)):
        with pytest.raises(StudyError, match=r"it contains other finalists, .* --fresh"):
            refuse_others(finalists(run_dir, top, seeds))


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (("refit", "1", "--on", "all", "--to", "out"), {"trial.epochs": "1"}),
        (("confirm", "--top", "2", "--seeds", "2"), {}),
    ],
)
def test_trainings_that_began_with_other_settings_need_a_fresh_start(
    arguments: tuple[str, ...],
    changed: dict[str, str],
    run_dir: RunDir,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    study = RunDir(tmp_path / "study")
    shutil.copytree(run_dir.root, study.root, ignore=shutil.ignore_patterns("confirm*", "refit*"))
    name, *others = arguments
    words = (name, str(study.root), *others, "--quiet")
    now = refit_study(study, 1, "all")[0] if name == "refit" else finalists(study, 2, 2).config
    changed = {"study.constraints": "[{ metric = 'n_parameters', max = 9999 }]", **changed}
    began = [f"{key}={value}" for key, value in changed.items()]
    trained(parse(now.source.text, now.source.path, began))

    with pytest.raises(StudyError) as refused:
        sweeper.command(*words)
    place = now.run_dir
    assert [one.key for one in refused.value.problems] == [*changed]
    for one in refused.value.problems:
        assert (one.where, one.hint) == (str(place), "use --fresh to move it aside and train again")
        assert f"when the study in {place} began, now " in one.found
    sweeper.command(*words, "--fresh")


def test_finalists_that_were_killed_before_their_first_session_need_no_fresh_start(
    run_dir: RunDir, tmp_path: Path
) -> None:
    study = RunDir(tmp_path / "study")
    shutil.copytree(run_dir.root, study.root, ignore=shutil.ignore_patterns("confirm*"))
    found = finalists(study, 2, 2)
    begun = RunDir(found.config.run_dir)
    begun.make()
    Ledger.create(begun.ledger).close()
    refuse_others(found)


def test_confirm_says_how_to_continue_with_another_winner(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path / "my runs")

    assert [*after_confirming(run_dir, finalist(1, 15, 1, 0.96))] == []
    (told,) = after_confirming(run_dir, finalist(1, 3, 2, 0.93))
    assert f"python -m sweeper refit '{run_dir.root}' 3 --to refit/" in told


def finalist(
    rank: int, trial: int, rank_before: int, mean: float | None, *, feasible: bool | None = None
) -> dict[str, Any]:
    std = None if mean is None else 0.04
    known = {"rank": rank, "trial": trial, "mean": mean, "std": std, "feasible": feasible}
    return known | {"rank_before": rank_before, "before": 0.9}


METRIC = {"accuracy": "maximize"}
met, violates = partial(finalist, feasible=True), partial(finalist, feasible=False)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (
            [finalist(1, 15, 1, 0.96), finalist(2, 3, 2, 0.90)],
            "trial 15 is confirmed as the best\n"
            "its mean is 0.06 better than that of trial 3, more than 0.04, twice the standard "
            "error of the difference",
        ),
        (
            [finalist(1, 15, 1, 0.93), finalist(2, 3, 2, 0.90)],
            "trial 15 is first again\n"
            "its mean is 0.03 better than that of trial 3, within 0.04, twice the standard "
            "error of the difference: it may be chance; try more seeds (--seeds N --fresh)",
        ),
        (
            [finalist(1, 3, 2, 0.93), finalist(2, 4, 3, 0.92), finalist(3, 15, 1, 0.90)],
            "trial 3 is the best now; trial 15, the former best, has rank 3\n"
            "its mean is 0.03 better than that of trial 15, within 0.04, twice the standard "
            "error of the difference: it may be chance; try more seeds (--seeds N --fresh)",
        ),
        (  # of an ensemble that was selected before the best trial was trained
            [finalist(1, 3, 4, 0.96), finalist(2, 4, 3, 0.92), finalist(3, 15, 2, 0.90)],
            "trial 3 is the best of these now; trial 15, the former best of these, has rank 3\n"
            "its mean is 0.06 better than that of trial 15, more than 0.04, twice the standard "
            "error of the difference",
        ),
        (
            [finalist(1, 15, 2, 0.93), finalist(2, 3, 4, 0.90)],
            "trial 15 is first of these again\n"
            "its mean is 0.03 better than that of trial 3, within 0.04, twice the standard "
            "error of the difference: it may be chance; try more seeds (--seeds N --fresh)",
        ),
        (
            [finalist(1, 15, 2, 0.96), finalist(2, 3, 4, 0.90)],
            "trial 15 is confirmed as the best of these\n"
            "its mean is 0.06 better than that of trial 3, more than 0.04, twice the standard "
            "error of the difference",
        ),
        (
            [finalist(1, 15, 1, 0.96), finalist(2, 3, 2, None)],
            "only trial 15 completed with these seeds, so nothing is compared",
        ),
        (
            [met(1, 15, 2, 0.90), met(2, 3, 3, 0.87), violates(3, 13, 1, 0.92)],
            "trial 13 violates a constraint with these seeds, so it ranks behind the trials that "
            "meet all\n"
            "trial 15 is the best now; trial 13, the former best, has rank 3\n"
            "its mean is 0.03 better than that of trial 3, within 0.04, twice the standard error "
            "of the difference: it may be chance; try more seeds (--seeds N --fresh)",
        ),
        (
            [met(1, 15, 1, 0.90), violates(2, 3, 2, 0.95), violates(3, 13, 3, 0.92)],
            "trials 3 and 13 violate a constraint with these seeds, so they rank behind the trials "
            "that meet all\n"
            "trial 15 is first again",
        ),
        (
            [violates(1, 3, 2, 0.96), violates(2, 13, 1, 0.90)],
            "no finalist meets all constraints with these seeds\n"
            "trial 3 is the best now; trial 13, the former best, has rank 2\n"
            "its mean is 0.06 better than that of trial 13, more than 0.04, twice the standard "
            "error of the difference",
        ),
    ],
)
def test_a_winner_is_confirmed_if_its_lead_over_feasible_finalists_exceeds_chance(
    records: list[dict[str, Any]], said: str
) -> None:
    """With 8 seeds of deviation 0.04 each, differences have a standard error of 0.02."""
    table, _, *told = trial_tables.finalists_table(METRIC, records, 8, lead(records, 8))
    assert told == said.split("\n")
    assert isinstance(table, TextTable)
    has_column = "feasible" in [column.heading for column in table.columns]
    assert has_column == any(one.get("feasible") is False for one in records)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((10.0, 5.0, 20.0), "with these means, trials 15 and 3 are on the Pareto front"),
        ((10.0, 10.0, 10.0), "with these means, only trial 15 is on the Pareto front"),
    ],
)
def test_finalists_of_several_objectives_have_no_winner(
    sizes: tuple[float, ...], said: str
) -> None:
    means = [finalist(1, 15, 1, 0.96), finalist(2, 3, 2, 0.90), finalist(3, 4, 3, 0.90)]
    records = [{**row, "value_1": size} for row, size in zip(means, sizes, strict=True)]
    both = {**METRIC, "n_parameters": "minimize"}
    table, _, *told = trial_tables.finalists_table(both, records, 8, None)
    assert told == [said]
    assert isinstance(table, TextTable)
    assert "n_parameters, mean" in [column.heading for column in table.columns]


def test_a_single_finalist_is_not_called_the_first(command: CommandLine) -> None:
    """The other trial was pruned, so there is nothing to compare it with."""
    command.write()
    pruner = "study.pruner={name='percentile', percentile=1.0, n_startup_trials=1}"
    command("run", "study.toml", *settings("study.n_trials=2", "schedule.parallel=1", pruner))
    shown = command("confirm", str(command.run_dir.root), "--seeds", "2", "--quiet").stdout

    assert "only trial 0 completed with these seeds, so nothing is compared" in shown
    assert "only 1 trial is complete; pruned and failed trials cannot be finalists" in shown
    assert "again" not in shown


def test_splits_can_have_their_own_seed(tmp_path: Path) -> None:
    """A different study.seed with the old one for the split has the same rows in each part."""
    first = prepare(study_in(tmp_path, STUDY))
    other = prepare(study_in(tmp_path, STUDY, "study.seed=1", "data.split.seed=0"))
    apart = prepare(study_in(tmp_path, STUDY, "study.seed=1"))
    assert first.digest == other.digest != apart.digest


def test_a_trial_is_trained_on_more_than_its_part(tmp_path: Path) -> None:
    parts = {
        on: prepare(study_in(tmp_path, DIGITS, f"data.split.train_on={on}", "data.scale=none"))
        for on in ("train", "train+val", "all")
    }
    train = parts["train"]
    for on, more in (("train+val", [train.x_val]), ("all", [train.x_val, train.x_test])):
        np.testing.assert_array_equal(parts[on].x_train, np.concatenate([train.x_train, *more]))
        np.testing.assert_array_equal(parts[on].x_val, train.x_val)
        np.testing.assert_array_equal(parts[on].x_test, train.x_test)
    with pytest.raises(DataError, match=r"data\.split\.train_on: all, but each training leaves"):
        prepare(study_in(tmp_path, DIGITS, "data.split.train_on=all", "study.folds=3"))


def test_a_trial_is_reproduced_and_the_first_difference_is_named(
    run_dir: RunDir, tmp_path: Path
) -> None:
    config, number = alone(run_dir, None, tmp_path / "again")
    assert trained_with_view(config, quiet=True)[0].state == "finished"
    again = RunDir(tmp_path / "again")

    found = compare_with_record(run_dir, again, number)

    assert (found.differing, found.first, found.largest) == (0, None, {})
    assert found.values == found.epochs * 3  # train_loss, val_loss, val_accuracy
    part = next(path for path in again.metrics.iterdir() if "-000000" not in path.name)
    from pyarrow import compute, parquet

    table = parquet.read_table(part)
    is_it = compute.and_(
        compute.equal(table["epoch"], 2), compute.equal(table["metric"], "val_loss")
    )
    moved = compute.if_else(is_it, compute.add(table["value"], 0.25), table["value"])
    place = table.schema.get_field_index("value")
    parquet.write_table(table.set_column(place, table.schema.field(place), moved), part)
    found = compare_with_record(run_dir, again, number)
    assert found.differing == 1
    assert found.first is not None
    assert (found.first.epoch, found.first.metric) == (2, "val_loss")
    assert found.largest == {"val_loss": pytest.approx(0.25)}


def test_the_winner_is_trained_on_all_but_test_rows_and_exported(
    directory: Path, command: CommandLine
) -> None:
    run = str(directory / "run")
    best = sweeper.open_results(run).best(1).iloc[0]
    number = best["trial_number"]

    (command.directory / "best").mkdir()  # written by `export`, as `best` says
    done = command("refit", run)

    assert done.returncode == 0
    assert "trials train on the validation rows, too" in done.stderr
    assert "test_accuracy" in done.stdout
    row = sweeper.open_results(RunDir(directory / "run").refit / str(number)).trials().iloc[0]
    assert row["epochs_done"] == best["best_epoch"]
    assert row["trial_number"] == number
    saved = sweeper.load(command.directory / "refit")
    assert saved.params == {}
    assert saved.info["data"]["spec"]["train_rows"] == 178 - 36
    card = (command.directory / "refit" / "README.md").read_text(encoding="utf-8")
    assert "It was trained on train+val: validation metrics are of rows" in card
    refused = command("refit", run)
    assert refused.returncode == 2
    assert "this directory already exists" in refused.stderr


def test_a_refit_refuses_the_places_of_its_study_before_it_trains(
    directory: Path, command: CommandLine
) -> None:
    run = command.directory / "run"
    shutil.copytree(directory / "run", run, ignore=shutil.ignore_patterns("refit*", "confirm*"))
    inside = replace(command, directory=run)

    for place in ("refit", "refit/model", "models/0"):
        refused = inside("refit", ".", "--to", place, "--quiet")
        assert refused.returncode == 2
        assert refused.stderr == (
            f"{place}: the study keeps its own files here; choose another directory with --to\n"
        )
    assert not (run / "refit").exists()
    assert inside("refit", ".", "--quiet").returncode == 2  # `refit` is the default
    assert "--to ../refit/" in inside("best", ".").stdout
    done = inside("refit", ".", "--to", "winner", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert sweeper.load(run / "winner").params == {}
    assert len(RunDir(run).nested()) == 1


def test_the_command_names_the_trial_that_it_reproduces(
    directory: Path, command: CommandLine
) -> None:
    done = command("reproduce", str(directory / "run"), "2", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("trial 2: ")
    assert done.stdout.endswith("bit-equal\n")


def test_a_refit_trains_all_epochs_if_the_objective_has_no_best_epoch(
    tmp_path: Path,
) -> None:
    goals = (
        "study.metric=['n_parameters', 'val_loss']",
        "study.direction=['minimize', 'minimize']",
        "study.sampler={name='random'}",
        "study.n_trials=2",
    )
    config = study_in(tmp_path, STUDY, *goals)
    rows = trained(config).trials().set_index("trial_number")

    refit, _ = refit_study(RunDir(config.run_dir), 0, "all")

    assert refit.trial is not None
    assert refit.trial.epochs == rows["epochs_done"][0] > 1


def test_a_refit_keeps_the_last_epoch(run_dir: RunDir) -> None:
    config, row = refit_study(run_dir, 1, "all")
    assert config.train.early_stop is None
    assert (config.study.value, config.study.replicates, config.study.folds) == ("last", 1, None)
    assert config.trial is not None
    assert (config.trial.number, config.trial.epochs) == (1, row["best_epoch"])
    with pytest.raises(StudyError, match="no trial 99 has ended"):
        refit_study(run_dir, 99, "all")


def test_a_refit_trains_for_the_mean_of_the_best_epochs_of_all_folds(tmp_path: Path) -> None:
    """They are judged by the metric whose best epoch the trial keeps, if that is known."""
    by_loss = "train.early_stop={patience=2, metric='val_loss'}", "study.folds=3", "train.epochs=12"
    goal = "train.metrics=['accuracy']", "study.metric=val_accuracy", "study.direction=maximize"
    rates = "search={optimizer.lr={type='float', low=0.03, high=0.1}}", "study.n_trials=1"
    results = trained(study_in(tmp_path, STUDY, *goal, *by_loss, *rates))
    metrics, run_dir = results.metrics(), results.run_dir
    losses = metrics[metrics["metric"] == "val_loss"].reset_index()
    best = losses.loc[losses.groupby("fold")["value"].idxmin(), "epoch"]

    def epochs() -> int | None:
        refit = refit_study(run_dir, 0, "all")[0].trial
        return None if refit is None else refit.epochs

    assert best.nunique() > 1
    assert epochs() == round(best.mean())
    shutil.rmtree(run_dir.metrics)
    assert epochs() == results.trial(0)["best_epoch"] != round(best.mean())


def test_a_refit_of_a_failed_trial_trains_all_of_its_epochs(tmp_path: Path) -> None:
    short = "execution.memory_limit='12 KiB'", "study.n_trials=1", "search={}"
    results = trained(study_in(tmp_path, STUDY, *short))
    row = results.trial(0)
    assert (row["state"], row["epochs_done"]) == ("FAIL", 0)

    refit = refit_study(results.run_dir, 0, "all")[0].trial
    assert refit is not None
    assert refit.epochs == 4


def rows_of_parts(directory: Path) -> tuple[str, ...]:
    """Write rows whose validation part has a category of its own, and one class; returns settings.

    The model of such a study has 3 inputs, 8 units and 2 outputs.
    """
    rng = np.random.default_rng(0)
    kinds = {"train": ("a", "b"), "val": ("c",), "test": ("a", "b")}
    lines = ["part,kind,size,bought"]
    for part, count in {"train": 40, "val": 10, "test": 12}.items():
        for i in range(count):
            bought = "no" if part == "val" or i % 3 else "yes"
            lines.append(f"{part},{kinds[part][i % len(kinds[part])]},{rng.random()},{bought}")
    (directory / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = "data={source='csv', path='rows.csv', target='bought', split={column='part'}}"
    return data, "study.n_trials=1", "train.batch_size=8", "search={}"


def test_a_refit_may_have_more_parameters_than_the_constraints_allow(tmp_path: Path) -> None:
    """The first layer has weights for a category that only validation rows have."""
    bound = "study.constraints=[{metric='n_parameters', max=50}]"
    results = trained(study_in(tmp_path, STUDY, *rows_of_parts(tmp_path), bound))
    assert results.trial(0)["n_parameters"] == 50

    config, _ = refit_study(results.run_dir, 0, "train+val")
    again = trained(config).trial(0)
    assert (again["state"], again["n_parameters"]) == ("COMPLETE", 58)


def test_a_refit_of_a_trial_with_folds_needs_no_value_of_its_metric_on_validation_rows(
    run_dir: RunDir, tmp_path: Path
) -> None:
    goal = "train.metrics=['auroc']", "study.metric=val_auroc", "study.direction=maximize"
    loss = "train.loss=binary_cross_entropy", "study.folds=2"
    results = trained(study_in(tmp_path, STUDY, *rows_of_parts(tmp_path), *goal, *loss))
    config, row = refit_study(results.run_dir, 0, "train+val")
    assert row["n_folds"] == 2

    judged = with_defined_objective(config)
    assert (judged.study.objectives, judged.study.directions) == (("val_loss",), ("minimize",))
    again = trained(judged).trial(0)
    assert (again["state"], again["final_val_auroc"]) == ("COMPLETE", None)
    assert again["test_auroc"] is not None
    other, _ = refit_study(run_dir, 0, "train+val")
    assert with_defined_objective(other) is other


def test_folds_and_their_refit_have_rows_to_train_on_whatever_share_is_for_validation(
    tmp_path: Path,
) -> None:
    shares = "data.split={val=0.2, test=0.85}", "study.folds=2", "train.batch_size=8"
    results = trained(study_in(tmp_path, STUDY, *shares, "study.n_trials=1", "train.epochs=1"))
    refit, _ = refit_study(results.run_dir, 0, "train+val")
    assert (refit.data.split.val, refit.data.split.test) == (pytest.approx(0.075), 0.85)


def test_a_refit_of_stratified_folds_may_have_more_classes_than_validation_rows(
    tmp_path: Path,
) -> None:
    rows = "".join(f"{row},kind {row % 15}\n" for row in range(60))
    (tmp_path / "rows.csv").write_text(f"size,kind\n{rows}", encoding="utf-8")
    split = "scale='none', split={test=0.25, stratify=true}"
    data = f"data={{source='csv', path='rows.csv', target='kind', {split}}}"
    few = "study.n_trials=1", "train.epochs=1", "train.batch_size=8", "search={}"
    config = study_in(tmp_path, STUDY, data, "study.folds=2", *few)
    refit, _ = refit_study(trained(config).run_dir, 0, "train+val")
    folds, again = prepare(config), prepare(refit)
    assert (len(again.x_train), len(again.x_val)) == (45, 12)
    np.testing.assert_array_equal(again.x_test, folds.x_test)


def test_a_study_that_was_moved_is_used_once_it_has_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    (there / "data").mkdir(parents=True)
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{a},{2 * a}" for a in rng.normal(size=240))
    (there / "data" / "rows.csv").write_text(f"x,y\n{rows}\n", encoding="utf-8")
    csv = "data={source='csv', path='data/rows.csv', target='y'}"
    of_numbers = ("train.loss=mse", "results.keep_models=2", csv, "study.n_trials=2")
    text = study_in(there, STUDY, *of_numbers, "results.dir=runs/wine").source.text
    monkeypatch.chdir(there)
    trained(sweeper.load_study("study.toml", [*of_numbers]))
    here = there.rename(tmp_path / "here")
    monkeypatch.chdir(here)
    (here / "study.toml").rename(here / "renamed.toml")
    assert (here / "renamed.toml").read_text(encoding="utf-8") == text
    # so that the data is not found in the current directory either
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")

    again = "study.toml is gone: run the study once from its new place, with the same settings"
    commands = [
        (name, "../runs/wine", *to)
        for name, *to in (("ensemble",), ("confirm",), ("refit", "--to", "r"), ("reproduce",))
    ]
    for command in commands:
        with pytest.raises(DataError, match=f"; {there}/{again}"):
            sweeper.command(*command)
    RunDir(here / "runs" / "wine").preparation.unlink()
    with pytest.raises(SetupError, match=again):
        sweeper.command("export", "../runs/wine")

    overrides = [*of_numbers, f"results.dir={here / 'runs' / 'wine'}"]
    trained(sweeper.load_study("../renamed.toml", overrides))
    for command in (*commands, ("export", "../runs/wine")):
        sweeper.command(*command)
