"""A pruner that can never end a trial, and trials that must repeat, are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.errors import counted
from sweeper.study.ask_tell import Study
from sweeper.study.lint import study_warnings
from sweeper.study.options import given_options
from sweeper.trial import TrialState
from tests.config.conftest import VALID

_RUNS = ("study.n_trials=24", "schedule.parallel=4", "train.epochs=12", "schedule.round_epochs=1")


def _study(*overrides: str) -> StudyConfig:
    return parse(VALID, Path("study.toml"), [*_RUNS, *overrides])


def _pruned_by(options: str, *overrides: str) -> StudyConfig:
    return _study(f"study.pruner={{{options}}}", *overrides)


_RUNGS = 'wrapped={{name="{}",min_resource=2,reduction_factor=3}}'
_ACTING = {
    'name="median"': 1,
    'name="median",n_warmup_steps=1': 1,
    'name="median",n_warmup_steps=3': 3,
    'name="percentile",percentile=25.0,n_warmup_steps=4,interval_steps=3': 4,
    'name="threshold",upper=1.0,n_warmup_steps=2': 2,
    'name="halving"': 4,
    'name="halving",min_resource=2,reduction_factor=2': 2,
    'name="asha",min_resource=3': 3,
    'name="asha",min_resource=2,reduction_factor=2,min_early_stopping_rate=2': 8,
    'name="hyperband",min_resource=7': 7,
    'name="patient",patience=2': 4,
    'name="patient",patience=1,wrapped={name="median",n_warmup_steps=6}': 6,
    'name="patient",patience=1,wrapped={name="patient",patience=3}': 5,
    'name="wilcoxon"': 4,
    'name="wilcoxon",p_threshold=0.01': 7,
    'name="wilcoxon",n_startup_steps=6': 6,
}


@pytest.mark.parametrize(("options", "first"), _ACTING.items())
def test_a_pruner_is_idle_only_if_trials_end_before_it_acts(options: str, first: int) -> None:
    """The epoch in the warning is the first after which Optuna's pruner ends a trial."""
    assert _first_pruned(_pruned_by(options)) == first
    assert study_warnings(_pruned_by(options, f"train.epochs={first + 1}")) == ()
    if first > 1:
        (warning,) = study_warnings(_pruned_by(options, f"train.epochs={first}"))
        assert f"never ends a trial: it first acts after epoch {first}, but judges" in warning


def _first_pruned(config: StudyConfig) -> int | None:
    """After which epoch a trial that gets ever worse ends, after eight that got better."""
    study = Study(config)
    for spec in study.ask(8, 0):
        study.report(spec.number, 1, [1.0 / epoch for epoch in range(1, 13)])
        if config.study.pruner.name in ("asha", "hyperband"):
            study.should_prune(spec.number)  # which records its value at each rung
        study.tell(spec.number, TrialState.COMPLETE, [1 / 12])
    (worst,) = study.ask(1, 0)
    for epoch in range(1, 12):
        study.report(worst.number, epoch, [1.0 + epoch])
        if study.should_prune(worst.number):
            return epoch
    return None


@pytest.mark.parametrize(
    ("options", "overrides", "why"),
    [
        ('name="median"', ["train.epochs=1"], "it judges before the last epoch, but trials have 1"),
        (
            'name="median"',
            ["schedule.round_epochs=12"],
            "it judges after rounds, but a round has all 12 epochs; write "
            "schedule.round_epochs = 1",
        ),
        (
            'name="threshold",upper=9.0,n_warmup_steps=2,interval_steps=4',
            ["schedule.round_epochs=5"],
            "",
        ),
        (
            'name="threshold",upper=9.0,n_warmup_steps=3,interval_steps=4',
            ["schedule.round_epochs=5"],
            "it acts after epoch 3, 7 and 11, but judges when rounds end, after 5 and 10; write "
            "schedule.round_epochs = 3",
        ),
        (
            'name="median",n_startup_trials=24',
            [],
            "it compares a trial with at least 24 others, but the study has 24 trials",
        ),
        (
            'name="median",n_startup_trials=24',
            ["edition=2"],
            "it waits for 24 completed trials before it ends another, but the study has 24 trials",
        ),
        ('name="median",n_startup_trials=23', ["schedule.parallel=1"], ""),
        (
            'name="percentile",percentile=50.0,n_min_trials=30',
            [],
            "it compares a trial with at least 30 others, but the study has 24 trials",
        ),
        (
            'name="median"',
            ["schedule.parallel=24", "edition=2"],
            "it waits for 5 completed trials, but with schedule.parallel = 24 the last of 24 "
            "trials start before more than 0 have completed; write schedule.parallel = 6 or less",
        ),
        ('name="median"', ["schedule.parallel=24"], ""),
        ('name="median"', ["schedule.parallel=24", "edition=2", "train.early_stop.patience=3"], ""),
        ('name="asha"', ["schedule.parallel=24"], ""),
        ('name="asha"', ["study.n_trials=1"], "it compares trials, but the study has 1"),
        ('name="wilcoxon"', ["study.n_trials=1"], "it waits for 1 completed trial before"),
        (
            'name="patient",patience=1,wrapped={name="none"}',
            [],
            'it wraps no other pruner; name one, or remove "wrapped"',
        ),
        (
            f'name="patient",patience=5,{_RUNGS.format("halving")}',
            ["train.epochs=8"],
            "it first acts after epoch 18, but judges before the last epoch, 8; write a smaller "
            "study.pruner.patience, or more train.epochs",
        ),
        (
            f'name="patient",patience=5,{_RUNGS.format("hyperband")}',
            ["train.epochs=8"],
            "it first acts after epoch 18, but judges before the last epoch, 8; write a smaller ",
        ),
        (f'name="patient",patience=4,{_RUNGS.format("halving")}', ["train.epochs=8"], ""),
        (
            f'name="patient",patience=5,{_RUNGS.format("hyperband")}',
            ["train.epochs=8", "edition=2"],
            "",
        ),
        (f'name="patient",patience=5,{_RUNGS.format("asha")}', ["train.epochs=8"], ""),
        (
            'name="median"',
            ["study.metric=n_parameters"],
            "it judges values of epochs, and n_parameters has none; remove study.pruner",
        ),
        (
            'name="median"',
            ["study.metric=['n_parameters']"],
            "it judges values of epochs, and n_parameters has none; remove study.pruner",
        ),
        ('name="mine:Pruner"', ["study.metric=n_parameters"], ""),
        ('name="percentile",percentile=95.0', [], ""),
        (
            'name="percentile",percentile=96.0',
            [],
            "it spares the best 96 % of all trials, and with 24 trials these are all; write "
            "study.pruner.percentile = 95 or less",
        ),
        (
            'name="patient",patience=1,wrapped={name="percentile",percentile=100.0}',
            ["study.n_trials=8"],
            "it spares the best 100 % of all trials, and with 8 trials these are all; write "
            "study.pruner.wrapped.percentile = 87 or less",
        ),
        ('name="percentile",percentile=96.0', ["edition=2"], ""),
        ('name="threshold",lower=-0.5', [], "no val_loss is beyond its thresholds"),
        ('name="threshold",lower=-0.5,upper=3.0', [], ""),
        ('name="mine:Pruner"', [], ""),
    ],
)
def test_a_pruner_that_never_ends_a_trial_is_reported(
    options: str, overrides: list[str], why: str
) -> None:
    warnings = study_warnings(_pruned_by(options, *overrides))
    found = [warning for warning in warnings if "pruner" in warning]
    assert [why in warning for warning in found] == ([True] if why else [])


@pytest.mark.parametrize("name", ["patient", "wilcoxon"])
def test_only_options_that_help_are_advised(name: str) -> None:
    """With 2 epochs no option of these pruners does."""
    for epochs, options in ((2, False), (3, True)):
        late, advice = {
            "patient": ("patience=2", "a smaller study.pruner.patience"),
            "wilcoxon": (
                "n_startup_steps=9",
                "a larger study.pruner.p_threshold and a smaller study.pruner.n_startup_steps",
            ),
        }[name]
        changed = f'name="{name}",{late}', f"train.epochs={epochs}"
        (warning,) = study_warnings(_pruned_by(*changed))
        end = warning.rpartition("; write ")[2]
        assert end == (f"{advice}, or more train.epochs" if options else "more train.epochs")


def test_all_options_that_delay_a_pruner_are_named() -> None:
    late = 'name="asha",min_resource=5,reduction_factor=50,min_early_stopping_rate=1'
    (warning,) = study_warnings(_pruned_by(late, "train.epochs=40"))
    options = ("min_resource", "min_early_stopping_rate")
    advice = " and ".join(f"a smaller study.pruner.{option}" for option in options)
    assert warning.endswith(f"; write {advice}, or more train.epochs")


def test_a_population_of_all_trials_can_only_be_made_smaller_if_there_are_three() -> None:
    for n_trials, smaller in ((2, ""), (3, "a smaller one, or ")):
        sampler = f'study.sampler={{name="nsgaii",population_size={n_trials}}}'
        (found,) = study_warnings(_study(sampler, f"study.n_trials={n_trials}"))
        assert found.endswith(f"; write {smaller}more study.n_trials")


def test_a_pruner_that_ends_all_or_only_some_trials_is_reported() -> None:
    (every,) = study_warnings(_pruned_by('name="asha",bootstrap_count=24'))
    assert every.startswith("the pruner asha ends every trial at its first rung: bootstrap_count")
    (late,) = study_warnings(_pruned_by('name="hyperband",max_resource=100'))
    assert "some brackets judge no trial; remove max_resource" in late


@pytest.mark.parametrize(("name", "edition"), [("asha", 6), ("asha", 1), ("hyperband", 2)])
def test_a_pruner_that_ends_the_only_trial_is_not_also_said_to_end_none(
    name: str, edition: int
) -> None:
    only = "study.n_trials=1", f"edition={edition}"
    (warning,) = study_warnings(_pruned_by(f'name="{name}",bootstrap_count=1', *only))
    assert warning.startswith(f"the pruner {name} ends every trial at its first rung: ")


@pytest.mark.parametrize("name", ['name="median"', 'name="percentile",percentile=50.0'])
def test_a_trial_is_compared_with_at_least_n_startup_trials_others(name: str) -> None:
    config = _pruned_by(f"{name},n_startup_trials=4")
    study = Study(config)
    specs = study.ask(6, 0)
    for spec in specs[:4]:  # of four completed trials three reached epoch 3
        study.report(spec.number, 1, [1.0, 0.9, 0.8][: 2 if spec.number == 0 else 3])
        study.tell(spec.number, TrialState.COMPLETE, [0.8])
    study.report(4, 1, [1.0, 0.9, 2.0])
    assert not study.should_prune(4)
    study.report(5, 1, [1.0, 2.0])
    assert study.should_prune(5)


def test_studies_of_edition_1_compare_with_a_single_trial() -> None:
    options = {"n_startup_trials": 4}
    config = _pruned_by('name="median",n_startup_trials=4')
    assert given_options(config, "median", options)["n_min_trials"] == 4
    assert "n_min_trials" not in given_options(config.with_edition(1), "median", options)
    options = {"n_startup_trials": 0}
    assert given_options(config, "median", options)["n_min_trials"] == 1


@pytest.mark.parametrize(
    ("goal", "stop", "reported"),
    [
        ("val_accuracy maximize", "{value=1.0,patience=11}", ""),
        ("val_accuracy maximize", "{value=1.5}", "value = 1.5 never ends the study: no val_acc"),
        ("val_loss minimize", "{value=0.0}", ""),
        ("val_loss minimize", "{value=-1.0}", "value = -1 never ends the study: no val_loss"),
        ("val_loss minimize", "{patience=12}", "patience = 12 never ends the study, which has 12"),
    ],
)
def test_a_rule_that_cannot_end_the_study_is_reported(goal: str, stop: str, reported: str) -> None:
    metric, direction = goal.split()
    chosen = f"study.metric={metric}", f"study.direction={direction}"
    found = study_warnings(_study(*chosen, f"study.stop={stop}", "study.n_trials=12"))
    ours = [warning for warning in found if "study.stop" in warning]
    assert len(ours) == bool(reported)
    assert all(warning.startswith(f"study.stop.{reported}") for warning in ours)


def test_no_patience_can_end_a_study_of_a_single_trial() -> None:
    single = _study("study.stop={patience=3}", "study.n_trials=1")
    (found,) = [one for one in study_warnings(single) if "study.stop" in one]
    assert found.endswith("which has 1 trial; write more study.n_trials, or remove it")


def test_fewer_others_are_reported_if_trials_end_at_different_epochs() -> None:
    few = 'name="median",n_startup_trials=4,n_min_trials=2'
    assert study_warnings(_pruned_by(few, "edition=2")) == ()
    (warning,) = study_warnings(_pruned_by(few, "edition=2", "train.early_stop.patience=3"))
    assert warning.startswith("the pruner median may judge a trial against 2 others at an epoch")


_TWO = '{type="categorical",choices=[0.001,0.01]}'
_SIX = f'model.depth={{type="int",low=1,high=3}},optimizer.lr={_TWO}'
_WHEN = 'type="categorical",choices=[0.0,0.5],when={"model.depth"=[2,3]}'


@pytest.mark.parametrize(
    ("search", "points"),
    [
        (_SIX, 6),
        (f"{_SIX},model.dropout={{{_WHEN}}}", 10),
        (f'{_SIX},model.width={{type="int",low=8,high=64,base=2}}', 24),
        (f'{_SIX},model.width={{same_as="model.depth"}}', 6),
        ('optimizer.lr={type="float",low=0.1,high=0.3,step=0.1,or=[0.5]}', 4),
        ('optimizer.lr={type="float",low=0.1,high=0.3}', None),
        ('optimizer.lr={type="float",low=0.1,high=0.1}', 1),
        ('optimizer.lr={type="float",low=0.1,high=0.1,log=true,or=[0.1,0.5]}', 2),
        (
            f'optimizer.lr={_TWO},optimizer.name={{type="categorical",choices=["adam","sgd"]}},'
            'optimizer.momentum={type="categorical",choices=[0.0,0.5,0.9]}',
            8,
        ),
        (
            f'optimizer.lr={_TWO},optimizer.name={{type="categorical",choices=["adam","sgd"]}},'
            'optimizer.momentum={type="categorical",choices=[0.5,0.8,0.9]},'
            'optimizer.b1={same_as="optimizer.momentum"}',
            12,
        ),
    ],
)
def test_trials_that_must_repeat_others_are_counted(search: str, points: int | None) -> None:
    config = _study(f"search={{{search}}}")
    assert config.n_different == points
    if points is not None:
        more = _study(f"search={{{search}}}", f"study.n_trials={points + 2}")
        (warning,) = study_warnings(more)
        assert warning.startswith(
            f"the space has {counted(points, 'point')}, so at least 2 of {points + 2} trials repeat"
        )
        for enough in (f"study.n_trials={points}", 'study.sampler.name="grid"'):
            assert study_warnings(_study(f"search={{{search}}}", enough)) == ()


def test_trials_of_a_study_without_a_search_repeat() -> None:
    (warning,) = study_warnings(_study("search={}"))
    assert warning.startswith("nothing is searched, so at least 23 of 24 trials repeat")


@pytest.mark.parametrize("search", [_SIX, ""])
def test_a_sampler_of_ones_own_may_end_a_study_before_trials_repeat(search: str) -> None:
    own = 'study.sampler.name="optuna.samplers:BruteForceSampler"'
    assert study_warnings(_study(f"search={{{search}}}", own)) == ()


def test_the_same_trial_twice_in_the_queue_is_reported() -> None:
    one, other = "{depth=1,lr=0.001}", "{depth=2,lr=0.001}"
    (warning,) = study_warnings(_study(f"study.enqueue=[{one},{other},{one}]"))
    assert warning.startswith("study.enqueue repeats settings: 3 of its trials give all that is")
    assert study_warnings(_study(f"study.enqueue=[{one},{other},{{depth=1}},{{depth=1}}]")) == ()


_RANGE = '{type="float",low=1e-4,high=1e-2}'
_CATEGORIES = 'search={model.activation={type="categorical",choices=["relu","tanh"]}'


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ['study.sampler={name="tpe",n_startup_trials=24}'],
            "the sampler tpe draws all 24 trials at random: study.sampler.n_startup_trials = 24 ",
        ),
        (['study.sampler={name="tpe",n_startup_trials=23}'], None),
        (
            ['study.sampler={name="nsgaii",population_size=30}'],
            "the sampler nsgaii draws all 24 trials at random: study.sampler.population_size = 30 ",
        ),
        (["study.sampler.name=cmaes", f"{_CATEGORIES}}}"], "the sampler cmaes draws all trials"),
        (["study.sampler.name=qmc", f"{_CATEGORIES}}}"], "the sampler qmc draws all trials"),
        (["study.sampler.name=qmc", f"{_CATEGORIES},optimizer.lr={_RANGE}}}"], None),
        (["study.sampler.name=cmaes", f"{_CATEGORIES},optimizer.lr={_RANGE}}}"], None),
        (["study.sampler.name=cmaes"], None),
    ],
)
def test_a_sampler_that_draws_at_random_is_reported(overrides: list[str], said: str | None) -> None:
    found = [warning for warning in study_warnings(_study(*overrides)) if "sampler " in warning]
    assert [warning.startswith(said or "") for warning in found] == ([True] if said else [])
