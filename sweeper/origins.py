"""Whether the copy of a ledger is of the study in whose directory it lies.

Whoever copies files about may have put there that of another one. First what can be read of the
damaged ledger is asked, then the published rows, then the study file, until one of them tells.
Where none does, the copy is believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from sweeper.config import load
from sweeper.config.recorded import study_of
from sweeper.errors import SweeperError
from sweeper.ledger import Remains, remains
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.small_files import read_small
from sweeper.sweep.session.reconcile import reconcile, shown
from sweeper.sweep.session.study_copy import OVERRIDE


def strangeness(run_dir: RunDir) -> str | None:
    """What tells that the copy of the ledger is of another study; None where nothing does."""
    copy, ledger = remains(run_dir.backup), remains(run_dir.ledger)
    if 1 not in copy.sessions:
        return None
    if 1 in ledger.sessions:  # the session that the study began with
        is_same = ledger.sessions[1]["run_id"] == copy.sessions[1]["run_id"]
        return None if is_same else f"what can be read of {run_dir.ledger.name} tells another study"
    known = {session["run_id"] for session in copy.sessions.values()}
    published = {*_published(run_dir)}
    if known & {*published, _last(run_dir)}:
        return None
    # of its own study, those trials would be among the published ones
    if published and copy.n_ended:
        return f"{run_dir.trials.name} tells another study"
    return _by_study_file(run_dir, copy)


def _published(run_dir: RunDir) -> Iterator[str]:
    """The sessions that the published rows are from."""
    # Arrow takes long to import, and a study that starts asks nothing of it here
    from sweeper.results.light import readable, texts

    table = readable(run_dir.trials, ["run_id"])
    if table is not None and len(table) and "run_id" in table.column_names:
        yield from texts(table["run_id"])[0]


def _last(run_dir: RunDir) -> str | None:
    """The last session of the study."""
    try:
        return read_status(run_dir).run_id
    except SweeperError:
        return None


def _by_study_file(run_dir: RunDir, copy: Remains) -> str | None:
    try:
        text = read_small(run_dir.study_file)
        lines = takewhile(lambda line: line.startswith(OVERRIDE), text.splitlines())
        own = load(run_dir.study_file, [line.removeprefix(OVERRIDE) for line in lines])
        began = study_of(copy.sessions[1]["study"], run_dir.study_file)
    except (OSError, ValueError, KeyError, SweeperError):
        return None
    changes = reconcile(began.canonical(), own.under(began.edition).canonical()).refused
    if not changes:
        return None
    first, name = changes[0], run_dir.study_file.name
    return f"its {first.key} is {shown(first.before)}, and that of {name} {shown(first.now)}"
