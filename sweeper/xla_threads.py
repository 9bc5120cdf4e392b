"""The threads of XLA that a study began with, for its results depend on how many there are."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TypeGuard

from sweeper.config import StudyConfig
from sweeper.errors import SetupError
from sweeper.ledger import remains
from sweeper.naming import counted
from sweeper.reconcile import xla_threads
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.worker import MOST_XLA_THREADS, XLA_THREADS, usable_cpus


def kept_threads(config: StudyConfig, run_dir: RunDir) -> int | None:
    """How many a study goes on with, or a trial is run again with; None for as many as cores.

    From a status, which is there before the first row, or else from the ledger as it lies there;
    whether the number holds is told when that is opened.
    """
    if config.trial is not None:
        return config.trial.program.xla_threads
    told: object = None
    with suppress(SetupError):
        told = read_status(run_dir).xla_threads
    if not _is_count(told) and run_dir.ledger.exists():
        sessions = remains(run_dir.ledger).sessions
        told = xla_threads([sessions[number] for number in sorted(sessions)])
    return told if _is_count(told) else None


def _is_count(told: object) -> TypeGuard[int]:
    return isinstance(told, int) and 1 <= told <= MOST_XLA_THREADS


def told_of_threads(kept: int | None, own: int | None) -> str | None:
    """That this process, which has its `own`, keeps to such threads beside more or fewer cores.

    None where that is not so.
    """
    cores = len(usable_cpus())
    if own is None or own != kept or own == cores or XLA_THREADS in os.environ:
        return None
    return (
        f"XLA keeps to {counted(own, 'thread')}, as when the study began, beside "
        f"{counted(cores, 'core')}: rows stay the same so; {XLA_THREADS}={cores} in the "
        "environment takes one a core, and marks the rows from here on"
    )
