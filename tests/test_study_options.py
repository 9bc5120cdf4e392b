"""What a sampler or a pruner would not take is refused before a study starts."""

from __future__ import annotations

import pytest

from sweeper.errors import StudyError
from sweeper.study import options
from tests.round_machine import study as config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("study.sampler.n_startup_trials='x'", "'x' does not fit; write a whole number of 0"),
        ("study.sampler.n_ei_candidates=0", "0 does not fit; write a whole number of 1 or more"),
        ("study.sampler.multivariate=1", "1 does not fit; write true or false"),
        ("study.sampler.gamma=3", "'tpe' has no such option; it takes n_startup_trials"),
        ("study.sampler={name='random',n=1}", "'random' has no such option; it takes none"),
        ("study.pruner={name='asha',min_resource='auto'}", "'auto' does not fit"),
        ("study.pruner={name='asha',reduction_factor=2.5}", "2.5 does not fit"),
        ("study.pruner={name='median',n_startup_trials=true}", "True does not fit"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(override: str, message: str) -> None:
    with pytest.raises(StudyError) as refused:
        options.check(config([override]))

    assert message in str(refused.value)


def test_a_grid_that_nobody_could_train_is_refused() -> None:
    fine = "search.optimizer.lr={type='float',low=0.1,high=1,step=1e-6}"

    with pytest.raises(StudyError, match=r"a grid of 10,800,012 points; write coarser steps"):
        options.check(config(["study.sampler={name='grid'}", fine]))


def test_options_that_fit_are_taken() -> None:
    options.check(
        config(["study.sampler.n_startup_trials=3", "study.pruner={name='asha',min_resource=2}"])
    )
