"""Optuna does not warn about settings that are valid in a study file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.study.ask_tell import Study
from sweeper.trial import TrialState
from tests.config.conftest import VALID

ONE_VALUE = VALID + 'model.activation = { type = "categorical", choices = ["relu"] }\n'
STUDIES = {
    "a setting of one value by qmc": ONE_VALUE.replace(
        "n_trials = 8", 'n_trials = 8\nsampler.name = "qmc"'
    ),
    "groups for two objectives": VALID.replace(
        'metric = "val_loss"\ndirection = "minimize"',
        'metric = ["val_loss", "n_parameters"]\ndirection = ["minimize", "minimize"]\n'
        "sampler.group = true",
    ),
}


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.mark.parametrize("text", STUDIES.values(), ids=STUDIES)
def test_valid_studies_get_no_warnings(text: str) -> None:
    heard = Heard()
    logging.getLogger("optuna").addHandler(heard)
    try:
        Study(parse(text, Path("study.toml"))).ask(3, told_through_round=0)
    finally:
        logging.getLogger("optuna").removeHandler(heard)
    assert heard.said == []


def test_optuna_does_not_warn_about_ignored_constraints() -> None:
    text = VALID.replace("n_trials = 8", 'n_trials = 8\nsampler.name = "cmaes"')
    study = Study(parse(text, Path("study.toml")))
    study.ask(1, told_through_round=0)
    study.constrain(0, {"n_parameters": 5.0})

    study.tell(0, TrialState.COMPLETE, [1.0])  # a warning would be an error here
