"""How commands train: with a live view, and an end in good order at Ctrl-C."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.console import console_on
from sweeper.data.ahead import preparing
from sweeper.deaths import note_left
from sweeper.interrupts import INTERRUPTED, interruptible
from sweeper.live import QuietView, View, view_for
from sweeper.logs import Level, logged
from sweeper.results.status import Status
from sweeper.rundir import RunDir
from sweeper.teardown import take_program_start
from sweeper.timeline import Activity, Timeline

if TYPE_CHECKING:
    from sweeper.config import StudyConfig


def trained(
    config: StudyConfig,
    *,
    fresh: bool = False,
    quiet: bool = False,
    plan_file: Path | None = None,
    continue_from: Path | None = None,
    log_file: Path | None = None,
    log_level: Level = "info",
) -> Status:
    """Run a study, or go on with it, and show how; gives how it stands then.

    Raises:
        SweeperError: it cannot start.
    """
    timeline = Timeline(take_program_start(), Activity.IMPORT)
    view: View = QuietView() if quiet else view_for(console_on(sys.stderr), timeline.started_at)
    from sweeper import api
    from sweeper.session import with_recorded_edition

    config = with_recorded_edition(config, fresh=fresh)
    # before the view, for a process with threads cannot be forked
    with preparing(config) as prepared, view:
        leave = partial(note_left, RunDir(config.run_dir.absolute()))
        with (
            interruptible(view.say, leave) as stop,
            logged(view, log_file, log_level) as observer,
        ):
            return api.run_prepared(
                config,
                prepared,
                fresh=fresh,
                plan_file=plan_file,
                continue_from=continue_from,
                observer=observer,
                stop=stop,
                timeline=timeline,
            )


def exit_code(status: Status) -> int:
    """What a run that ended as `status` says ends the program with."""
    if status.state == "interrupted":
        return INTERRUPTED
    return 0 if status.state == "finished" and status.counts.get("COMPLETE", 0) else 1
