"""Optuna studies as run directories that other commands read."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import optuna
import pytest

import sweeper
from sweeper.config import parse
from sweeper.dashboard.page import Page
from sweeper.dashboard.study import PublishedStudy
from sweeper.errors import StudyError
from sweeper.results.imported import imported_from
from sweeper.results.light import read_light
from sweeper.results.listing import read_trials
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.study.learning import learn
from sweeper.study.optuna_import import (
    has_metric,
    import_optuna,
    named_like_settings,
    without_settings,
)
from sweeper.study.optuna_storage import open_storage
from tests.small_studies import DIGITS

NAMES = {"lr": "optimizer.lr"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve trials: the numbers 3, 7 and 11 are pruned, 5 has failed, and 12 still runs."""
    url = f"sqlite:///{tmp_path_factory.mktemp('optuna') / 'old.db'}"
    study = optuna.create_study(
        storage=open_storage(url), study_name="größe 1", sampler=optuna.samplers.RandomSampler(0)
    )
    for number in range(12):
        trial = study.ask()
        width = trial.suggest_int("model.width", 8, 32)
        trial.suggest_float("lr", 1e-4, 1e-2, log=True)
        trial.suggest_categorical("clip", [None, 1.0])
        for step in range(2 if number % 4 == 3 else 3):
            trial.report(width / (step + 1), step)
        state = optuna.trial.TrialState
        if number == 5:
            study.tell(trial, state=state.FAIL)
        elif number % 4 == 3:
            study.tell(trial, state=state.PRUNED)
        else:
            study.tell(trial, width / 3)
    study.ask()
    return url


def imported(url: str, directory: Path, names: Mapping[str, str] = NAMES) -> RunDir:
    return import_optuna(url, None, directory, names, ["val_loss"])[0]


def test_trials_and_curves_are_those_of_the_study(url: str, tmp_path: Path) -> None:
    run_dir = imported(url, tmp_path / "run")
    results = sweeper.open_results(run_dir.root)
    rows, study = results.trials(), optuna.load_study(study_name=None, storage=open_storage(url))
    trials = [trial for trial in study.trials if trial.state.is_finished()]
    assert rows["trial_number"].tolist() == [*range(12)]
    assert rows["state"].tolist() == [trial.state.name for trial in trials]
    assert rows["value"].dropna().tolist() == [t.value for t in trials if t.value is not None]
    assert rows["params_width"].tolist() == [trial.params["model.width"] for trial in trials]
    assert rows["params_lr"].tolist() == [trial.params["lr"] for trial in trials]
    assert {*rows["params_clip"]} == {"None", "1.0"}
    assert rows["epochs_done"].tolist() == [len(trial.intermediate_values) for trial in trials]
    curve = results.metrics().query("trial_number == 3")
    assert curve[["epoch", "metric", "value"]].values.tolist() == [
        [step + 1, "val_loss", value] for step, value in trials[3].intermediate_values.items()
    ]
    starts = [trial.datetime_start.timestamp() for trial in trials if trial.datetime_start]
    assert [at.timestamp() for at in rows["started_at"]] == pytest.approx(starts)


def test_names_can_be_exchanged(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'exchanged.db'}"
    study = optuna.create_study(storage=open_storage(url))
    trial = study.ask()
    trial.suggest_int("model.width", 1, 3)
    trial.suggest_int("model.depth", 8, 256)
    study.tell(trial, 1.0)

    for names in (
        {"model.width": "model.depth", "model.depth": "model.width"},
        {"model.width": "model.depth", "model.depth": "train.batch_size"},
    ):
        (row,) = read_trials(imported(url, tmp_path / names["model.depth"], names)).rows()
        columns = (names[name].rpartition(".")[2] for name in trial.params)
        expected = dict(zip(columns, trial.params.values(), strict=True))
        assert json.loads(row["params_json"]) == expected
        assert {name: row[f"params_{name}"] for name in expected} == expected


def test_names_and_values_that_no_table_can_have_are_replaced(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'odd.db'}"
    study = optuna.create_study(storage=open_storage(url), study_name="odd")
    names = ("a-b", "a_b", "json", "x.a", "y.a", "x_a")
    for value in (2.0, -math.inf):
        trial = study.ask()
        for index, name in enumerate(names):
            trial.suggest_int(name, index, index)
        trial.suggest_categorical("clip", [math.inf])
        trial.report(math.nan, 0)
        study.tell(trial, value)
    run_dir = imported(url, tmp_path / "run", {})
    first, second = read_trials(run_dir).rows()
    columns = ("a_b", "a_b_", "json_", "x_a", "y_a", "x_a_", "clip")
    values = (*range(len(names)), "inf")
    assert json.loads(first["params_json"]) == dict(zip(columns, values, strict=True))
    assert [first[f"params_{column}"] for column in columns] == [*values]
    assert (second["state"], second["reason"], second["value"]) == ("PRUNED", "diverged", None)
    status = read_status(run_dir)
    assert (status.diverged, (status.best or {})["trial_number"]) == (1, 0)


def test_commands_that_show_results_work(url: str, tmp_path: Path) -> None:
    run_dir = imported(url, tmp_path / "run")
    status = read_status(run_dir)
    best = sweeper.open_results(run_dir.root).best(1).iloc[0]
    assert (status.state, status.study, status.metric) == ("finished", "größe-1", "val_loss")
    assert dict(status.counts) == {
        "COMPLETE": 8,
        "PRUNED": 3,
        "FAIL": 1,
        "RUNNING": 0,
        "WAITING": 0,
    }
    assert status.best is not None
    assert status.best["trial_number"] == best["trial_number"] == read_trials(run_dir).best(1)[0]
    sweeper.command("report", str(run_dir.root), "--output", str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert read_light(run_dir.importance) is None, "8 complete trials are too few"


def test_what_is_not_known_of_an_imported_trial_is_not_shown(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(imported(url, tmp_path / "run").root)
    sweeper.command("show", root, "0")
    names = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert names[-3:] == ["", "epochs done", "train"]
    assert {"n parameters", "class", "where", "rounds", "attempts"}.isdisjoint(names)
    sweeper.command("best", root)
    assert capsys.readouterr().out.splitlines()[-1].strip()


def test_the_status_of_an_imported_study_says_where_it_is_from(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "run"
    sweeper.command("import-optuna", url, "--to", str(root))
    written, by_name = capsys.readouterr().out.splitlines()[:2]
    assert written.startswith(f"written to {root}; 12 trials: 8 complete, 3 pruned, 1 failed; view")
    assert by_name.startswith("by name, lr is optimizer.lr and clip is train.clip; ")
    sweeper.command("status", str(root))
    shown = "".join(capsys.readouterr().out.split())  # long paths are broken anywhere
    expected = f"state imported from {url}#größe 1 trials 12 of 12 trials 8 complete, 3 pruned, "
    assert "".join(f"{expected}1 failed best".split()) in shown
    assert "trained" in shown and "workers" not in shown and "round" not in shown


def test_an_imported_study_without_ended_trials_has_no_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, root = f"sqlite:///{tmp_path / 'empty.db'}", str(tmp_path / "run")
    optuna.create_study(storage=open_storage(url)).ask()
    sweeper.command("import-optuna", url, "--to", root)
    assert capsys.readouterr().out.startswith(f"written to {root}; 0 trials; view")
    with pytest.raises(StudyError, match="the Optuna study has no trials that ended"):
        sweeper.command("best", root)


def test_an_imported_study_without_a_feasible_trial_has_no_best_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'limited.db'}"
    study = optuna.create_study(storage=open_storage(url))
    for value, excess in [(1.0, 0.5), (2.0, 0.5)]:
        study.add_trial(optuna.trial.create_trial(value=value, constraints={"size": excess}))
    run_dir = imported(url, tmp_path / "none", {})
    status, sentence = read_status(run_dir), "no trial meets the constraints of the Optuna study; "
    assert (status.best, status.feasible) == (None, 0)
    assert sentence in str(sweeper.open_results(run_dir.root))
    assert sentence in str(Page([PublishedStudy(run_dir)]).payload(0)["views"])
    sweeper.command("status", str(run_dir.root))
    sweeper.command("best", str(run_dir.root))
    shown = " ".join(capsys.readouterr().out.split())
    assert sentence in shown and "study.constraints" not in shown

    study.add_trial(optuna.trial.create_trial(value=3.0, constraints={"size": 0.0}))
    status = read_status(imported(url, tmp_path / "one", {}))
    assert ((status.best or {})["value"], status.feasible) == (3.0, 1)


@pytest.mark.parametrize(
    ("step", "width", "found"),
    [
        (3_000_000_000, 8, "trial 0 reports a value at step 3000000000; report epochs, up to "),
        (1, 2**63, "the parameter width of trial 0 is 9223372036854775808, an integer of more "),
    ],
)
def test_integers_without_room_in_a_column_are_refused_before_anything_is_written(
    step: int, width: int, found: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'large.db'}"
    study = optuna.create_study(storage=open_storage(url), study_name="large")
    trial = study.ask()
    trial.suggest_int("width", width, width)
    trial.suggest_categorical("code", [2**63])
    trial.report(0.5, step)
    study.tell(trial, 0.5)
    with pytest.raises(StudyError, match=found):
        imported(url, tmp_path / "run", {})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("left", [0, 1, 2])
def test_an_import_that_was_interrupted_is_repeated_in_place(
    left: int, url: str, tmp_path: Path
) -> None:
    run_dir = imported(url, tmp_path / "run")
    for path in (run_dir.trials, run_dir.status, run_dir.importance):
        path.unlink(missing_ok=True)
    for path in (run_dir.spans, run_dir.buckets)[left:]:
        path.unlink()
    if not left:
        (run_dir.staging / "new-1234").mkdir()
        run_dir.own_parts()[0].unlink()
    assert len(read_trials(imported(url, run_dir.root))) == 12
    run_dir.trials.unlink()
    with pytest.raises(StudyError, match="--to: there is something else"):
        imported(url, run_dir.root)  # its status was written after its trials


def test_an_import_is_repeated_in_place_but_replaces_nothing_else(url: str, tmp_path: Path) -> None:
    run_dir = imported(url, tmp_path / "run")
    before = run_dir.trials.read_bytes()
    imported(url, run_dir.root)
    assert read_trials(run_dir).rows() and before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(StudyError, match="--to: there is something else"):
        imported(url, tmp_path / "mine")


def test_a_database_of_the_same_name_elsewhere_is_another_one(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(url.removeprefix("sqlite:///"))
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        shutil.copy(file, tmp_path / name)
    relative, target = f"sqlite:///{file.name}", tmp_path / "run"
    monkeypatch.chdir(tmp_path / "mine")
    imported(relative, target)
    imported(f"sqlite:///../mine/{file.name}", target)
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(StudyError, match="--to: there is something else"):
        imported(relative, target)


def test_a_new_study_learns_from_an_imported_one(url: str, tmp_path: Path) -> None:
    run_dir = imported(url, tmp_path / "run")
    config = parse(DIGITS, Path("study.toml"), [])
    learned = learn(config, [run_dir.root])
    (source,) = learned.sources
    assert (source.n_seen, source.n_trials) == (12, 11)
    assert source.left_out == {"failed": 1}
    assert [trial.values for trial in learned.trials if trial.state == "PRUNED"] == [
        (row["value"],) for row in read_trials(run_dir).rows() if row["state"] == "PRUNED"
    ]


@pytest.mark.parametrize(
    ("names", "metrics", "found"),
    [
        ({"lrr": "optimizer.lr"}, [], "no trial has a parameter 'lrr'; did you mean 'lr'?"),
        ({"lr": "model.width"}, [], "two parameters are called model.width"),
        (
            {"lr": "optimizer.lrr"},
            [],
            "no setting is named 'optimizer.lrr'; did you mean 'optimizer.lr'?",
        ),
        ({"lr": "model.learning_rate"}, [], "did you mean 'optimizer.lr'? If it is an argument"),
        (
            {"lr": "optim.rate"},
            [],
            "write a setting of model, optimizer or train, such as optimizer.lr",
        ),
        ({}, ["a", "b"], "a and b for a study with 1 objectives"),
    ],
)
def test_names_that_do_not_fit_are_refused(
    names: dict[str, str], metrics: list[str], found: str, url: str, tmp_path: Path
) -> None:
    with pytest.raises(StudyError) as caught:
        import_optuna(url, None, tmp_path / "run", names, metrics)
    assert found in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_the_name_of_a_study_is_given_once_after_the_url_or_next_to_it(
    url: str, tmp_path: Path
) -> None:
    places = [
        imported_from(import_optuna(source, name, tmp_path / f"{index}", {}, [])[0])
        for index, (source, name) in enumerate(
            ((f"{url}#größe 1", None), (url, "größe 1"), (f"{url}#größe 1", "größe 1"))
        )
    ]
    assert places == [f"{url}#größe 1"] * 3
    with pytest.raises(StudyError, match="#größe 1: the study is also named 'b'; name it once"):
        import_optuna(f"{url}#größe 1", "b", None, {}, [])
    both = f"sqlite:///{tmp_path}/both.db"
    for name in ("mlp", "two words"):
        optuna.create_study(storage=open_storage(both), study_name=name)
    with pytest.raises(StudyError, match="2 studies; name one of mlp and 'two words' after #"):
        import_optuna(both, None, None, {}, [])
    with pytest.raises(StudyError, match="it has no study 'mpl'; did you mean 'mlp'"):
        import_optuna(f"{both}#mpl", None, None, {}, [])


def test_parameters_that_are_not_settings_are_named(url: str, tmp_path: Path) -> None:
    run_dir = imported(url, tmp_path / "run", {"lr": "n_layers", "clip": "model.heads"})
    assert without_settings(run_dir) == {"n_layers": "model.depth", "model.heads": None}
    assert named_like_settings(run_dir) == {}
    run_dir = imported(url, tmp_path / "run", {"clip": "opt"})
    assert without_settings(run_dir) == {"opt": "optimizer.name"}
    assert named_like_settings(run_dir) == {"lr": "optimizer.lr"}
    assert without_settings(imported(url, tmp_path / "run")) == {}


def test_learning_from_an_objective_without_a_name_says_how_to_name_it(
    url: str, tmp_path: Path
) -> None:
    run_dir = import_optuna(url, None, tmp_path / "run", NAMES, [])[0]
    found = "does not name its metric, and this study has the goal: minimize val_loss; "
    found += "import it again with --metric val_loss"
    with pytest.raises(StudyError, match=found):
        learn(parse(DIGITS, Path("study.toml"), []), [run_dir.root])
    assert not has_metric(run_dir) and has_metric(imported(url, run_dir.root))


def test_what_needs_a_model_is_refused(url: str, tmp_path: Path) -> None:
    run_dir = imported(url, tmp_path / "run")
    with pytest.raises(StudyError, match="it was imported, and has no study file, data or models"):
        sweeper.command("export-optuna", str(run_dir.root), f"sqlite:///{tmp_path}/new.db")
    for command in ("trial", "confirm", "refit", "enqueue"):
        with pytest.raises(
            StudyError, match=rf"^{run_dir.root}: it was imported, and has no study"
        ):
            sweeper.command(command, str(run_dir.root))
    config = parse(DIGITS, Path("study.toml"), [f"results.dir={run_dir.root}"])
    with pytest.raises(StudyError, match="has trials that were imported from sqlite:"):
        sweeper.run(config)
    assert json.loads(run_dir.status.read_text("utf-8"))["run_id"] == "imported"
