"""How often the whole program died during the open round: killed, crashed, without power.

A round that its session did not close counts one death, unless the session ended normally: with a
reported error, or after a second Ctrl-C. Each start records the number of deaths in the ledger; a
file notes that the last session ended normally.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from sweeper.faults import Fault
from sweeper.ledger import Ledger
from sweeper.rundir import RunDir, open_inside, read_json, remove_inside

# after this many, the buckets of the round train in workers, where the culprit fails alone
MAX_CRASHES = 2


def deaths_over(ledger: Ledger, run_dir: RunDir) -> dict[str, int | None]:
    """The open round, or None, and the deaths during it, in the form that a session records.

    Call this once per session, before its record is written.
    """
    left, opened = _who_left(run_dir), ledger.opened_round()
    if opened is None:
        return {"open_round": None, "deaths": 0}
    last, number = ledger.sessions()[-1], opened.round
    deaths = last["deaths"] if last.get("open_round") == number else 0
    if left != {"pid": last["pid"], "host": last["host"]}:
        deaths += 1
    return {"open_round": number, "deaths": deaths}


@contextmanager
def leaving_in_order(run_dir: RunDir, is_own: Callable[[], bool] = lambda: True) -> Generator[None]:
    """An error that ends this block does not count as a death of the program.

    Nothing is written if `run_dir` is not its own any more.
    """
    try:
        yield
    except Fault:  # a Fault stands for a death
        raise
    except BaseException:
        if is_own():
            note_left(run_dir)
        raise


def note_left(run_dir: RunDir) -> None:
    """Note that this process ends normally, whatever it was doing."""
    who = {"pid": os.getpid(), "host": socket.gethostname()}
    left = partial(open_inside, run_dir.root, run_dir.left, "w", encoding="utf-8")
    with suppress(OSError), left() as file:  # otherwise it counts as a death, which is harmless
        file.write(json.dumps(who))


def _who_left(run_dir: RunDir) -> Any:
    """The process that ended normally, returned once; None if the last one did not."""
    try:
        return read_json(run_dir.left)
    except (OSError, ValueError):
        return None
    finally:
        remove_inside(run_dir.root, run_dir.left)
