"""What a new study learns from earlier ones: which trials fit, and what the sampler makes of it."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import create_trial

import sweeper
from sweeper.config import StudyConfig, parse
from sweeper.errors import SetupError, StudyError
from sweeper.export import export
from sweeper.faults import Fault, plan_faults
from sweeper.ledger import Ledger
from sweeper.results.events import Event, Warned
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.study import earlier_studies
from sweeper.study.ask_tell import Past, Study
from sweeper.study.learning import LEAST_OF_CMAES, Learned, learn, no_effect, refuse_other
from sweeper.study.optuna_import import import_optuna
from sweeper.study.optuna_storage import open_storage
from sweeper.study.space import Space
from sweeper.trial import LearnedTrial, TrialState, fields_of
from tests.command_line import STUDY
from tests.digest import deterministic_digest
from tests.in_process import study_in
from tests.small_studies import DIGITS

FEW = ("study.n_trials=4", "schedule.parallel=2", "study.sampler.n_startup_trials=2")
WIDER = ("search.optimizer.lr.high=1.0", "search.model.depth={type='int',low=1,high=1}")
WIDTHS = "search.model.width={type='int',low=8,high=64}"
# all that `stored` trials have, so that they suit every sampler
KNOWN = ("search={}", WIDTHS, "search.optimizer.lr={type='float',low=1e-6,high=0.1,log=true}")


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
    earlier: StudyConfig, wider: tuple[StudyConfig, list[str]], tmp_path: Path
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
    export(config.run_dir, None, 0, tmp_path / "best")
    exported = (tmp_path / "best" / "trial.toml").read_text(encoding="utf-8")
    assert "Its sampler had learnt from trials of earlier studies." in exported
    assert name not in exported


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
        said = warnings_of(broken, learn_from=[earlier.run_dir])
    finally:
        moved.rename(earlier.run_dir)
    name = earlier.run_dir.absolute()
    assert f"has learnt from 4 trials of {name}, recorded when it began" in said
    assert not any(one.startswith("learns from") for one in said)
    digests = [deterministic_digest(RunDir(one.run_dir)) for one in (wider[0], broken)]
    assert digests[0] == digests[1]
    with pytest.raises(StudyError, match=r"began with no earlier trials"):
        sweeper.run(earlier, learn_from=[broken.run_dir])


def test_settings_on_which_values_depend_are_named_if_they_differ(earlier: StudyConfig) -> None:
    others = "study.folds=3", "data.class_weights=balanced"
    notes = [*learn(parse(STUDY, Path("study.toml"), others), [earlier.run_dir]).messages][1:]
    assert notes == [
        f"values of {earlier.run_dir.absolute()} may mean something else: it differs in "
        "study.folds (unset there, 3 here) and data.class_weights ('none' there, 'balanced' here)"
    ]


@pytest.mark.parametrize("spelling", ["link", "sub/../old", "sqlite:///sub/../old.db#old"])
def test_a_source_is_the_same_however_it_is_written(
    spelling: str, earlier: StudyConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    shutil.copytree(earlier.run_dir, "old")
    Path("link").symlink_to("old")
    source = stored(Path("old.db")) if "://" in spelling else "old"
    config = parse(STUDY, Path("study.toml"), ["search={}", WIDTHS])
    with pytest.raises(StudyError, match="is given twice"):
        learn(config, [source, spelling])
    learned = learn(config, [source])
    as_before = Learned((replace(learned.sources[0], name=spelling),))
    monkeypatch.chdir("sub")
    refuse_other(RunDir(tmp_path), learned, [source.replace("old", "../old", 1)])
    monkeypatch.chdir(tmp_path)
    refuse_other(RunDir(tmp_path), as_before, [source])


def test_only_trials_that_fit_are_learnt_and_the_others_counted(tmp_path: Path) -> None:
    (source,) = learn(digits(), [stored(tmp_path / "old.db")]).sources
    assert (source.n_seen, source.n_trials) == (10, 5)
    assert source.left_out == {"do not fit model.width": 5}
    assert str(source).endswith("/old.db#old; 5 do not fit model.width")


def test_what_the_earlier_study_lacks_is_left_out_and_named(tmp_path: Path) -> None:
    learned = learn(digits(), [stored(tmp_path / "old.db")])
    assert [{*trial.drawn} for trial in learned.trials] == [{"width", "lr"}] * 5
    source, *notes = learned.messages
    name = learned.sources[0].name
    assert source.startswith("learns from 5 of 10 trials")
    assert notes == [
        "model.depth, model.activation and optimizer.weight_decay are not known for trials of "
        f"{name}: the sampler explores them from scratch"
    ]


@pytest.mark.parametrize(
    ("key", "entry", "value"),
    [
        ("train.label_smoothing", "low=0.0,high=0.2", 0.0),
        ("train.ema", "low=0.9,high=0.999,or=[0.0]", 0.0),
        ("train.ema", "low=0.9,high=0.999", "do not fit train.ema"),
        ("optimizer.clip_norm", "low=0.1,high=10.0", "do not fit optimizer.clip_norm"),
        ("optimizer.schedule.warmup", "low=0.0,high=0.3", "is not known for trials of"),
    ],
)
def test_a_number_that_was_left_out_counts_as_what_it_stands_for(
    key: str, entry: str, value: float | str, earlier: StudyConfig
) -> None:
    search = f"search.{key}={{type='float',{entry}}}"
    schedule = "optimizer.schedule={name='warmup_cosine'}"
    config = parse(STUDY, Path("study.toml"), [search, schedule])
    learned = learn(config, [earlier.run_dir])
    if isinstance(value, str):
        assert value in "; ".join(learned.messages)
        return
    assert len(learned.trials) == 4
    column = key.rpartition(".")[2]
    assert {Space(config).params(one.drawn)[column] for one in learned.trials} == {value}


def test_parameters_without_a_setting_are_named_with_the_one_they_may_be(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    study = optuna.create_study(storage=open_storage(url), study_name="old")
    names = {"n_layers": 2, "clip": 1, "optimizer.lrr": 1, "width": 16}
    study.add_trial(
        create_trial(
            params=names, distributions={n: IntDistribution(1, 16) for n in names}, value=1.0
        )
    )
    (source,) = learn(digits(), [url]).sources
    assert source.unused == {
        "n_layers": "model.depth",
        "clip": None,
        "optimizer.lrr": "optimizer.lr",
    }
    notes = [*source.notes]
    assert notes[1:3] == [
        f"n_layers of {source.name} is not searched here, so it is not used; "
        "if it is model.depth, use import-optuna --map n_layers=model.depth",
        f"clip of {source.name} is not searched here, so it is not used",
    ]
    (source,) = learn(
        digits("search={}", "search.train.epochs={type='int',low=1,high=6}"), [url]
    ).sources
    assert source.left_out == {"have none of the searched settings": 1}


@pytest.mark.parametrize("sampler", ["gp", "cmaes", "nsgaii"])
def test_samplers_of_whole_trials_learn_only_from_trials_that_have_all(
    sampler: str, tmp_path: Path
) -> None:
    url, chosen = stored(tmp_path / "old.db"), f"study.sampler={{name='{sampler}'}}"
    (source,) = learn(digits(chosen), [url]).sources
    assert source.left_out == {f"lack model.depth, which {sampler} needs": 10}
    (source,) = learn(digits(*KNOWN, chosen), [url]).sources
    assert (source.n_trials, [*source.notes]) == (10, [])


def test_what_a_trial_has_drawn_is_known_although_its_optimizer_does_not_use_it() -> None:
    names = "search.optimizer.name={type='categorical',choices=['adam','sgd']}"
    momentum = "search.optimizer.momentum={type='float',low=0.0,high=0.9}"
    config = digits("search={}", names, momentum)
    setting = earlier_studies._setting_of_trial(config, {"name": "adam", "momentum": 0.5})
    found = {key: setting(key, entry) for key, entry in config.search.items()}
    assert found == {"optimizer.name": "adam", "optimizer.momentum": 0.5}
    narrower = digits(names, momentum.replace("0.9", "0.4")).search["optimizer.momentum"]
    for key, entry in (("momentum", narrower), ("nesterov", narrower)):
        with pytest.raises(KeyError):
            setting(f"optimizer.{key}", entry)


@pytest.mark.parametrize("group", ["", ",group=true"])
def test_a_setting_that_earlier_trials_lack_is_explored(group: str, tmp_path: Path) -> None:
    """Whole trials with an invented constant keep the sampler near it."""
    decay = "search.optimizer.weight_decay={type='float',low=1e-6,high=1.0,log=true}"
    config = digits(*KNOWN, decay, f"study.sampler={{name='tpe'{group}}}")
    partial = learn(config, [stored(tmp_path / "old.db")]).trials
    invented = [replace(one, drawn={**one.drawn, "weight_decay": 1e-6}) for one in partial]

    def spread(learned: Sequence[LearnedTrial]) -> float:
        """The standard deviation of proposals, in decades."""
        study, found = Study(config, Past(learned=learned)), list[float]()
        for number in range(20):
            (spec,) = study.ask(1, 0)
            found.append(math.log10(float(spec.params["weight_decay"])))
            study.tell(number, TrialState.COMPLETE, [float(spec.params["width"])])
        return float(np.std(found))

    assert spread(partial) > 1.2, "uniform proposals have 1.7"
    assert spread(partial) > 1.5 * spread(invented)


def test_unused_settings_are_learnt_where_they_are_known(tmp_path: Path) -> None:
    """What a condition leaves out of a trial has no value to learn from."""
    when = "search.model.dropout={type='float',low=0.1,high=0.3,when={'model.activation'='tanh'}}"
    url = f"sqlite:///{tmp_path}/old.db"
    study = optuna.create_study(storage=open_storage(url), study_name="old")
    kinds, rates = CategoricalDistribution(["relu", "tanh"]), FloatDistribution(0.1, 0.5)
    for params in ({"activation": "relu"}, {"activation": "tanh", "dropout": 0.2}):
        known = {"activation": kinds, "dropout": rates}
        given = {name: known[name] for name in params}
        study.add_trial(create_trial(params=params, distributions=given, value=1.0))
    search = ("search={}", "search.model.activation={type='categorical',choices=['relu','tanh']}")
    learned = learn(digits(*search, when), [url])
    assert [dict(trial.drawn) for trial in learned.trials] == [
        {"activation": "relu"},
        {"activation": "tanh", "dropout": 0.2},
    ]
    assert [*learned.sources[0].notes] == []
    for_gp = learn(digits(*search, when, "study.sampler={name='gp'}"), [url])
    assert [dict(trial.drawn) for trial in for_gp.trials] == [
        {"activation": "relu", "dropout": 0.1},
        {"activation": "tanh", "dropout": 0.2},
    ]


def test_a_record_of_an_earlier_version_is_learnt_as_it_is(tmp_path: Path) -> None:
    """It has a value for each setting, and does not say what was not known."""
    config = digits(WIDTHS)
    learned = learn(config, [stored(tmp_path / "old.db")])
    invented = {"depth": 1.5, "activation": "relu", "weight_decay": 0.0}
    fields = ("name", "digest", "n_seen", "n_trials", "left_out")
    whole = [{**invented, **one.drawn} for one in learned.trials]
    body = {
        "sources": [{name: getattr(one, name) for name in fields} for one in learned.sources],
        "trials": [
            {**fields_of(one), "drawn": {name: drawn[name] for name in config.columns}}
            for one, drawn in zip(learned.trials, whole, strict=True)
        ],
    }
    recorded = Learned.from_dict(json.loads(json.dumps(body)))
    assert [*recorded.messages] == [str(learned.sources[0])]
    (spec,) = Study(config, Past(learned=recorded.trials)).ask(1, 0)
    # what the version that recorded this has proposed
    assert spec.drawn == pytest.approx(
        {
            "depth": 1.81877008991,
            "width": 2.81823920826,
            "activation": "relu",
            "lr": 0.000206527063432,
            "weight_decay": 0.315795999365,
        }
    )


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
    with pytest.raises(StudyError, match="no kind of database is called 'redis'"):
        learn(digits(), ["redis://nowhere"])
    with pytest.raises(SetupError, match="nothing"):
        learn(digits(), [tmp_path / "nothing"])
    with pytest.raises(StudyError, match="is given twice"):
        learn(digits(), [earlier.run_dir, str(earlier.run_dir)])
    two = stored(tmp_path / "two.db").partition("#")[0]
    for source in (f"{tmp_path}/two.db", f"{tmp_path}/two.db#old"):
        with pytest.raises(StudyError) as refused:
            learn(digits(), [source])
        assert str(refused.value).endswith(
            f"two.db is a file, not a run directory; for an Optuna storage, write sqlite:///{source}"
        )
    with pytest.raises(StudyError, match=f"name the run directory: {earlier.run_dir}$"):
        learn(digits(), [RunDir(earlier.run_dir).ledger])
    with pytest.raises(StudyError, match=r"text\.db is a file, not a run directory; name a"):
        learn(digits(), [text])
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
    config = digits(*KNOWN, f"study.sampler={{{sampler}}}", *more)
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
    assert study.take_recorded().trials.keys() <= {0, 1}
