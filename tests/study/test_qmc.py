"""Quasi-random proposals equal Optuna's own, however long a study is."""

from __future__ import annotations

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler, QMCSampler
from optuna.trial import TrialState

from sweeper.study.recording_storage import RecordingStorage
from sweeper.study.samplers import SteadyQMCSampler

SPACE = {
    "rate": FloatDistribution(1e-4, 1e-1, log=True),
    "only": FloatDistribution(2.0, 2.0),
    "kind": CategoricalDistribution(("a", "b", "c")),
}
# a proposal, or how the trial that has been live for longest ends
STEPS = ("ask", "ask", TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def proposals(sampler: BaseSampler, steps: list[str | TrialState]) -> list[dict[str, object]]:
    storage = RecordingStorage()
    study = optuna.create_study(storage=storage, study_name="s", sampler=sampler)
    live: list[int] = []
    for step in steps:
        if isinstance(step, str):
            live.append(study.ask(SPACE).number)
        elif live:
            value = 1.0 if step is TrialState.COMPLETE else None
            study.tell(live.pop(0), value, state=step)
        assert storage.get_n_trials(study._study_id) == len(study.trials)
    return [trial.params for trial in study.trials]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@given(st.lists(st.sampled_from(STEPS), max_size=12), st.booleans())
def test_proposals_equal_those_of_optuna(steps: list[str | TrialState], scramble: bool) -> None:
    options = {"seed": 3, "scramble": scramble}
    own = proposals(SteadyQMCSampler(**options), steps)
    assert own == proposals(QMCSampler(**options, warn_asynchronous_seeding=False), steps)
