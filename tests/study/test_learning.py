"""What a new study learns from earlier ones: which trials fit, and what the sampler makes of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import create_trial

import sweeper
from sweeper.config import StudyConfig, parse
from sweeper.errors import SetupError, StudyError
from sweeper.faults import Fault, plan_faults
from sweeper.ledger import Ledger
from sweeper.results.events import Event, Warned
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.study.ask_tell import Past, Study
from sweeper.study.learning import LEAST_OF_CMAES, Learned, learn, no_effect
from sweeper.study.optuna_import import import_optuna
from sweeper.study.optuna_storage import open_storage
from sweeper.trial import LearnedTrial, TrialState
from tests.command_line import STUDY
from tests.digest import deterministic_digest
from tests.in_process import study_in
from tests.small_studies import DIGITS

FEW = ("study.n_trials=4", "schedule.parallel=2", "study.sampler.n_startup_trials=2")
WIDER = ("search.optimizer.lr.high=1.0", "search.model.depth={type='int',low=1,high=1}")
WIDTHS = "search.model.width={type='int',low=8,high=64}"


def warnings_of(config: StudyConfig, **options: Any) -> list[str]:
    """The messages of a run."""
    said: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Warned):
            said.append(event.message)

    sweeper.run(config, observer=hear, **options)
    return said


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> StudyConfig:
    config = study_in(tmp_path_factory.mktemp("earlier"), STUDY, *FEW)
    sweeper.run(config)
    return config


def digits(*overrides: str) -> StudyConfig:
    return parse(DIGITS, Path("study.toml"), overrides)


def stored(path: Path, name: str = "old") -> str:
    """The URL of an Optuna study with ten trials, from width 8 to 53."""
    url = f"sqlite:///{path}"
    study = optuna.create_study(storage=open_storage(url), study_name=name)
    distributions: dict[str, BaseDistribution] = {
        "model.width": IntDistribution(8, 64),
        "optimizer.lr": FloatDistribution(1e-6, 1e-1),
    }
    for width in range(8, 58, 5):
        params = {"model.width": width, "optimizer.lr": 1e-3}
        value = float(width)
        study.add_trial(create_trial(params=params, distributions=distributions, value=value))
    return f"{url}#{name}"


@pytest.fixture(scope="module")
def wider(
    earlier: StudyConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[StudyConfig, list[str]]:
    """A study that has learnt from `earlier`, and what it said."""
    config = study_in(tmp_path_factory.mktemp("wider"), STUDY, *FEW, *WIDER)
    return config, warnings_of(config, learn_from=earlier.run_dir)


def test_a_widened_study_learns_from_trials_that_fit(
    earlier: StudyConfig, wider: tuple[StudyConfig, list[str]]
) -> None:
    config, said = wider
    run_dir = RunDir(config.run_dir)
    name = str(earlier.run_dir.absolute())
    assert f"learns from 4 of 4 trials of {name}" in said
    assert read_status(run_dir).learned == {name: 4}
    rows = sweeper.open_results(config.run_dir).trials()
    assert rows["trial_number"].tolist() == [0, 1, 2, 3]
    ledger = Ledger.read(run_dir.ledger)
    learned = Learned.from_dict(ledger.learned())
    ledger.close()
    before = sweeper.open_results(earlier.run_dir).trials()
    assert [trial.drawn["depth"] for trial in learned.trials] == [0.5] * 4  # that of the file
    assert [trial.values[0] for trial in learned.trials] == before["value"].tolist()


def test_a_resume_needs_the_source_no_more(
    earlier: StudyConfig, wider: tuple[StudyConfig, list[str]], tmp_path: Path
) -> None:
    broken = study_in(tmp_path / "broken", STUDY, *FEW, *WIDER)
    moved = tmp_path / "moved"
    plan_faults("ledger.close:end=raise")
    with pytest.raises(Fault):
        sweeper.run(broken, learn_from=[earlier.run_dir])
    plan_faults(None)
    earlier.run_dir.rename(moved)
    try:
        with pytest.raises(StudyError, match="the study there began with"):
            sweeper.run(broken, learn_from=[moved])
        sweeper.run(broken, learn_from=[earlier.run_dir])
    finally:
        moved.rename(earlier.run_dir)
    digests = [deterministic_digest(RunDir(one.run_dir)) for one in (wider[0], broken)]
    assert digests[0] == digests[1]
    with pytest.raises(StudyError, match=r"began with no earlier trials"):
        sweeper.run(earlier, learn_from=[broken.run_dir])


def test_only_trials_that_fit_are_learnt_and_the_others_counted(tmp_path: Path) -> None:
    (source,) = learn(digits(), [stored(tmp_path / "old.db")]).sources
    assert (source.n_seen, source.n_trials) == (10, 5)
    assert source.left_out == {"do not fit model.width": 5}
    assert str(source).endswith("/old.db#old; 5 do not fit model.width")


def test_what_the_earlier_study_lacks_has_the_default_of_the_new_file(tmp_path: Path) -> None:
    url = stored(tmp_path / "old.db")
    depth = "search.model.depth={type='int',low=3,high=4}"
    learned = learn(digits(), [url])
    assert {trial.drawn["depth"] for trial in learned.trials} == {1.5}  # depth 2 of 1, 2, 3
    (other,) = learn(digits(depth), [url]).sources
    assert (other.n_trials, other.left_out) == (0, {"do not fit model.depth": 10})


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (
            {"direction": "maximize"},
            "has another goal: maximize val_loss, but this study: minimize",
        ),
        ({"directions": ["minimize", "minimize"]}, "has another goal"),
    ],
)
def test_another_goal_is_refused(options: dict[str, Any], found: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    optuna.create_study(storage=open_storage(url), study_name="old", **options)
    with pytest.raises(StudyError, match=re.escape(found)):
        learn(digits(), [url])


def test_another_metric_is_refused(earlier: StudyConfig) -> None:
    found = "minimize val_loss, but this study: maximize val_accuracy"
    with pytest.raises(StudyError, match=found):
        learn(digits("study.metric=val_accuracy", "study.direction=maximize"), [earlier.run_dir])


def test_a_source_that_cannot_be_read_is_named(earlier: StudyConfig, tmp_path: Path) -> None:
    missing, text = tmp_path / "no.db", tmp_path / "text.db"
    text.write_text("not a database", encoding="utf-8")
    with pytest.raises(SetupError, match="the file does not exist"):
        learn(digits(), [f"sqlite:///{missing}"])
    assert not missing.exists()
    with pytest.raises(SetupError, match="file is not a database"):
        learn(digits(), [f"sqlite:///{text}"])
    with pytest.raises(SetupError, match="cannot be read"):
        learn(digits(), ["redis://nowhere"])
    with pytest.raises(SetupError, match="nothing"):
        learn(digits(), [tmp_path / "nothing"])
    with pytest.raises(StudyError, match="is given twice"):
        learn(digits(), [earlier.run_dir, str(earlier.run_dir)])
    two = stored(tmp_path / "two.db").partition("#")[0]
    stored(tmp_path / "two.db", name="other")
    with pytest.raises(StudyError, match="it has 2 studies; name one of old and other after #"):
        learn(digits(), [two])


HYPERBAND = "study.pruner={name='hyperband',min_resource=1,max_resource=6,reduction_factor=2}"


@pytest.mark.parametrize(
    ("sampler", "more", "reason"),
    [
        ("name='tpe'", (), None),
        ("name='tpe'", (HYPERBAND,), None),
        ("name='nsgaii',population_size=4", (), None),
        ("name='cmaes',n_startup_trials=0", (), None),
        ("name='optuna.samplers:TPESampler'", (), None),
        ("name='random'", (), "the sampler random learns from no trials"),
        ("name='qmc'", (), "the sampler qmc learns from no trials"),
        ("name='cmaes',use_separable_cma=true", (), "without use_separable_cma"),
    ],
)
def test_only_a_sampler_that_learns_proposes_other_trials(
    sampler: str, more: tuple[str, ...], reason: str | None, tmp_path: Path
) -> None:
    config = digits(WIDTHS, f"study.sampler={{{sampler}}}", *more)
    learned = learn(config, [stored(tmp_path / "old.db")])
    assert len(learned.trials) == LEAST_OF_CMAES
    past = Past(learned=learned.trials)
    cold, warm, again = (Study(config, each).ask(2, 0) for each in (None, past, past))
    assert [spec.number for spec in warm] == [0, 1]
    assert warm == again
    assert (warm == cold) is (reason is not None)
    assert (reason or "None") in str(no_effect(config, learned))


def test_trials_are_judged_by_hyperband_without_what_is_learnt(tmp_path: Path) -> None:
    config = digits(WIDTHS, HYPERBAND)
    learned = learn(config, [stored(tmp_path / "old.db")])
    study = Study(config, Past(learned=learned.trials))
    numbers = [spec.number for spec in study.ask(8, 0)]
    for number in numbers:
        study.report(number, 1, [100.0 + number])  # worse than anything that is learnt
    goes_on = [not study.should_prune(number) for number in numbers]
    assert goes_on[0] and any(goes_on[1:]) and not all(goes_on), "the best of each bracket goes on"


def test_pruned_trials_of_optuna_count_epochs_from_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    study = optuna.create_study(storage=open_storage(url), study_name="old")
    trial = study.ask()
    trial.suggest_int("model.width", 8, 16)
    trial.report(0.5, 0)
    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    imported, _ = import_optuna(url, None, tmp_path / "run", {}, ["val_loss"])
    learned = [learn(digits(), [source]).trials for source in (url, imported.root)]
    assert [(one.values, one.epoch) for (one,) in learned] == [((0.5,), 1)] * 2


def test_trials_without_the_metric_of_a_constraint_do_not_fit(
    earlier: StudyConfig, tmp_path: Path
) -> None:
    limit = "study.constraints=[{metric='n_parameters',max=130}]"
    url, _, name = stored(tmp_path / "old.db").partition("#")
    imported, _ = import_optuna(url, name, tmp_path / "run", {}, ["val_loss"])
    (source,) = learn(digits(WIDTHS, limit), [imported.root]).sources
    assert source.left_out == {"have no n_parameters, which a constraint needs": 10}
    config = study_in(tmp_path / "limited", STUDY, *FEW, limit)
    learned = learn(config, [earlier.run_dir])
    assert [trial.excesses for trial in learned.trials] == [{"0 n_parameters": 9.0}] * 4


def test_pruners_do_not_see_what_is_learnt(tmp_path: Path) -> None:
    pruner = "study.pruner={name='median',n_startup_trials=1,n_warmup_steps=0}"
    config = digits(WIDTHS, pruner)
    learned = learn(config, [stored(tmp_path / "old.db")])
    pruned = [LearnedTrial(trial.drawn, "PRUNED", (0.0,), 1) for trial in learned.trials]
    study = Study(config, Past(learned=pruned))
    numbers = [spec.number for spec in study.ask(2, 0)]
    for number in numbers:
        study.report(number, 1, [5.0 + number])
    assert [study.should_prune(number) for number in numbers] == [False, True]
    study.tell(0, TrialState.COMPLETE, [5.0])
    assert study.noted().trials.keys() <= {0, 1}
