"""How long a worker may take for a bucket, and what counts as its outcome."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import StudyError
from sweeper.executors.claims import n_threads
from sweeper.executors.process_executor import Slot, outcome_of
from sweeper.executors.worker import WorkerSetup
from sweeper.executors.worker_process import GoneError
from tests.executors.test_retry import work
from tests.simulated import SimulatedExecutor
from tests.small_studies import DIGITS


def slot(timeout_s: float | None) -> Slot:
    setup = WorkerSetup(parse(DIGITS, Path("study.toml")), Path("data"), Path("files"), (), 0)
    return Slot("worker 0", setup, {}, Path("worker-0.log"), timeout_s)


def test_each_trial_of_a_bucket_has_the_whole_time_limit_and_compiling_once() -> None:
    assert slot(None).limit_s(work(0, 1)) is None
    assert slot(10.0).limit_s(work(0)) == 20.0
    assert slot(10.0).limit_s(work(0, 1, 2)) == 40.0


def test_with_a_time_limit_for_trials_no_thread_trains() -> None:
    given = ["execution.trial_timeout='90s'"]
    config = parse(DIGITS, Path("study.toml"), given)
    assert config.execution.trial_timeout_s == 90.0
    assert n_threads(config) == 0
    with pytest.raises(StudyError, match="trial_timeout cannot end a trial that hangs"):
        parse(DIGITS, Path("study.toml"), [*given, "execution.threads=2"])
    with pytest.raises(StudyError, match="0 workers, but trial_timeout"):
        parse(DIGITS, Path("study.toml"), [*given, "execution.workers=0"])


def test_an_outcome_belongs_to_its_bucket() -> None:
    asked = work(0, 1)
    outcome = SimulatedExecutor(lambda spec, epoch: (1.0,)).attempt(asked)
    found = outcome_of(pickle.dumps(outcome), asked)
    assert found is not None
    assert found.bucket == asked.bucket
    other = replace(outcome, bucket=work(0, 2).bucket)
    rubbish = (pickle.dumps(other), pickle.dumps("text"), b"rubbish", b"", None, outcome)
    assert [outcome_of(given, asked) for given in rubbish] == [None] * len(rubbish)


def test_the_data_is_written_again_for_a_worker_that_did_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[None] = []

    class FailsOnce:
        """A worker that starts after the data were sent again."""

        def __init__(self, *_: object) -> None:
            self.is_alive = True

        def call(self, *_: object, limit_s: float | None) -> int:
            if sent:
                return 1
            raise GoneError("raised ValueError and was killed", "the data are damaged")

        def end(self) -> None:
            self.is_alive = False

    monkeypatch.setattr("sweeper.executors.process_executor.WorkerProcess", FailsOnce)
    place = slot(None)
    place.send = lambda: sent.append(None)
    assert place._running().is_alive
    assert len(sent) == 1
