"""Running totals in the storage equal what Optuna itself would find."""

from __future__ import annotations

import optuna
from hypothesis import given
from hypothesis import strategies as st
from optuna.storages import InMemoryStorage
from optuna.trial import TrialState, create_trial

from sweeper.study.recording_storage import RecordingStorage

ENDS = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


@given(st.lists(st.tuples(st.sampled_from(["ask", "add", "end"]), st.integers(0, 99))))
def test_complete_trials_equal_those_that_optuna_finds(steps: list[tuple[str, int]]) -> None:
    storage = RecordingStorage()
    study = optuna.create_study(storage=storage)
    running: list[optuna.Trial] = []
    for step, drawn in steps:
        state = ENDS[drawn % 3]
        value = float(drawn) if state == TrialState.COMPLETE else None
        if step == "ask":
            running.append(study.ask())
        elif step == "add":
            study.add_trial(create_trial(state=state, value=value))
        elif running:
            study.tell(running.pop(drawn % len(running)), value, state=state)

        complete = (TrialState.COMPLETE,)
        found = storage.get_all_trials(study._study_id, deepcopy=False, states=complete)
        assert found == InMemoryStorage.get_all_trials(
            storage, study._study_id, deepcopy=False, states=complete
        )
        assert storage.get_n_trials(study._study_id) == len(study.trials)
