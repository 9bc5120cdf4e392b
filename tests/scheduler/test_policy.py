"""How many trials train at a time if a study does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.scheduler.policy import default_parallel
from tests.programs.conftest import STUDY

HALVING = ("study.sampler.name='random'", "study.pruner={name='halving'}")
NEITHER = ("study.sampler.name='random'", "study.pruner={name='none'}")


@pytest.mark.parametrize(
    ("overrides", "n_trials", "on_cpu", "on_gpu"),
    [
        (("study.sampler.name='tpe'",), 64, 8, 32),
        (("study.sampler.name='tpe'",), 8, 4, 32),
        (("study.sampler.name='tpe'",), 100_000, 32, 1024),
        (HALVING, 64, 8, 1024),
        (HALVING, 1000, 32, 1024),
        (NEITHER, 64, 32, 1024),
    ],
)
def test_fewer_trials_train_at_a_time_if_their_results_matter(
    overrides: tuple[str, ...], n_trials: int, on_cpu: int, on_gpu: int
) -> None:
    config = parse(STUDY, Path("study.toml"), overrides)
    assert default_parallel(config, "cpu", n_trials).trials == on_cpu
    assert default_parallel(config, "gpu", n_trials).trials == on_gpu
    assert default_parallel(config.with_edition(2), "cpu", n_trials).trials == 32
