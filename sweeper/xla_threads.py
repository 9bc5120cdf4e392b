"""The threads of XLA that a study began with, for its results depend on how many there are."""

from __future__ import annotations

import os
from contextlib import suppress

from sweeper.config import StudyConfig
from sweeper.errors import SetupError
from sweeper.naming import counted
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.worker import XLA_THREADS, usable_cpus


def kept_threads(config: StudyConfig, run_dir: RunDir) -> int | None:
    """How many a study goes on with, or a trial is run again with; None for as many as cores.

    From a status, which is there before the first row; whether it holds tells the ledger later.
    """
    if config.trial is not None:
        return config.trial.program.xla_threads
    with suppress(SetupError):
        return read_status(run_dir).xla_threads
    return None


def told_of_threads(kept: int | None) -> str | None:
    """That there are more or fewer cores than such threads; None where that is not so."""
    cores = len(usable_cpus())
    if kept in (None, cores) or XLA_THREADS in os.environ:
        return None
    return (
        f"XLA keeps to {counted(kept, 'thread')}, as when the study began, beside "
        f"{counted(cores, 'core')}: rows stay the same so; {XLA_THREADS}={cores} in the "
        "environment takes one a core, and marks the rows from here on"
    )
