"""Makes the run directory of a study that was killed after its fourth round.

    PYTHONPATH=CHECKOUT python tests/golden/make.py RUN_DIR

with a checkout of the version: of `version-1` that was c81ff98, of `version-2` d43b141. Of the
directory `ledger.db`, without the log beside it, checkpoints, metrics, models and JSON were kept.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import sweeper
from sweeper.results.events import Event, RoundClosed

ROUNDS = 4


def run(run_dir: Path) -> None:
    """The study, until it is killed."""

    def watch(event: Event) -> None:
        if isinstance(event, RoundClosed) and event.status.round == ROUNDS:
            os.kill(os.getpid(), signal.SIGKILL)

    study = Path(__file__).with_name("study.toml")
    sweeper.run(sweeper.load_study(study, [f"results.dir={run_dir}"]), observer=watch)


def make(run_dir: Path) -> None:
    """The same in a process of its own; then the log of its ledger is put into the ledger."""
    subprocess.run([sys.executable, __file__, str(run_dir), "run"], check=False)
    with closing(sqlite3.connect(run_dir / "ledger.db")) as db:
        db.execute("PRAGMA journal_mode=DELETE")


if __name__ == "__main__":
    (run if sys.argv[2:] else make)(Path(sys.argv[1]))
