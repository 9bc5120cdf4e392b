"""Run a study from a command, with a live view and an orderly stop on signals."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.cli.console import announce, console_on
from sweeper.cli.live import View, view_for
from sweeper.cli.logs import Level, log_events
from sweeper.data.ahead import preparing
from sweeper.executors.signals import INTERRUPTED, TERMINATING, not_ignored, stopping_on
from sweeper.process import take_program_start
from sweeper.results import formatting
from sweeper.results.missing_trials import none_complete
from sweeper.results.status import Status
from sweeper.results.timeline import Activity, Timeline
from sweeper.rundir import RunDir
from sweeper.sweep.exit_recorder import ExitRecorder

if TYPE_CHECKING:
    from sweeper.config import StudyConfig


def train_study(
    config: StudyConfig,
    *,
    fresh: bool = False,
    quiet: bool = False,
    plan_file: Path | None = None,
    continue_from: Path | None = None,
    trust_code: bool = False,
    learn_from: Sequence[str | Path] = (),
    log_file: Path | None = None,
    log_level: Level = "info",
) -> tuple[Status, int]:
    """Run or resume a study with a view of its progress; returns its status and the exit code.

    Raises:
        SweeperError: the study cannot start.
    """
    timeline = Timeline(take_program_start(), Activity.IMPORT)
    view = View() if quiet else view_for(console_on(sys.stderr), timeline)
    with ExitStack() as stack:
        # before the view, since a process with threads cannot be forked
        with nullcontext() if quiet else announce("starting"):
            from sweeper import api
            from sweeper.sweep.session.session import with_recorded_rules

            config = with_recorded_rules(config, fresh=fresh)
            prepared = stack.enter_context(preparing(config))
        stack.enter_context(view)
        observer = stack.enter_context(log_events(view, log_file, log_level))
        recorder = ExitRecorder(RunDir(config.run_dir.absolute()), observer)
        numbers = (signal.SIGINT, *not_ignored(TERMINATING))
        grace_s = config.execution.grace_s
        with stopping_on(numbers, view.say, recorder.record_exit, grace_s) as stopping:
            asked = api.RunOptions(fresh, plan_file, continue_from, trust_code, learn_from)
            status = api.run_prepared(config, prepared, asked, recorder, stopping.stop, timeline)
        return status, exit_code(status, stopping.number)


def exit_code(status: Status, number: int | None = None) -> int:
    """The exit code of a run that ended with `status`, stopped by the signal `number` if any."""
    if status.state == "interrupted":
        return INTERRUPTED if number is None else 128 + number
    return 0 if status.state == "finished" and status.counts.get("COMPLETE", 0) else 1


def refuse_none_complete(run_dir: RunDir, status: Status) -> None:
    """Say why a study that trained to its end has no result, if it has none.

    Raises:
        NoTrialError: none of its trials completed.
    """
    if status.state == "finished" and not status.counts.get("COMPLETE", 0):
        raise none_complete(run_dir, f"no trial completed ({formatting.states(status)})")
