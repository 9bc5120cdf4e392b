"""What a study may say and hardly means is told before it begins, and nothing is said of others."""

from __future__ import annotations

import pytest

from sweeper.config.doubts import doubts
from tests.config.conftest import Read

CONSTRAINED = "[[study.constraints]]\nmetric = 'n_parameters'\nmax = 100\n\n[data]"


def test_the_worst_end_of_a_metric_is_doubted(read: Read) -> None:
    assert doubts(read()) == ()
    assert doubts(read('"minimize"', '"maximize"')) == (
        "the study is to maximize val_loss, of which usually the other end is better",
    )


@pytest.mark.parametrize(("sampler", "heeds"), [("tpe", True), ("cmaes", False)])
def test_constraints_that_the_sampler_ignores_are_told(
    sampler: str, heeds: bool, read: Read
) -> None:
    bounded = read("[data]", CONSTRAINED, f"study.sampler={{name='{sampler}'}}")
    told = doubts(bounded)

    assert (told == ()) is heeds
    assert heeds or told[0].startswith("the sampler cmaes does not look at study.constraints, ")
