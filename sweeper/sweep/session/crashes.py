"""How often the whole program died over the round that is open: killed, crashed, without power.

A round that its session did not close counts one death, unless the session left in good order:
with an error that it told, or at a second Ctrl-C. A start records how many there were, in the
ledger; that the last session left in good order is noted in a file.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from sweeper.faults import Fault
from sweeper.ledger import Ledger
from sweeper.rundir import RunDir, open_inside, read_json, remove_inside

# after so many, the buckets of the round are trained in workers, where the culprit fails alone
MAX = 2


def deaths_over(ledger: Ledger, run_dir: RunDir) -> dict[str, int | None]:
    """The open round, None where there is none, and the deaths over it, as a session records them.

    To be asked once a session, before that is recorded.
    """
    left, number = _who_left(run_dir), ledger.opened_number()
    if number is None:
        return {"open_round": None, "deaths": 0}
    last = ledger.sessions()[-1]
    deaths = last["deaths"] if last.get("open_round") == number else 0
    if left != {"pid": last["pid"], "host": last["host"]}:
        deaths += 1
    return {"open_round": number, "deaths": deaths}


@contextmanager
def leaving_in_order(run_dir: RunDir) -> Generator[None]:
    """What ends this block by an error is no death of the program."""
    try:
        yield
    except Fault:  # which stands for one
        raise
    except BaseException:
        note_left(run_dir)
        raise


def note_left(run_dir: RunDir) -> None:
    """That this process leaves in good order, whatever it was doing."""
    who = {"pid": os.getpid(), "host": socket.gethostname()}
    left = partial(open_inside, run_dir.root, run_dir.left, "w", encoding="utf-8")
    with suppress(OSError), left() as file:  # else it counts as a death, which does no harm
        file.write(json.dumps(who))


def _who_left(run_dir: RunDir) -> Any:
    """The process that left in good order, told once; None where the last one did not."""
    try:
        return read_json(run_dir.left)
    except (OSError, ValueError):
        return None
    finally:
        remove_inside(run_dir.root, run_dir.left)
