"""Tables that lack committed rows are reported by the commands that read them, and by the page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import sweeper
from sweeper import api
from sweeper.dashboard.page import Page
from sweeper.dashboard.study import PublishedStudy
from sweeper.errors import FRESH
from sweeper.ledger import Ledger
from sweeper.results.events import Event, RoundClosed, StudyOpened, Warned
from sweeper.results.publish import last_round
from sweeper.results.status import read_status, write_status
from sweeper.rundir import RunDir
from sweeper.study.learning import Learned, LearnedStudy
from sweeper.sweep.exit_recorder import ExitRecorder
from sweeper.sweep.session.directory import move_aside, place_after_move
from sweeper.sweep.unpublished import describe_unpublished, learning_gaps
from sweeper.sweep.verify import repair, verify
from tests.command_line import CommandLine
from tests.crashes import Study

BEHIND = "the tables are behind the ledger: trials.parquet has 0 of 3 finished trials; "


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A study that was killed after trials had ended, before they were published."""
    study = Study(tmp_path_factory.mktemp("killed"), "supervised", "padded")
    assert study.crash("ledger.close:end", 2)
    return study.run_dir


@pytest.fixture
def run_dir(killed: RunDir, tmp_path: Path, copied: Callable[[Study], Study]) -> RunDir:
    """A copy of it."""
    return copied(Study(killed.root.parent, "supervised", "padded")).run_dir


def test_trials_that_are_not_published_are_counted(run_dir: RunDir) -> None:
    publish = f"publish the rest with: python -m sweeper verify {run_dir.root} --repair"
    before = sorted(run_dir.root.rglob("*"))
    assert describe_unpublished(run_dir) == BEHIND + publish
    assert sorted(run_dir.root.rglob("*")) == before
    repair(run_dir)
    assert describe_unpublished(run_dir) is None


def test_curves_that_are_not_published_are_counted(run_dir: RunDir) -> None:
    status = read_status(run_dir)
    repair(run_dir)
    write_status(run_dir, replace(status, round=2))
    assert describe_unpublished(run_dir) is None
    *_, last = run_dir.own_parts()
    last.unlink()
    left = last_round(run_dir.own_parts())
    message = describe_unpublished(run_dir)
    assert message is not None
    assert f": metrics/ has the curves of {left} of 2 rounds; " in message


def test_a_status_of_an_earlier_round_is_reported(run_dir: RunDir) -> None:
    repair(run_dir)
    status = read_status(run_dir)
    write_status(run_dir, replace(status, round=1, state="failed"))
    assert "the status is behind the ledger: status.json is of round 1 of 2; " in str(
        describe_unpublished(run_dir)
    )
    (damage,) = verify(run_dir).damage
    assert str(damage).startswith("status.json: it is of round 1, and the ledger has 2")
    repair(run_dir)
    assert (describe_unpublished(run_dir), verify(run_dir).damage) == (None, ())


def test_a_program_that_ends_at_once_leaves_the_status_of_the_last_round(run_dir: RunDir) -> None:
    repair(run_dir)
    status = read_status(run_dir)
    write_status(run_dir, replace(status, round=1, counts={}, state="running"))
    recorder = ExitRecorder(run_dir, lambda event: None)
    recorder(RoundClosed(replace(status, state="running")))
    recorder.record_exit("received a second signal")
    left = read_status(run_dir)
    assert replace(left, updated_at=status.updated_at) == replace(status, state="interrupted")
    write_status(run_dir, replace(status, state="finished"))
    recorder.record_exit("received a second signal")
    assert read_status(run_dir).state == "finished"


@pytest.mark.parametrize(("rounds", "then"), [(0, "start again"), (2, "resume after round 2")])
def test_a_program_that_ends_at_once_says_what_the_same_command_does(
    rounds: int, then: str, run_dir: RunDir
) -> None:
    recorder = ExitRecorder(run_dir, lambda event: None)
    recorder(StudyOpened("digits", run_dir.root, rounds, 4))
    assert recorder.record_exit("stopped") == f"stopped: run the same command to {then}"


def test_a_new_study_says_which_committed_trials_it_does_not_learn_from(run_dir: RunDir) -> None:
    name, again = str(run_dir.root.absolute()), "then start over with --fresh"
    source = LearnedStudy(name, "", 0, 0, {})
    (said,) = learning_gaps(Learned((source,)))
    assert said.startswith(f"{name} was killed before all its trials were published: only 0 of 3 ")
    assert f"--repair, {again}" in said
    running = replace(read_status(run_dir), state="running", host="another")
    write_status(run_dir, running)
    (said,) = learning_gaps(Learned((source,)))
    assert said.startswith(f"{name} is still running, and what it trains later is not learnt")
    assert again in said
    write_status(run_dir, replace(running, state="failed"))
    assert not [
        *learning_gaps(Learned((replace(source, n_seen=3), replace(source, name="sqlite://"))))
    ]


def test_a_study_that_starts_over_names_the_new_place_of_its_trials(run_dir: RunDir) -> None:
    source = LearnedStudy(str(run_dir.root.absolute()), "", 0, 0, {})
    aside = move_aside(run_dir)
    assert aside is not None
    (said,) = learning_gaps(Learned((source,)), lambda path: place_after_move(path, run_dir, aside))
    assert said.startswith(f"{aside} was killed before all its trials were published: ")
    assert f"publish the rest with python -m sweeper verify {aside} --repair" in said
    assert f"then start over with {FRESH} and --learn-from {aside} (in Py" in said


def test_a_study_that_starts_over_may_learn_from_itself(run_dir: RunDir) -> None:
    repair(run_dir)
    events: list[Event] = []
    config = Study(run_dir.root.parent, "supervised", "padded").config
    sweeper.run(config, fresh=True, learn_from=run_dir.root, observer=events.append)
    said = [event.message for event in events if isinstance(event, Warned)]
    assert any(line.startswith("learns from ") for line in said)
    assert not any("still running" in line for line in said)


def test_a_study_without_a_status_runs_if_its_ledger_is_open(run_dir: RunDir) -> None:
    source = LearnedStudy(str(run_dir.root), "", 0, 0, {})
    run_dir.status.unlink()
    (said,) = learning_gaps(Learned((source,)))
    assert "was killed before all its trials were published" in said
    with closing(Ledger.open(run_dir.ledger)):
        (said,) = learning_gaps(Learned((source,)))
        assert "is still running" in said
    run_dir.ledger.unlink()  # as in a directory in which only the tables were kept
    assert [*learning_gaps(Learned((source,)))] == []


def test_a_new_study_that_learns_from_unpublished_tables_warns(
    run_dir: RunDir, tmp_path: Path
) -> None:
    study = Study(run_dir.root.parent, "supervised", "padded").config
    moved = study.model_copy(
        update={"results": study.results.model_copy(update={"dir": str(tmp_path / "new")})}
    )
    said = api.plan(moved, [run_dir.root]).as_dict()["learning"]
    assert len([line for line in said if "was killed before all its trials" in line]) == 1


def test_a_running_study_is_behind_without_a_word(run_dir: RunDir) -> None:
    elsewhere = replace(read_status(run_dir), state="running", host="another")
    write_status(run_dir, elsewhere)
    assert describe_unpublished(run_dir) is None


@pytest.mark.parametrize(
    "words",
    [["trials"], ["trials", "--csv"], ["status"], ["best"], ["show"], ["export"], ["trial"]],
)
def test_commands_that_read_the_tables_say_that_they_are_behind(
    words: list[str], run_dir: RunDir, command: CommandLine
) -> None:
    name, *options = words
    done = command(name, str(run_dir.root), *options)
    assert " ".join(done.stderr.split()).startswith(BEHIND)
    assert BEHIND not in done.stdout


def test_export_optuna_says_that_the_tables_are_behind(
    run_dir: RunDir, command: CommandLine
) -> None:
    done = command("export-optuna", str(run_dir.root), f"sqlite:///{run_dir.root}/../study.db")
    assert " ".join(done.stderr.split()).startswith(BEHIND)


def test_the_page_says_that_the_tables_are_behind(run_dir: RunDir) -> None:
    page = Page([PublishedStudy(run_dir)])
    assert BEHIND in str(page.payload(0)["views"])
    repair(run_dir)
    assert BEHIND not in str(page.payload(0)["views"])
