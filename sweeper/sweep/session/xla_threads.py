"""The number of XLA threads that a study began with, since its results depend on it."""

from __future__ import annotations

import os

from sweeper.config import StudyConfig
from sweeper.config.kinds import MAX_XLA_THREADS
from sweeper.errors import counted
from sweeper.executors.devices import XLA_THREADS
from sweeper.process import usable_cores
from sweeper.results.status import find_status
from sweeper.rundir import RunDir
from sweeper.sweep.session import backup
from sweeper.sweep.session.reconcile import xla_threads


def kept_threads(config: StudyConfig, run_dir: RunDir, *, fresh: bool = False) -> int | None:
    """The number to resume a study or repeat a trial with; None for one per core.

    It comes from a status, which exists before the first row, or else from the ledger, unless the
    study starts again. It is checked when the ledger is opened.
    """
    threads = None if fresh else _recorded(run_dir)
    if threads is None and config.trial is not None:
        return config.trial.program.xla_threads
    return threads


def _recorded(run_dir: RunDir) -> int | None:
    if (status := find_status(run_dir)) is not None:
        threads = status.xla_threads
        if threads is None or (isinstance(threads, int) and 1 <= threads <= MAX_XLA_THREADS):
            return threads
    return xla_threads(backup.sessions(run_dir))


def threads_message(config: StudyConfig, kept: int | None, own: int | None) -> str | None:
    """A message about the number of threads of this process, its `own`; None if there is none.

    The message says that it keeps this number despite more or fewer cores, or that a trial is
    repeated with another. Rows of a study that resumes with another number are marked, which is
    reported with all other changes.
    """
    if kept is None or own is None:
        return None
    cores = usable_cores()
    if config.trial is not None:
        if own == kept:
            return None
        hint = f"run it in a separate process, without {XLA_THREADS} in the environment"
        return (
            f"XLA has {counted(own, 'thread')} in this process, but had {kept} for this trial: its "
            f"last digits may differ; {hint}"
        )
    if own != kept or own == cores or XLA_THREADS in os.environ:
        return None
    return (
        f"XLA keeps {counted(own, 'thread')}, as when the study began, on "
        f"{counted(cores, 'core')}, so that rows stay the same; set {XLA_THREADS}={cores} in the "
        "environment to use one per core, which marks the rows from here on"
    )
