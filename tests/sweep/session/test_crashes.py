"""A round in which the program died twice is trained in workers, with the same rows."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import sweeper
from sweeper.errors import SetupError
from sweeper.faults import Fault, plan_faults
from sweeper.files import read_json
from sweeper.ledger import Closing, Ledger
from sweeper.results.events import Event, Warned
from sweeper.results.read import open_results
from sweeper.rundir import RunDir
from sweeper.sweep.exit_recorder import ExitRecorder
from sweeper.sweep.session.crashes import (
    MAX_CRASHES,
    count_crashes,
    forget_normal_end,
    note_normal_end,
    write_normal_end,
)
from sweeper.trial import Memory
from tests.crashes import Study

HERE = {"pid": 1, "host": "elsewhere"}


@pytest.fixture
def run_dir(tmp_path: Path) -> RunDir:
    run_dir = RunDir(tmp_path)
    run_dir.make()
    return run_dir


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with closing(Ledger.create(":memory:")) as ledger:
        yield ledger


def started(ledger: Ledger, run_dir: RunDir, **who: object) -> int | None:
    """The deaths that a new session finds; it is recorded for this process or for `who`."""
    found = count_crashes(ledger, run_dir)
    ledger.add_session({**HERE, **who, **found})
    forget_normal_end(run_dir)
    return found["deaths"]


def test_each_session_that_leaves_a_round_open_is_counted(ledger: Ledger, run_dir: RunDir) -> None:
    assert started(ledger, run_dir) == 0
    assert started(ledger, run_dir) == 0  # no round was open yet
    ledger.open_round(1, [], {}, Memory())
    assert [started(ledger, run_dir) for _ in range(3)] == [1, 2, 3]
    ledger.close_round(1, Closing((), 0.0, {}, {}), [], {})
    ledger.open_round(2, [], {}, Memory())
    assert started(ledger, run_dir) == 1
    ledger.close_round(2, Closing((), 0.0, {}, {}), [], {})
    assert started(ledger, run_dir) == 0


def test_sessions_of_earlier_versions_are_not_counted(ledger: Ledger, run_dir: RunDir) -> None:
    ledger.add_session(HERE)
    ledger.open_round(1, [], {}, Memory())
    assert started(ledger, run_dir) == 1


def test_an_orderly_exit_does_not_count(ledger: Ledger, run_dir: RunDir) -> None:
    me = {"pid": os.getpid(), "host": socket.gethostname()}
    started(ledger, run_dir, **me)
    ledger.open_round(1, [], {}, Memory())
    with pytest.raises(SetupError), note_normal_end(run_dir):
        raise SetupError("the disk is full")
    assert started(ledger, run_dir, **me) == 0
    write_normal_end(run_dir)
    assert started(ledger, run_dir, **me) == 0
    assert started(ledger, run_dir, **me) == 1  # it was reported once
    with pytest.raises(Fault), note_normal_end(run_dir):
        raise Fault
    assert started(ledger, run_dir, **me) == 2
    write_normal_end(run_dir)  # by a different process than the last
    assert started(ledger, run_dir) == 2
    write_normal_end(run_dir)
    assert started(ledger, run_dir) == 3


def test_a_start_that_fails_keeps_the_note_of_a_normal_end(ledger: Ledger, run_dir: RunDir) -> None:
    me = {"pid": os.getpid(), "host": socket.gethostname()}
    started(ledger, run_dir, **me)
    ledger.open_round(1, [], {}, Memory())
    write_normal_end(run_dir)
    count_crashes(ledger, run_dir)  # its session is not recorded, as on a full disk
    assert started(ledger, run_dir, **me) == 0


def test_a_start_that_a_signal_ends_before_its_session_keeps_the_note(run_dir: RunDir) -> None:
    recorder = ExitRecorder(run_dir, lambda event: None)
    run_dir.exit_note.write_text(json.dumps(HERE), encoding="utf-8")
    recorder.record_exit("received a second signal")
    assert read_json(run_dir.exit_note) == HERE
    forget_normal_end(run_dir)  # its session is recorded
    recorder.record_exit("received a second signal")
    assert read_json(run_dir.exit_note) == {"pid": os.getpid(), "host": socket.gethostname()}


def test_an_exit_note_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    write_normal_end(RunDir(tmp_path / "nowhere"))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = Study(tmp_path_factory.mktemp("unbroken") / "study", "supervised", "padded")
    study.run()
    return study


@pytest.mark.slow
def test_after_two_deaths_a_round_is_trained_in_workers(unbroken: Study, tmp_path: Path) -> None:
    study = Study(tmp_path / "study", "supervised", "padded")
    plan_faults("ledger.close:end=raise")
    with pytest.raises(Fault):
        sweeper.run(study.config)
    events: list[list[Event]] = []
    for fault in ["train:end=raise", "train:end=raise", None]:
        plan_faults(fault)
        events.append([])
        try:
            sweeper.run(study.config, observer=events[-1].append)
        except Fault:
            continue
    assert study.left() == unbroken.left()

    told = [[event.message for event in its if isinstance(event, Warned)] for its in events]
    first, *after_deaths = ([one for one in said if "the pruner" not in one] for said in told)
    assert first == []
    assert [len(messages) for messages in after_deaths] == [1, 1]
    (once,), (twice,) = after_deaths
    assert "round 2 was interrupted 1 time because the program was killed or crashed" in once
    assert "it now runs in workers" in twice
    buckets = open_results(study.run_dir.root).buckets()
    where = buckets.groupby("round")["place"].unique().map(list).to_dict()
    assert where[2] == ["worker 0"]
    assert {place for number, own in where.items() if number != 2 for place in own} == {"thread 0"}
    again = buckets[buckets["round"] == 2]
    assert set(again["attempt"]) == {1 + MAX_CRASHES}
    assert set(again["outcome"]) == {"trained; after 2 deaths of the whole program"}
    attempts = open_results(study.run_dir.root).trials()["attempts"]
    assert set(attempts) == {1, 1 + MAX_CRASHES}


def test_the_ledger_contains_the_number_of_deaths(unbroken: Study) -> None:
    with closing(Ledger.open(unbroken.run_dir.ledger)) as ledger:
        assert [session["deaths"] for session in ledger.sessions()] == [0]
