"""How often the whole program crashed during the open round: killed, or without power.

A round that its session did not close counts one crash, unless the session ended normally: with a
reported error, or after a second Ctrl-C. Each start records the number of crashes in the ledger; a
file notes that the last session ended normally.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from sweeper.faults import Fault
from sweeper.files import open_inside, read_json, remove_inside
from sweeper.ledger import Ledger
from sweeper.rundir import RunDir

# after this many, the buckets of the round train in workers, where the culprit fails alone
MAX_CRASHES = 2

_recorded: set[Path] = set()  # the run directories in which this process has recorded a session


def count_crashes(ledger: Ledger, run_dir: RunDir) -> dict[str, int | None]:
    """The open round, or None, and the crashes during it, in the form that a session records.

    Call this before the record of the session is written, and `forget_normal_end` after that.
    """
    left, opened = _normal_end(run_dir), ledger.opened_round()
    if opened is None:
        return {"open_round": None, "deaths": 0}
    last, number = ledger.sessions()[-1], opened.round
    crashes = last["deaths"] if last.get("open_round") == number else 0
    if left != {"pid": last["pid"], "host": last["host"]}:
        crashes += 1
    return {"open_round": number, "deaths": crashes}


@contextmanager
def note_normal_end(run_dir: RunDir, is_own: Callable[[], bool] = lambda: True) -> Generator[None]:
    """Note a normal end if an error ends this block, so that it does not count as a crash.

    Nothing is written if `run_dir` is not its own any more.
    """
    try:
        yield
    except Fault:  # a Fault stands for a death
        raise
    except BaseException:
        if is_own():
            write_normal_end(run_dir)
        raise


def write_normal_end(run_dir: RunDir) -> None:
    """Note that this process ends normally, whatever it was doing."""
    who = {"pid": os.getpid(), "host": socket.gethostname()}
    left = partial(open_inside, run_dir.root, run_dir.exit_note, "w", encoding="utf-8")
    with suppress(OSError), left() as file:  # otherwise it counts as a crash, which is harmless
        file.write(json.dumps(who))


def forget_normal_end(run_dir: RunDir) -> None:
    """Remove the note of a normal end, once this process has recorded a session that read it."""
    remove_inside(run_dir.root, run_dir.exit_note)
    _recorded.add(run_dir.root.resolve())


def has_recorded_session(run_dir: RunDir) -> bool:
    """Whether this process has recorded a session; otherwise, the note is that of another one."""
    return run_dir.root.resolve() in _recorded


def _normal_end(run_dir: RunDir) -> Any:
    """The process that noted its normal end; None if the last one did not."""
    try:
        return read_json(run_dir.exit_note)
    except (OSError, ValueError):
        return None
