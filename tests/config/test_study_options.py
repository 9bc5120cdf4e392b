"""Options that a sampler or a pruner would not accept are refused before a study starts."""

from __future__ import annotations

import sys

import pytest

from sweeper.errors import StudyError
from sweeper.study import options
from tests.round_machine import study as config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("study.sampler.n_startup_trials='x'", "'x' does not fit; write an integer of 0"),
        ("study.sampler.n_ei_candidates=0", "0 does not fit; write an integer of 1 or more"),
        ("study.sampler.multivariate=1", "1 does not fit; write true or false"),
        ("study.sampler.gamma=3", "'tpe' has no such option; its options are n_startup"),
        (
            "study.sampler={name='random',n=1}",
            "'random' has no such option; it has none: remove it",
        ),
        ("study.pruner={name='asha',min_resource='auto'}", "'auto' does not fit"),
        ("study.pruner={name='asha',reduction_factor=2.5}", "2.5 does not fit"),
        ("study.pruner={name='median',n_startup_trials=true}", "True does not fit"),
        ("study.sampler={name='qmc',qmc_type='lhs'}", "write one of 'sobol', 'halton'"),
        ("study.sampler={name='cmaes',popsize=3}", "3 does not fit; write an integer of 4"),
        ("study.sampler={name='nsgaii',crossover_prob=2}", "write a number of 0 or more, 1 at"),
        ("study.sampler={name='tpe',group=true,multivariate=false}", "remove one of the two"),
        ("study.pruner.name=percentile", "study.pruner.percentile: missing; write percentile ="),
        ("study.pruner.name=threshold", "no threshold; write upper = ..., or lower = ..."),
        ("study.pruner={name='threshold',lower=2,upper=1.5}", "lower 2 is above upper 1.5"),
        ("study.pruner={name='hyperband',min_resource=9}", "above the maximum of epochs, 8"),
        ("study.pruner={name='wilcoxon',p_threshold='x'}", "'x' does not fit; write a number"),
        ("study.pruner={name='patient',patience=2,wrapped=3}", "3 is not a table; write e.g."),
        (
            "study.pruner={name='patient',patience=2,wrapped={name='mean'}}",
            "study.pruner.wrapped.name: no pruner 'mean'; did you mean 'median'?",
        ),
        (
            "study.pruner={name='patient',patience=2,wrapped={name='asha',min_resource=0}}",
            "study.pruner.wrapped.min_resource: 0 does not fit",
        ),
        ("study.sampler.name='nowhere:Sampler'", "no module 'nowhere'"),
        ("study.sampler.name='tests.round_machine:Samplr'", "no class 'Samplr'"),
        (
            "study.sampler.name='tests.round_machine:Tossing'",
            "is not a subclass of optuna's BaseSampler",
        ),
        ("study.pruner.name='tests.round_machine:Tossing'", "pruner.chance: missing, but 'tests."),
        (
            "study.pruner={name='tests.round_machine:Tossing',chance=1,luck=2}",
            "study.pruner.luck: 'tests.round_machine:Tossing' has no argument 'luck'; "
            "it takes chance",
        ),
        (
            "study.pruner={name='optuna.pruners:PercentilePruner',percentile=200.0}",
            "raised ValueError: Percentile must be between 0 and 100",
        ),
    ],
)
def test_an_option_that_does_not_fit_is_refused(override: str, message: str) -> None:
    with pytest.raises(StudyError) as refused:
        options.check(config([override]))

    assert message in str(refused.value)


def test_options_left_over_by_another_name_can_be_overridden_together() -> None:
    pruner = "study.pruner={name='halving',min_resource=2}"
    with pytest.raises(StudyError) as refused:
        options.check(config([pruner, "study.pruner.name=none"]))
    whole = "'study.pruner={ name = \"none\" }'"
    hint = (
        f"'none' has no such option; it has none: remove it, or override the whole table: {whole}"
    )
    assert f"study.pruner.min_resource: {hint}" in str(refused.value)


@pytest.mark.parametrize(("sampler", "package"), [("cmaes", "cmaes"), ("gp", "torch")])
def test_a_package_that_is_not_installed_is_named_with_its_command(
    sampler: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = config([f"study.sampler.name={sampler}"])
    monkeypatch.setitem(sys.modules, package, None)  # an option that is None there cannot be found
    with pytest.raises(StudyError) as refused:
        options.check(asked)
    assert str(refused.value) == (
        f"--set: study.sampler.name: the sampler '{sampler}' needs the package {package}, which "
        f"is not installed; run `python -m pip install {package}`"
    )


def test_an_installed_package_of_a_sampler_is_accepted() -> None:
    options.check(config(["study.sampler={name='cmaes',popsize=4,with_margin=true}"]))


def test_a_huge_grid_is_refused() -> None:
    fine = "search.optimizer.lr={type='float',low=0.1,high=1,step=1e-5}"

    with pytest.raises(StudyError, match=r"a grid of 1,080,012 points; write coarser steps"):
        options.check(config(["study.sampler={name='grid'}", fine]))


def test_valid_options_are_accepted() -> None:
    options.check(
        config(["study.sampler.n_startup_trials=3", "study.pruner={name='asha',min_resource=2}"])
    )
