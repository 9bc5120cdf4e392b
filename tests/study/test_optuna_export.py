"""A study exported for Optuna's tools has all its trials, with states, values and curves."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)

import sweeper
from sweeper.config.load import study_of
from sweeper.errors import SetupError, StudyError
from sweeper.results.listing import curves_of_all, read_trials
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.study.frozen_trials import ORIGIN, frozen_trials, written_distributions
from sweeper.study.optuna_export import export_optuna, with_gaps, write_study
from sweeper.study.optuna_import import import_optuna
from sweeper.study.optuna_storage import open_storage, read_study
from tests.command_line import STUDY
from tests.in_process import study_in, trained

MORE = (
    "study.n_trials=8",
    "study.replicates=2",
    "study.pruner={name='percentile', percentile=20.0, n_startup_trials=2}",
    "study.constraints=[{metric='val_loss', max=0.5}]",
    "search.model.width={type='int', low=4, high=16, base=2}",
    "search.model.activation={type='categorical', choices=['relu', 'tanh']}",
    "search.model.dropout={type='float', low=0.1, high=0.3, when={'model.activation'='tanh'}}",
    "search.optimizer.weight_decay={type='float', low=1e-3, high=0.1, log=true, or=[0.0]}",
)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return trained(study_in(tmp_path_factory.mktemp("foreign"), STUDY, *MORE)).run_dir


@pytest.mark.slow
def test_every_trial_is_exported_completely(run_dir: RunDir, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    assert export_optuna(run_dir, url, None) == ("wine", 8, 0)

    study = optuna.load_study(study_name="wine", storage=open_storage(url))
    trials = sweeper.open_results(run_dir.root).trials()
    curves = curves_of_all(run_dir, "val_loss")
    assert study.directions == [optuna.study.StudyDirection.MINIMIZE]
    assert study.metric_names == ["val_loss"]
    for trial, (_, row) in zip(study.trials, trials.iterrows(), strict=True):
        drawn = {
            name.removeprefix("params_"): value
            for name, value in row.items()
            if name.startswith("params_") and name != "params_json" and value == value
        }
        assert trial.number == row["trial_number"]
        assert trial.state.name == row["state"]
        assert trial.value == row["value"]
        given = {n: v for n, v in drawn.items() if v is not None}
        if "weight_decay" in given:
            is_extra = given["weight_decay"] == 0.0
            given["weight_decay or"] = 0.0 if is_extra else "range"
            if is_extra:
                del given["weight_decay"]
        assert trial.params == given
        assert trial.intermediate_values == curves[trial.number]
        assert list(trial.intermediate_values) == [*range(1, row["epochs_done"] + 1)]
        assert (trial.user_attrs.get("reason") == "pruned") == (row["state"] == "PRUNED")
        assert trial.datetime_start is not None
        assert trial.duration is not None
        assert trial.duration.total_seconds() > 0
        assert (trial.constraints["val_loss max"] <= 0) == row["feasible"]
    assert {trial.state.name for trial in study.trials} == {"COMPLETE", "PRUNED"}
    known = {name: d for trial in study.trials for name, d in trial.distributions.items()}
    assert known == {
        "lr": FloatDistribution(1e-4, 1e-1, log=True),
        "epochs": IntDistribution(2, 4),
        "width": CategoricalDistribution((4, 8, 16)),
        "activation": CategoricalDistribution(("relu", "tanh")),
        "dropout": FloatDistribution(0.1, 0.3),
        "weight_decay or": CategoricalDistribution(("range", 0.0)),
        "weight_decay": FloatDistribution(1e-3, 0.1, log=True),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are few trials
        found = set(optuna.importance.get_param_importances(study))
        assert found == set(known) - {"weight_decay"}, "only some trials have it"


def test_all_objectives_are_exported_and_the_front_is_the_same(
    tmp_path: Path,
) -> None:
    objectives = "study.metric=['val_loss', 'n_parameters']"
    more = ("study.n_trials=8", objectives, "study.direction=['minimize', 'minimize']", MORE[4])
    results = trained(study_in(tmp_path / "several", STUDY, *more))
    url = f"sqlite:///{tmp_path / 'study.db'}"
    export_optuna(results.run_dir, url, None)

    study = optuna.load_study(study_name="wine", storage=open_storage(url))
    rows = results.trials()
    assert study.directions == [optuna.study.StudyDirection.MINIMIZE] * 2
    assert study.metric_names == ["val_loss", "n_parameters"]
    values = [list(pair) for pair in zip(rows["value"], rows["value_1"], strict=True)]
    assert [trial.values for trial in study.trials] == values
    # what `optuna.visualization.plot_pareto_front` draws separately
    front = sorted(trial.number for trial in study.best_trials)
    assert front == sorted(row["trial_number"] for row in read_status(results.run_dir).front)
    assert 0 < len(front) < 8


def test_a_study_that_is_there_gets_the_trials_that_it_lacks(
    run_dir: RunDir, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    assert export_optuna(run_dir, url, None) == ("wine", 8, 0)
    assert export_optuna(run_dir, url, None) == ("wine", 0, 0)
    assert export_optuna(run_dir, url, "other") == ("other", 8, 0)
    storage = open_storage(url)
    exported = optuna.load_study(study_name="wine", storage=storage)
    exported.add_trial(optuna.trial.create_trial(value=7.0))
    assert export_optuna(run_dir, url, None) == ("wine", 0, 0), "trials of others are left alone"
    optuna.create_study(storage=storage, study_name="empty", direction="minimize")
    assert export_optuna(run_dir, url, "empty") == ("empty", 8, 0)
    found = optuna.load_study(study_name="empty", storage=storage).trials
    assert [trial.params for trial in found] == [trial.params for trial in exported.trials[:8]]


def test_a_study_of_something_else_is_refused(run_dir: RunDir, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    storage = open_storage(url)
    optuna.create_study(storage=storage, study_name="up", direction="maximize")
    mine = optuna.create_study(storage=storage, study_name="mine", direction="minimize")
    mine.add_trial(optuna.trial.create_trial(value=7.0))
    export_optuna(run_dir, url, None)
    other = optuna.create_study(storage=storage, study_name="other", direction="minimize")
    other.add_trial(
        optuna.trial.create_trial(
            value=7.0,
            params={"width": 4},
            distributions={"width": CategoricalDistribution((4, 8))},
            user_attrs={ORIGIN: "another:0"},
        )
    )
    fresh = optuna.create_study(storage=storage, study_name="fresh", direction="minimize")
    fresh.add_trial(optuna.trial.create_trial(value=7.0, user_attrs={ORIGIN: "another:0"}))
    for name, found in (
        ("fresh", "has trials of another run, such as one before --fresh; write another name"),
        ("up", "the study 'up' there has other directions: maximize"),
        (
            "mine",
            "none was exported from a run directory; write another name, such as mine-sweeper",
        ),
        (
            "other",
            "has another search: 'width' is CategoricalDistribution(choices=(4, 8)), but here",
        ),
    ):
        with pytest.raises(StudyError, match=re.escape(found)):
            export_optuna(run_dir, url, name)
    for name in ("mine", "other", "fresh"):
        assert len(optuna.load_study(study_name=name, storage=storage).trials) == 1


def test_an_exported_study_is_imported_with_its_curves(run_dir: RunDir, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    export_optuna(run_dir, url, None)
    back, _ = import_optuna(url, None, tmp_path / "back", {}, [])
    assert curves_of_all(back, "val_loss") == curves_of_all(run_dir, "val_loss")
    columns = ["state", "value", "best_value", "best_epoch", "epochs_done", "feasible"]
    there, here = (sweeper.open_results(one.root).trials()[columns] for one in (back, run_dir))
    assert there.to_dict("records") == here.to_dict("records")


def test_a_study_of_an_earlier_version_gets_no_trial_twice(run_dir: RunDir, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(storage=open_storage(url), study_name="wine")
    study.add_trial(optuna.trial.create_trial(value=7.0, user_attrs={"epochs_done": 4}))
    with pytest.raises(StudyError, match="an earlier version exported trials"):
        export_optuna(run_dir, url, None)


def test_an_invalid_url_is_refused(run_dir: RunDir, tmp_path: Path) -> None:
    no_place = f"sqlite:///{tmp_path}/no/such/place.db"
    for wrong, error in (("study.db", StudyError), (no_place, SetupError)):
        with pytest.raises(error, match="use a storage URL of Optuna"):
            export_optuna(run_dir, wrong, None)
    found = r"^nowhere://me:\*\*\*@here: no kind of database is called 'nowhere'; use a storage URL"
    with pytest.raises(StudyError, match=found):
        export_optuna(run_dir, "nowhere://me:secret@here", None)
    with pytest.raises(StudyError, match="called 'sqllite'; did you mean 'sqlite'"):
        export_optuna(run_dir, "sqllite:///study.db", None)


def test_a_driver_that_is_missing_is_named(run_dir: RunDir) -> None:
    found = "^mysql://here: cannot be {}: it needs mysqlclient; install it: python -m pip install"
    with pytest.raises(SetupError, match=found.format("written")):
        export_optuna(run_dir, "mysql://here", None)
    with pytest.raises(SetupError, match=found.format("read")):
        read_study("mysql://here", None)


def test_unfinished_trials_in_between_are_exported_as_running(tmp_path: Path) -> None:
    config = study_in(tmp_path, STUDY)
    ended = [optuna.trial.create_trial(value=1.0) for _ in range(2)]
    ended[0].number, ended[1].number = 3, 1
    for trial in ended:
        trial.user_attrs[ORIGIN] = f"session:{trial.number}"
    whole = [*with_gaps(config, ended)]
    assert [trial.state.name for trial in whole] == ["RUNNING", "COMPLETE", "RUNNING", "COMPLETE"]


def test_a_later_export_fills_the_numbers_that_trials_in_training_have_held(
    run_dir: RunDir, tmp_path: Path
) -> None:
    known = read_trials(run_dir)
    config = study_of(known.study["settings"], Path(known.study["study_file"]))
    # as if two sessions had trained them
    rows = [{**row, "run_id": f"of {row['trial_number'] // 4}"} for row in known.rows()]
    curves = curves_of_all(run_dir, "val_loss")
    frozen = [*frozen_trials(config, rows, curves, written_distributions(config))]
    url, whole = (f"sqlite:///{tmp_path / name}.db" for name in ("study", "whole"))
    assert write_study(config, frozen, whole, "wine") == ("wine", 8, 0)

    in_training = ({0, 2, 5, 6, 7}, {2, 5}, {2, 5}, set[int]())
    written = [
        write_study(config, [one for one in frozen if one.number not in held], url, "wine")[1:]
        for held in in_training
    ]
    assert written == [(3, 2), (3, 2), (0, 2), (2, 0)]
    found, expected = (
        [
            (one.number, one.state, one.values, one.params, one.user_attrs, one.intermediate_values)
            for one in optuna.load_study(study_name="wine", storage=open_storage(place)).trials
        ]
        for place in (url, whole)
    )
    assert found == expected


def test_what_optuna_proposes_for_an_exported_study_is_what_the_study_file_allows(
    tmp_path: Path,
) -> None:
    entries = (
        "search.optimizer.lr={type='float', low=1e-4, high=1e-1, log=true}",
        "search.optimizer.weight_decay={type='float', low=1e-3, high=0.1, log=true, or=[0.0, 0.5]}",
        "search.model.width={type='int', low=4, high=16, base=2, or=[5]}",
        "search.model.depth={type='int', low=1, high=8, step=3, or=[5]}",
        "search.model.dropout={type='float', low=0.05, high=0.5, step=0.1}",
        "search.train.batch_size={type='int', low=8, high=32, log=true}",
    )
    config = study_in(tmp_path, STUDY, "search={}", *entries)
    written = written_distributions(config)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen: dict[str, set[Any]] = {name: set() for name in config.columns}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # about ranges that steps do not divide
        read = {n: json_to_distribution(distribution_to_json(d)) for n, d in written.items()}
    for _ in range(200):
        drawn = study.ask(read).params
        for name, entry in config.columns.items():
            extra = drawn.get(f"{name} or", "range")
            value = drawn[name] if extra == "range" else extra
            assert entry.has(value) is not None
            seen[name].add(entry.has(value))
    assert (seen["width"], seen["depth"]) == ({4, 5, 8, 16}, {1, 4, 5, 7})
    assert {0.0, 0.5} < seen["weight_decay"]
    assert len(seen["dropout"]) == 5
    assert {name for name, one in read.items() if getattr(one, "log", False)} == {
        "lr",
        "weight_decay",
        "batch_size",
    }


def test_a_trial_is_as_feasible_in_optuna_as_in_its_row(run_dir: RunDir) -> None:
    known = read_trials(run_dir)
    rows = [row for row in known.rows() if row["final_val_loss"] is not None]
    config = study_of(known.study["settings"], Path(known.study["study_file"]), run_dir)
    undefined = {"final_val_loss": None}  # without a value
    for feasible, more in ((True, {}), (False, {}), (False, undefined)):
        judged = [row | {"feasible": feasible} | more for row in rows]
        found = frozen_trials(config, judged, {}, written_distributions(config))
        assert {trial.constraints["val_loss max"] <= 0 for trial in found} == {feasible}
