"""trials, show, best and status: the rows of Parquet, without JAX, Optuna or pandas."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

import sweeper
from sweeper.cli.commands.arguments import column_names
from sweeper.cli.commands.listing import can_average
from sweeper.config import parse
from sweeper.config.comparable import not_averaged
from sweeper.errors import SetupError, StudyError
from sweeper.results.listing import TrialRows, buckets_of, curves, plain, read_trials
from sweeper.rundir import RunDir
from tests.command_line import STUDY, CommandLine
from tests.in_process import study_in, trained
from tests.processes import ROOT
from tests.small_studies import COUPLED, PARTS, bent

MORE = (
    "study.n_trials=6",
    "study.pruner={name='percentile', percentile=20.0, n_startup_trials=2}",
    "search.model.activation={type='categorical', choices=['relu', 'tanh']}",
    "search.model.dropout={type='float', low=0.1, high=0.5, when={'model.activation'='tanh'}}",
)

HEAT = (ROOT / "studies" / "heat.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("listed")
    trained(study_in(directory, STUDY, *MORE))
    return directory


@pytest.fixture
def run_dir(directory: Path) -> RunDir:
    return RunDir(directory / "run")


def test_rows_are_those_that_pandas_reads(run_dir: RunDir) -> None:
    trials = sweeper.open_results(run_dir.root).trials()
    known = read_trials(run_dir)
    rows = known.rows()

    assert [[*row] for row in rows] == [[*trials.columns]] * 6
    plain = trials.astype(object).where(trials.notna(), None)
    assert rows == plain.to_dict("records")
    best = sweeper.open_results(run_dir.root).best(3)["trial_number"].tolist()
    assert known.best(3) == best
    assert [row["trial_number"] for row in known.of(best)] == best


def test_integers_of_64_bits_are_listed_exactly() -> None:
    column = pa.chunked_array([pa.array([2**63 - 1, None, -(2**53) - 1], pa.int64())])
    assert plain(column) == [2**63 - 1, None, -(2**53) - 1]


def test_an_unknown_state_is_refused_with_the_known_ones(run_dir: RunDir) -> None:
    with pytest.raises(StudyError, match=r"'complete'; states are 'COMPLETE', 'PRUNED' and 'FAIL'"):
        read_trials(run_dir).where("state == 'complete'")


def test_an_empty_list_explains_itself(run_dir: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--head", "0"), ("--where", "epochs_done < 0")):
        sweeper.command("trials", str(run_dir.root), *words)
    assert capsys.readouterr().out == "0 of 6 trials shown\nno trials match\n"


def write_status(run_dir: RunDir, status: Mapping[str, Any]) -> None:
    run_dir.status.write_text(json.dumps(status), encoding="utf-8")


def test_trials_are_filtered_and_sorted(run_dir: RunDir) -> None:
    known = read_trials(run_dir)
    complete = known.where("state == 'COMPLETE'").sorted_by("value").rows(["value"])
    values = [row["value"] for row in complete]

    assert values == sorted(values)  # a loss: the lowest is the best
    turned = known.where("state == 'COMPLETE'").sorted_by("-value").rows(["value"])
    assert [row["value"] for row in turned] == values[::-1]
    drawn = [row["params_dropout"] for row in known.sorted_by("params_dropout").rows()]
    there = [value for value in drawn if value is not None]
    assert drawn == [*sorted(there), *[None] * (6 - len(there))]
    assert len(known.where("params_dropout is None")) == 6 - len(there)
    assert known.sorted_by("-dropout").rows() == known.sorted_by("-params_dropout").rows()
    with pytest.raises(
        StudyError, match=r"--sort: no column 'nothing'; there are \d+: "
    ) as refused:
        known.sorted_by("nothing")
    assert len(str(refused.value)) < 200
    with pytest.raises(StudyError, match="--sort: no column 'vaule'; did you mean value"):
        known.sorted_by("vaule")


def test_the_name_of_an_objective_stands_for_its_column(run_dir: RunDir) -> None:
    known = read_trials(run_dir)
    median = sorted(row["value"] for row in known.rows())[3]
    assert known.metrics == ("val_loss",)
    by_name, by_column = (known.where(f"{name} < {median}") for name in ("val_loss", "value"))
    assert len(by_name) == 3
    assert by_name.rows() == by_column.rows()
    assert known.sorted_by("-val_loss").rows() == known.sorted_by("-value").rows()
    assert known.named(["val_loss", "trial"]) == ["value", "trial_number"]


def test_several_objectives_stand_for_a_column_each() -> None:
    table = pa.table({"trial_number": [0, 1], "value": [0.5, 0.9], "value_1": [7.0, 3.0]})
    both = {"metric": ["val_accuracy", "val_rmse"], "direction": ["maximize", "minimize"]}
    known = TrialRows(table, both, np.arange(2))
    assert known.where("val_rmse < 5").rows(["trial_number"]) == [{"trial_number": 1}]
    assert known.where("val_accuracy < 0.6").rows(["trial_number"]) == [{"trial_number": 0}]
    with pytest.raises(StudyError, match="'val_acuracy'; did you mean value"):
        known.where("val_acuracy < 0.6")


def test_curves_are_means_over_replicates_and_folds(tmp_path: Path) -> None:
    more = ("study.n_trials=2", "study.replicates=2", "study.folds=2", "search.train.epochs.low=3")
    run_dir = RunDir(trained(study_in(tmp_path, STUDY, *more)).run_dir.root)
    metrics = sweeper.open_results(run_dir.root).metrics()

    its = metrics[(metrics["trial_number"] == 1) & (metrics["metric"] == "val_loss")]
    means = its.groupby("epoch")["value"].mean()

    assert curves(run_dir, 1)["val_loss"] == pytest.approx(means.tolist())
    assert all(1 in json.loads(row["trials"]) for row in buckets_of(run_dir, 1))
    assert len(buckets_of(run_dir, 1)) == len(means)
    assert buckets_of(run_dir, 11) == []


def test_commands_print_tables_and_json(directory: Path, command: CommandLine) -> None:
    run = str(directory / "run")
    shown = command("trials", run, "--where", "params_activation == 'tanh'", "--sort", "value")
    as_csv = command("trials", run, "--columns", "trial,lr,state", "--csv")
    as_json = command("trials", run, "--json", "--head", "2")
    wrong = command("trials", run, "--where", "vaule > 1")

    trials = sweeper.open_results(run).trials()
    assert shown.stdout.splitlines()[0].split()[:2] == ["trial", "state"]
    assert len(shown.stdout.splitlines()) == 1 + sum(trials["params_activation"] == "tanh")
    rows = [*csv.DictReader(StringIO(as_csv.stdout))]
    assert [*rows[0]] == ["trial_number", "params_lr", "state"]
    assert [float(row["params_lr"]) for row in rows] == trials["params_lr"].tolist()
    assert [row["trial_number"] for row in json.loads(as_json.stdout)] == [0, 1]
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "--where: no column 'vaule'; did you mean value?\n"


def test_a_list_names_its_objectives_and_says_what_is_feasible(command: CommandLine) -> None:
    """The end of the run says if models of the front are not kept."""
    command.write(
        bent(
            STUDY,
            "study.n_trials=6",
            "study.metric=['val_loss', 'n_parameters']",
            "study.direction=['minimize', 'maximize']",
            "study.constraints=[{metric='train_loss', max=5.0}]",
            "search.model.width={type='int', low=4, high=64, base=2}",
            "study.enqueue=[{width=4, lr=1e-4}, {width=64, lr=1e-1}]",
            "results.keep_models=1",
        )
    )
    run = command("run", "study.toml")
    said = " ".join(run.stderr.split())
    results = sweeper.open_results(command.run_dir.root)
    front = len(read_trials(command.run_dir).front())
    assert (run.returncode, front > 1) == (0, True), run.stderr
    assert f"the Pareto front has {front} trials, but results.keep_models = 1 keeps the" in said

    shown = command(
        "trials", str(command.run_dir.root), "--columns", "trial,value,value_1,feasible"
    )
    assert shown.stdout.splitlines()[0].split() == [
        *("trial", "value", "(val_loss)", "value_1", "(n_parameters)", "feasible")
    ]
    assert {"value", "value_1", "feasible"} <= {*results.trials().columns}
    assert "feasible" in read_trials(command.run_dir).informative
    sole = command("trials", str(command.run_dir.root), "--where", "value < 100")
    assert sole.returncode == 0


def test_show_prints_curves_and_best_prints_next_steps(
    directory: Path, command: CommandLine
) -> None:
    run = str(directory / "run")
    best = int(sweeper.open_results(run).best(1)["trial_number"][0])

    shown, by_name = command("show", run, str(best)), command("show", run)
    told = command("best", run)
    missing = command("show", run, "99")

    assert shown.stdout == by_name.stdout
    row = sweeper.open_results(run).trial(best)
    assert row is not None
    assert f"trial {best}" in shown.stdout.splitlines()[0]
    assert f"in epoch {row['best_epoch']}" in shown.stdout
    (curve,) = (line for line in shown.stdout.splitlines() if line.startswith("val_loss"))
    assert len(curve.split()[1]) == row["epochs_done"]
    assert set(curve.split()[1]) <= set("▁▂▃▄▅▆▇█")
    assert f"python -m sweeper reproduce {run} {best}" in told.stdout
    assert missing.stderr == f"{run}: no trial 99 has ended; use a finished trial: 0 to 5\n"
    assert command("show", "there").stderr.startswith("there: no such directory; ")


def test_the_folds_of_one_trial_are_not_an_ensemble(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folds = "study.n_trials=1", "study.folds=2", "data.split={test=0.1}", "results.keep_models=1"
    run_dir = trained(study_in(tmp_path, STUDY, *folds)).run_dir
    assert len(run_dir.own_models()) == 4

    sweeper.command("best", str(run_dir.root))

    assert "\nensemble " not in capsys.readouterr().out
    with pytest.raises(StudyError, match="and an ensemble needs 2"):
        sweeper.command("ensemble", str(run_dir.root))


@pytest.mark.parametrize("metric", ["val_loss", "val_worst"])
def test_best_recommends_an_ensemble_if_the_study_can_have_one(
    metric: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "def worst(outputs, y):\n    return abs(outputs).max()\n"
    (tmp_path / "own_metric.py").write_text(own, encoding="utf-8")
    measured = "train.metrics=['own_metric:worst']", f"study.metric={metric}"
    config = study_in(tmp_path, STUDY, "study.n_trials=2", "results.keep_models=2", *measured)
    run = str(trained(config).run_dir.root)

    sweeper.command("best", run)

    recommends = "\nensemble " in capsys.readouterr().out
    assert recommends == (metric == "val_loss")
    if not recommends:
        with pytest.raises(StudyError, match="user-defined"):
            sweeper.command("ensemble", run, "--trust-code")


TWO_OBJECTIVES = (
    "study.metric=['val_loss', 'n_parameters']",
    "study.direction=['minimize', 'minimize']",
)
HUBER = (
    "data.name=diabetes",
    "train.loss=huber",
    "search.train.huber_delta={type='float', low=0.1, high=1.0}",
)


@pytest.mark.parametrize(
    ("text", "overrides", "averages"),
    [
        (STUDY, (), True),
        (STUDY, ("study.metric=train_loss",), False),
        (STUDY, ("train.metrics=['accuracy']", "study.metric=val_accuracy"), True),
        (STUDY, ("train.metrics=['own:worst']", "study.metric=val_worst"), False),
        (STUDY, ("train.metrics=['own:worst']",), True),
        (STUDY, TWO_OBJECTIVES, False),
        (STUDY, ("train.loss=own:loss", "train.task=classes"), False),
        (STUDY, ("data.split={val=0.2, train_on='train+val'}",), False),
        (STUDY, HUBER, False),
        (STUDY, (*HUBER, "train.metrics=['mae']", "study.metric=val_mae"), True),
        (PARTS, (), False),
        (COUPLED, (), False),
        (HEAT, (), False),
    ],
)
def test_best_recommends_an_ensemble_as_the_settings_allow(
    text: str, overrides: tuple[str, ...], averages: bool
) -> None:
    config = parse(text, Path("study.toml"), overrides)
    settings = json.loads(json.dumps(config.canonical()))
    assert (not_averaged(config) == "") is averages
    assert can_average(settings, config.study.objectives) is averages


def test_show_says_what_is_published_of_a_trial_that_has_not_ended(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = RunDir(tmp_path / "run")
    shutil.copytree(directory / "run", run_dir.root)
    table = parquet.read_table(run_dir.trials)
    parquet.write_table(table.filter(pc.field("trial_number") != 1), run_dir.trials)
    drawn, buckets = curves(run_dir, 1), buckets_of(run_dir, 1)

    sweeper.command("show", str(run_dir.root), "1")
    first, _, heading, *rest = capsys.readouterr().out.splitlines()
    assert (first.split(), heading) == (["trial", "1", "has", "not", "ended"], "curves by epoch")
    assert {line.split()[0] for line in rest[: len(drawn)]} == {*drawn}
    sweeper.command("show", str(run_dir.root), "1", "--json")
    assert json.loads(capsys.readouterr().out) == {
        "trial_number": 1,
        "state": "RUNNING",
        "params": None,
        "curves": drawn,
        "buckets": json.loads(json.dumps(buckets, default=str)),
    }

    for part in run_dir.own_parts():
        part.unlink()
    sweeper.command("show", str(run_dir.root), "0")
    shown = capsys.readouterr().out
    assert "its curves are not published yet" in shown and "curves by epoch" not in shown


def test_show_has_the_parameters_of_a_trial_in_training(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = RunDir(tmp_path / "run")
    shutil.copytree(directory / "run", run_dir.root)
    params = [{"width": 8, "lr": 0.01}, {"width": 16, "lr": 0.02}]
    bucket = {"bucket": 0, "place": "thread 0", "class_id": "c", "trials": [98, 99]}
    status = json.loads(run_dir.status.read_text(encoding="utf-8")) | {"pid": os.getpid()}
    status |= {"state": "running", "running": [bucket | {"params": params}]}
    write_status(run_dir, status)

    sweeper.command("show", str(run_dir.root), "99")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["trial", "99", "in", "training"]
    assert lines[2:] == [["parameters"], ["width", "16"], ["lr", "0.02"]]
    sweeper.command("show", str(run_dir.root), "98", "--json")
    assert json.loads(capsys.readouterr().out)["params"] == params[0]

    write_status(run_dir, status | {"running": [bucket | {"params": [{}, {}]}]})
    sweeper.command("show", str(run_dir.root), "99")  # of a study that searches nothing
    assert capsys.readouterr().out.split()[:4] == ["trial", "99", "in", "training"]

    for unknown in ({"running": [bucket]}, {"state": "interrupted"}):
        write_status(run_dir, status | unknown)
        with pytest.raises(StudyError, match="no trial 99 has ended"):
            sweeper.command("show", str(run_dir.root), "99")


def test_an_error_is_shown_by_its_reason_and_the_end_of_its_traceback(
    tmp_path: Path, command: CommandLine
) -> None:
    study = STUDY.replace("n_trials = 12", "n_trials = 1")
    (command.directory / "nets.py").write_text(
        "import equinox as eqx\n"
        "import threading\n"
        "def build(in_size, out_size, key):\n"
        "    # checks build in the main thread\n"
        "    if threading.current_thread() is not threading.main_thread():\n"
        "        raise RuntimeError('no [bold]more[/bold] of these')\n"
        "    return eqx.nn.MLP(in_size, out_size, 4, 1, key=key)\n",
        encoding="utf-8",
    )
    model = 'kind = "python"\nfunction = "nets:build"\n'
    command.write(study.replace('kind = "mlp"\ndepth = 1\nwidth = 8\n', model))
    assert command("run", "study.toml", "--quiet").returncode == 1

    shown = command("show", str(command.run_dir.root), "0")

    assert "FAIL, error" in shown.stdout
    reason = "RuntimeError: no [bold]more[/bold] of these"
    rest = shown.stdout.partition(f"\n{reason} (nets.py, line 6)\n\n")[2]
    own, _, trace = rest.partition("\n\n")
    assert "nets.py" in own.splitlines()[0]
    assert len(own.splitlines()) == 2
    end = trace.splitlines()
    assert 1 < len(end) <= 12
    assert end[-1].startswith(reason) or "JAX" in shown.stdout


def test_the_name_of_a_study_leads_to_its_run_directory(
    run_dir: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    shutil.copytree(run_dir.root, tmp_path / "runs" / "wine")
    monkeypatch.chdir(tmp_path)
    for read in (lambda: read_trials(RunDir(Path("wine"))), lambda: sweeper.open_results("wine")):
        with pytest.raises(SetupError, match=r"did you mean 'runs/wine'\?"):
            read()
    with pytest.raises(SetupError, match="such as runs/digits"):
        read_trials(RunDir(Path("beer")))


def test_exporting_a_trial_that_violates_a_constraint_says_so(command: CommandLine) -> None:
    strict = "study.constraints=[{metric='train_loss', max=-1.0}]"
    command.write(bent(STUDY, "study.n_trials=2", "results.keep_models=2", strict))
    assert command("run", "study.toml").returncode == 0
    run = str(command.run_dir.root)
    said = command("export", run, "-o", "best")
    assert said.returncode == 0, said.stderr
    best = said.stdout.splitlines()[0]
    named = command("export", run, "1", "-o", "named").stdout.splitlines()[0]
    assert best.startswith("no trial meets study.constraints; trial ")
    assert named == "trial 1 violates study.constraints"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id, name", ["id", "name"]),
        ('id,"size, cm", 5" pipe', ["id", "size, cm", '5" pipe']),
        ("", [""]),
        ("a\nb", ["a\nb"]),
        (None, None),
    ],
)
def test_a_column_name_with_a_comma_is_in_double_quotes(
    text: str | None, names: list[str] | None
) -> None:
    assert column_names(text) == names


@pytest.mark.parametrize("digits", [19, 5000])
def test_a_trial_number_of_too_many_digits_is_refused(run_dir: RunDir, digits: int) -> None:
    message = f"TRIAL: no trial has a number of {digits} digits; use a number or best"
    for command in ("show", "trial", "export", "reproduce", "refit"):
        with pytest.raises(StudyError, match=f"^{message}$"):
            sweeper.command(command, str(run_dir.root), "9" * digits)
