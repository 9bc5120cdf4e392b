"""The threads of XLA that a study began with, for its results depend on how many there are."""

from __future__ import annotations

import os
from contextlib import closing, suppress

from sweeper.config import StudyConfig
from sweeper.config.kinds import MAX_XLA_THREADS
from sweeper.errors import SetupError, SweeperError, counted
from sweeper.executors.devices import XLA_THREADS
from sweeper.process import usable_cores
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.sweep.session import backup
from sweeper.sweep.session.reconcile import xla_threads


def kept_threads(config: StudyConfig, run_dir: RunDir, *, fresh: bool = False) -> int | None:
    """How many a study goes on with, or a trial is run again with; None for as many as cores.

    From a status, which is there before the first row, or else from the ledger, unless the study is
    to begin again; whether the number holds is told when the ledger is opened.
    """
    told = None if fresh else _recorded(run_dir)
    return told if told is not None or config.trial is None else config.trial.program.xla_threads


def _recorded(run_dir: RunDir) -> int | None:
    with suppress(SetupError):
        told = read_status(run_dir).xla_threads
        if told is None or (isinstance(told, int) and 1 <= told <= MAX_XLA_THREADS):
            return told
    with suppress(SweeperError), closing(backup.read(run_dir)) as ledger:
        return xla_threads(ledger.sessions())
    return None


def told_of_threads(config: StudyConfig, kept: int | None, own: int | None) -> str | None:
    """What is to be said of the threads that this process has, its `own`; None where nothing is.

    That it keeps to such beside more or fewer cores, or that a trial is run again with others. Of
    a study that goes on with others the rows are marked, which is told with all else that changed.
    """
    if kept is None or own is None:
        return None
    cores = usable_cores()
    if config.trial is not None:
        if own == kept:
            return None
        hint = f"run it in a process of its own, without {XLA_THREADS} in the environment"
        return (
            f"XLA has {counted(own, 'thread')} in this process, and had {kept} for this trial: its "
            f"last digits may differ; {hint}"
        )
    if own != kept or own == cores or XLA_THREADS in os.environ:
        return None
    return (
        f"XLA keeps to {counted(own, 'thread')}, as when the study began, beside "
        f"{counted(cores, 'core')}: rows stay the same so; {XLA_THREADS}={cores} in the "
        "environment takes one a core, and marks the rows from here on"
    )
