"""`sweeper.command` leaves the process of its caller as it was."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

import sweeper
from tests.command_line import STUDY
from tests.in_process import study_in

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def test_signals_are_handled_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study_in(tmp_path, STUDY)
    before = [signal.getsignal(number) for number in HANDLED], sys.unraisablehook
    run = f"results.dir={tmp_path / 'run'}"

    sweeper.command("run", "study.toml", "--quiet", "--set", "study.n_trials=2", "--set", run)

    assert ([signal.getsignal(number) for number in HANDLED], sys.unraisablehook) == before
