"""`sweeper.command` leaves the process of its caller as it was."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sweeper
from tests.command_line import STUDY
from tests.in_process import study_in

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def state() -> tuple[object, ...]:
    """What is of the whole process, but for JAX's settings, which are compared after each test."""
    handlers = [signal.getsignal(number) for number in HANDLED]
    hooks = sys.excepthook, sys.unraisablehook
    return handlers, hooks, [*warnings.filters], [*sys.path], dict(os.environ), Path.cwd()


def test_signals_warnings_and_hooks_are_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study_in(tmp_path, STUDY)

    def run(name: str) -> None:
        settings = ["study.n_trials=2", f"results.dir={tmp_path / name}"]
        given = [word for setting in settings for word in ("--set", setting)]
        sweeper.command("run", "study.toml", "--quiet", *given)

    run("first")  # imports of libraries add filters of warnings
    before = state()
    run("second")
    assert state() == before


def test_a_command_in_another_thread_handles_no_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study_in(tmp_path, STUDY)
    run = f"results.dir={tmp_path / 'run'}"
    arguments = ("run", "study.toml", "--quiet", "--set", "study.n_trials=2", "--set", run)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(sweeper.command, *arguments).result()
    assert sweeper.open_results(tmp_path / "run").state == "finished"
