"""A setting that every trial draws does not depend on the value that the file fixes for it."""

from __future__ import annotations

from pathlib import Path

from tests.in_process import study_in, trained
from tests.small_studies import DIGITS, bent


def test_the_activation_of_the_file_need_not_be_among_those_drawn(tmp_path: Path) -> None:
    """Classes are compiled before the first trial is proposed, for an example of their trials."""
    study = bent(
        DIGITS,
        "study.n_trials=8",
        "study.sampler.name=random",
        "model.activation=relu",
        "search.model.activation={type='categorical',choices=['tanh','gelu']}",
        "train.epochs=1",
    )

    trials = trained(study_in(tmp_path, study)).trials()

    assert trials["state"].tolist() == ["COMPLETE"] * 8
    assert set(trials["params_activation"]) == {"tanh", "gelu"}
