"""All problems are reported together, unless one hides another."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper import api
from sweeper.config import parse
from sweeper.errors import StudyError
from tests.config.conftest import VALID
from tests.small_studies import PARTS


def keys(text: str) -> list[str]:
    with pytest.raises(StudyError) as refused:
        api.check(parse(text, Path("study.toml")))
    return [problem.key for problem in refused.value.problems]


def test_a_number_out_of_range_does_not_hide_a_wrong_name() -> None:
    text = PARTS.replace("epochs = 12", "epochs = 0").replace("depth = 1", 'depth = "x"', 1)
    text = text.replace('against = "b"', 'against = "bb"').replace("val_loss_data", "val_loss")

    assert keys(text) == [
        *("study.metric", "model.a.depth", "train.epochs", "train.losses.follow.against"),
    ]
    assert keys(text.replace("epochs = 0", 'epochs = "x"')) == [
        *("study.metric", "model.a.depth", "train.epochs", "train.losses.follow.against"),
    ]


def test_a_wrong_size_causes_no_errors_about_other_sizes() -> None:
    assert keys(PARTS.replace("out_size = 4", "out_size = 0")) == ["model.a.out_size"]


def test_problems_of_options_and_data_are_reported_together() -> None:
    text = VALID.replace("n_trials = 8", "n_trials = 8\nsampler.gamma = 3")
    assert keys(text) == ["study.sampler.gamma"]
    assert keys(text.replace("batch_size = 16", "batch_size = 1600")) == [
        *("study.sampler.gamma", "train.batch_size"),
    ]
