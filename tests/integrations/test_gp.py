"""Gaussian processes learn from trials of earlier studies, and propose the same if resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.study.ask_tell import Past, PastTrial, Study
from sweeper.study.learning import learn, no_effect
from sweeper.trial import TrialSpec, TrialState
from tests.study.test_learning import WIDTHS, digits, stored


@pytest.mark.integration
def test_gaussian_processes_learn_from_earlier_trials(tmp_path: Path) -> None:
    config = digits(WIDTHS, "study.sampler={name='gp',n_startup_trials=5}")
    learned = learn(config, [stored(tmp_path / "old.db")])
    assert no_effect(config, learned) is None
    past = Past(learned=learned.trials)
    proposed: list[list[TrialSpec]] = []
    for study in (Study(config), Study(config, past)):
        proposed.append(study.ask(1, 0))
        study.tell(0, TrialState.COMPLETE, [9.0])
        proposed[-1] += study.ask(1, 1)
    cold, warm = proposed
    assert [spec.number for spec in warm] == [0, 1]
    assert [spec.params for spec in warm] != [spec.params for spec in cold]
    ended = PastTrial(warm[0], (), {}, TrialState.COMPLETE, (9.0,))
    again = Study(config, Past([ended], learned=learned.trials))
    assert again.ask(1, 1) == warm[1:]
