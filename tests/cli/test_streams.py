"""Standard streams that are closed or on a full disk, and a directory that is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

import sweeper
from sweeper.cli.console import answers, answers_alone
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from tests.command_line import CommandLine, settings
from tests.in_process import study_in, trained
from tests.processes import ROOT
from tests.small_studies import DIGITS

FULL = "/dev/full"


def shell(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """The result of `sweeper` with these arguments and shell redirections."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = f"'{sys.executable}' -m sweeper {command}"
    return subprocess.run(
        words, shell=True, cwd=directory, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_change_no_exit_code(closed: str, tmp_path: Path) -> None:
    assert shell(f"--version {closed}", tmp_path).returncode == 0
    assert shell(f"status {tmp_path} {closed}", tmp_path).returncode == 3


def test_a_question_that_nobody_can_answer_is_answered_no(tmp_path: Path) -> None:
    trained(study_in(tmp_path, DIGITS))
    done = shell("delete run <&-", tmp_path)
    assert done.returncode == 2
    assert "nobody confirmed this; use --yes to delete it without being asked" in done.stderr
    assert (tmp_path / "run" / "ledger.db").exists()


def test_a_guide_is_printed_in_an_encoding_that_lacks_its_characters(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    words = [sys.executable, "-m", "sweeper", "guide", "results"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


def test_a_full_disk_for_progress_does_not_stop_a_study(
    command: CommandLine, tmp_path: Path
) -> None:
    command.write()
    done = shell(f"run study.toml 2> {FULL}", tmp_path)
    assert done.returncode == 0
    assert read_status(RunDir(tmp_path / "runs" / "wine")).state == "finished"


def test_a_full_disk_for_results_is_reported(tmp_path: Path) -> None:
    done = shell(f"schema study > {FULL}", tmp_path)
    assert done.returncode == 3
    assert done.stderr == "No space left on device; free some disk space, then try again\n"


def test_nothing_starts_without_a_current_directory(tmp_path: Path) -> None:
    gone, words = tmp_path / "gone", f"'{sys.executable}' -m sweeper status"
    gone.mkdir()
    done = subprocess.run(
        f"rmdir ../gone; {words}",
        shell=True,
        cwd=gone,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert "change into another directory" in done.stderr


NETS = """\
import equinox as eqx

print("imported")


def build(in_size, out_size, key):
    print("built")
    return Net(eqx.nn.Linear(in_size, out_size, key=key))


class Net(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, x):
        print("called", x.shape)
        return self.linear(x)


def tops(outputs, y):
    print("measured")
    return (outputs.argmax(axis=1) == y).mean()
"""
MODEL = ("model={kind='python',function='nets:build'}", "train.metrics=['nets:tops']", "search={}")


def test_what_user_code_prints_is_not_in_the_answer(command: CommandLine) -> None:
    (command.directory / "nets.py").write_text(NETS, encoding="utf-8")
    command.write()
    overrides = settings(*MODEL, "study.n_trials=1", "optimizer.lr=1e-3", "execution.workers=0")
    for name, *words in (
        ["validate", "study.toml", *overrides, "--json"],
        ["plan", "study.toml", *overrides, "--json"],
        ["run", "study.toml", *overrides, "--json"],
        ["reproduce", "runs/wine", "0", "--json"],
    ):
        done = command(name, *words)
        assert done.returncode == 0, done.stderr
        assert isinstance(json.loads(done.stdout), dict)
        assert "called (13,)" in done.stderr
    done = command("export", "runs/wine", "0", "--to", "best")
    assert done.stdout.startswith("trial 0, described in best/README.md, was written to best\n")
    (command.directory / "new.csv").write_text(
        ",".join(sweeper.load(command.directory / "best", base_dir=command.directory).feature_names)
        + "\n"
        + ",".join(["1.0"] * 13)
        + "\n",
        encoding="utf-8",
    )
    done = command("predict", "best", "new.csv")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2), done.stderr


def test_a_command_in_another_thread_leaves_standard_output_to_the_program() -> None:
    started, may_end = Event(), Event()

    def other() -> None:
        with answers_alone():
            started.set()
            may_end.wait(timeout=30)

    usual = sys.stdout
    thread = Thread(target=other)
    thread.start()
    assert started.wait(timeout=30)
    assert sys.stdout is usual
    with answers_alone():
        may_end.set()
        thread.join()
        assert (sys.stdout, answers()) == (sys.stderr, usual)
    assert (sys.stdout, answers()) == (usual, usual)
