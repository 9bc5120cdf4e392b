"""A signal that reaches every process must only end the process that it is meant for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import sweeper
from sweeper.results.events import Event, RoundClosed, StudyOpened, Warned
from sweeper.results.read import open_results
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from tests.command_line import STUDY as SMALL
from tests.command_line import CommandLine
from tests.forking import run_code
from tests.in_process import study_in
from tests.processes import ROOT, descendants, finish, start

STUDY = ROOT / "studies" / "digits.toml"
SETTINGS = (
    "study.n_trials=2",
    "train.epochs=4",
    "schedule.round_epochs=2",
    "search.model.depth.high=1",
    "search.model.width.high=16",
    "execution.strategy='process'",
    "execution.workers=2",
    "execution.retries=0",
)


@pytest.mark.parametrize(
    ("number", "delay_s"),
    [
        (signal.SIGINT, 0.1),
        pytest.param(signal.SIGTERM, 0.5, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 1.0, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 2.0, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 1.0, marks=pytest.mark.slow),
    ],
)
def test_a_signal_to_every_process_fails_no_trial(
    number: int, delay_s: float, tmp_path: Path, compile_cache: Path
) -> None:
    """A terminal sends Ctrl-C to all processes, a batch system SIGTERM."""
    settings = (*SETTINGS, f"results.dir={tmp_path / 'run'}")
    overrides = [word for setting in settings for word in ("--set", setting)]
    arguments = ["run", str(STUDY), "--quiet", *overrides]

    process = start(tmp_path, compile_cache, arguments, own_group=True)
    while not descendants(process.pid):
        time.sleep(0.01)
    time.sleep(delay_s)
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + number, errors
    assert "Traceback" not in errors

    here = ["--set", "execution.workers=1"]
    finish(start(tmp_path, compile_cache, [*arguments, *here]))
    trials = open_results(tmp_path / "run").trials()
    assert set(trials["state"]) == {"COMPLETE"}
    assert set(trials["attempts"]) == {1}


# a command that gets Ctrl-C while it prints, and when only cleaning up is left
PRESSED = """\
import atexit, io, signal, sys

class Pressed(io.TextIOWrapper):
    def write(self, text):
        signal.raise_signal(signal.SIGINT)
        return super().write(text)

sys.stdout = Pressed(sys.stdout.detach(), encoding="utf-8")
atexit.register(signal.raise_signal, signal.SIGINT)
from sweeper.cli.main import main
main()
"""


def pressed(command: CommandLine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_code(PRESSED, *arguments, directory=command.directory)


def test_a_signal_after_the_end_of_a_run_does_nothing(command: CommandLine) -> None:
    command.write(SMALL)
    done = pressed(command, "run", "study.toml", "--quiet", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "finished"


def test_a_signal_while_an_answer_is_printed_does_not_change_it(command: CommandLine) -> None:
    done = pressed(command, "schema", "study")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_signal_in_user_code_is_not_an_error_of_it(command: CommandLine) -> None:
    code = "import signal\n\n\ndef loss(outputs, y):\n    signal.raise_signal(signal.SIGINT)\n"
    (command.directory / "own.py").write_text(code, encoding="utf-8")
    command.write(SMALL.replace('loss = "cross_entropy"', 'loss = "own:loss"\ntask = "classes"'))
    done = command("validate", "study.toml")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_script_that_ctrl_c_ends_leaves_its_study_interrupted(tmp_path: Path) -> None:
    """Its trial is not failed, and the next call resumes it, or says that it starts again."""
    config = study_in(tmp_path, SMALL, "study.n_trials=2")
    said: list[list[str]] = [[], []]
    for own, ended_by in zip(said, (StudyOpened, RoundClosed), strict=True):

        def interrupt(event: Event, own: list[str] = own, ended_by: type[Event] = ended_by) -> None:
            if isinstance(event, Warned):
                own.append(event.message)
            if isinstance(event, ended_by):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sweeper.run(config, observer=interrupt)
    assert ["no round was committed before; starting again" in own for own in said] == [False, True]

    assert read_status(RunDir(config.run_dir)).state == "interrupted"
    assert sweeper.run(config).state == "finished"
