"""What to do without a complete trial depends on how the study stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.results.missing_trials import hint_if_none_complete
from sweeper.results.status import StudyState, write_status
from sweeper.rundir import RunDir
from tests.live_status import STATUS


@pytest.mark.parametrize(
    ("state", "hint"),
    [
        ("interrupted", "resume it with the command that started it"),
        ("running", "wait until a trial is complete"),
        ("failed", "shows why each trial ended"),
        ("finished", "shows why each trial ended"),
    ],
)
def test_only_an_unfinished_study_may_still_have_a_best_trial(
    state: StudyState, hint: str, run_dir: RunDir
) -> None:
    write_status(run_dir, replace(STATUS, state=state))
    assert hint in hint_if_none_complete(run_dir)
