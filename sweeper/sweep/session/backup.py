"""A copy of the ledger next to it: written at intervals, and restored when the user asks.

It is made by SQLite, and its chain is checked before it replaces the previous copy. A study that
resumes from it repeats the later training, with the same rows. Before it is restored, it is
compared with what can be read of the damaged ledger, else with the published rows, else with the
study file. If none of them can be compared, the copy is accepted.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from shlex import quote
from typing import Any

from sweeper.config import load
from sweeper.config.load import study_of
from sweeper.errors import (
    FRESH,
    DamagedLedgerError,
    LedgerError,
    Problem,
    StudyError,
    SweeperError,
    not_written,
)
from sweeper.faults import Step, fault_points
from sweeper.files import read_small, replacing
from sweeper.ledger import Ledger, Remains, check_file, read_remains
from sweeper.results.status import find_status
from sweeper.rundir import RunDir
from sweeper.sweep.session.reconcile import format_setting, reconcile
from sweeper.sweep.session.study_copy import OVERRIDE


def find_mismatch(run_dir: RunDir) -> str | None:
    """How the copy of the ledger turns out to be of another study; None if it does not."""
    copy, ledger = read_remains(run_dir.backup), read_remains(run_dir.ledger)
    if 1 not in copy.sessions:
        return None
    if 1 in ledger.sessions:  # the first session of the study
        is_same = ledger.sessions[1]["run_id"] == copy.sessions[1]["run_id"]
        return None if is_same else f"what can be read of {run_dir.ledger.name} is of another study"
    known = {session["run_id"] for session in copy.sessions.values()}
    published = {*_published(run_dir)}
    if known & {*published, _last(run_dir)}:
        return None
    # if it were of the same study, these trials would be among the published ones
    if published and copy.n_ended:
        return f"{run_dir.trials.name} is of another study"
    return _by_study_file(run_dir, copy)


def _published(run_dir: RunDir) -> Iterator[str]:
    """The sessions that wrote the published rows."""
    # Arrow is slow to import, and a study that starts does not need it here
    from sweeper.results.light import readable, texts

    table = readable(run_dir.trials, ["run_id"])
    if table is not None and len(table) and "run_id" in table.column_names:
        yield from texts(table["run_id"])[0]


def _last(run_dir: RunDir) -> str | None:
    """The last session of the study."""
    status = find_status(run_dir)
    return None if status is None else status.run_id


def _by_study_file(run_dir: RunDir, copy: Remains) -> str | None:
    try:
        text = read_small(run_dir.study_file)
        lines = takewhile(lambda line: line.startswith(OVERRIDE), text.splitlines())
        own = load(run_dir.study_file, [line.removeprefix(OVERRIDE) for line in lines])
        began = study_of(copy.sessions[1]["study"], run_dir.study_file)
    except (OSError, ValueError, KeyError, SweeperError):
        return None
    changes = reconcile(began.canonical(), own.as_begun(began.canonical()).canonical()).refused
    if not changes:
        return None
    first, name = changes[0], run_dir.study_file.name
    before, now = format_setting(first.before), format_setting(first.now)
    return f"its {first.key} is {before}, but that of {name} is {now}"


INTERVAL_S = 300.0
_SHARE = 0.05  # share of the wall time that copies may take


@dataclass(slots=True)
class Backups:
    """Copies the ledger of a run if the last copy is old enough."""

    run_dir: RunDir
    warn: Callable[[str], None]
    clock: Callable[[], float] = time.time
    _took_s: float = 0.0
    _has_warned: bool = False
    _failed_at: float = float("-inf")

    def after_round(self, ledger: Ledger) -> None:
        """Copy it, unless that was done or tried less than `INTERVAL_S` ago."""
        wait_s = max(INTERVAL_S, self._took_s / _SHARE)
        # if the clock was set back, do not wait for it
        if not 0 <= self.clock() - max(_written_at(self.run_dir), self._failed_at) < wait_s:
            self.now(ledger)

    def now(self, ledger: Ledger) -> None:
        """Copy it. If that fails, the study continues, and the last copy is kept."""
        began = time.perf_counter()
        try:
            back_up(self.run_dir, ledger)
        except (OSError, LedgerError) as error:
            if not self._has_warned:
                is_of_disk = isinstance(error, OSError)
                reason = not_written(self.run_dir.backup, error) if is_of_disk else error
                self.warn(f"the ledger is not backed up: {reason}")
            self._has_warned = True
            self._failed_at = self.clock()
        self._took_s = time.perf_counter() - began


def _written_at(run_dir: RunDir) -> float:
    try:
        return run_dir.backup.stat().st_mtime
    except OSError:
        return float("-inf")


def back_up(run_dir: RunDir, ledger: Ledger) -> None:
    """Replace the copy in `run_dir` by one of the current `ledger`.

    Raises:
        LedgerError, OSError: it cannot be written; the existing copy is kept.
    """
    with fault_points(Step.BACK_UP), replacing(run_dir.backup, run_dir.staging) as staged:
        ledger.copy(staged)


def open_ledger(run_dir: RunDir) -> Ledger:
    """Open the ledger of a run to resume it; an earlier version is copied, then migrated.

    Raises:
        DamagedLedgerError: it is missing or damaged; the message says how to restore the copy.
        LedgerError: it has a later version, or cannot be opened.
    """
    with _naming_copy(run_dir):
        return Ledger.open(run_dir.ledger, lambda old: back_up(run_dir, old))


def read(run_dir: RunDir) -> Ledger:
    """Open the ledger of a run read-only, without migrating it.

    Raises:
        LedgerError: as `open_ledger`.
    """
    with _naming_copy(run_dir):
        return Ledger.read(run_dir.ledger)


def sessions(run_dir: RunDir) -> list[dict[str, Any]]:
    """The records of a run's sessions; those of the copy if the ledger is damaged or in use.

    Empty if neither can be read.
    """
    for path in (run_dir.ledger, run_dir.backup):
        with suppress(LedgerError), closing(Ledger.read(path)) as ledger:
            return ledger.sessions()
    return []


def restore_backup(run_dir: RunDir) -> int:
    """Replace the ledger by the copy, and keep the damaged one next to it; returns its rounds.

    Raises:
        StudyError: the ledger is intact.
        DamagedLedgerError: the copy is damaged or missing, too.
        LedgerError: the copy is of another study.
    """
    try:
        Ledger.read(run_dir.ledger).close()
    except DamagedLedgerError:
        pass
    else:
        found = "the ledger is intact, so nothing needs to be restored"
        raise StudyError(Problem(str(run_dir.ledger), "--restore-ledger", found, ""))
    rounds = check_file(run_dir.backup)
    if strange := find_mismatch(run_dir):
        found, hint = f"it is of another study: {strange}", "restore this study's own copy"
        problem = Problem(str(run_dir.backup), "", found, f"{hint}, or start over with {FRESH}")
        raise LedgerError(problem)
    is_kept = run_dir.ledger.exists()
    for end in ("", "-wal", "-shm"):  # the log of the damaged ledger does not belong to the copy
        current, kept = (Path(f"{path}{end}") for path in (run_dir.ledger, run_dir.damaged))
        if is_kept:
            kept.unlink(missing_ok=True)
        if current.exists():
            current.replace(kept) if is_kept else current.unlink()
    with replacing(run_dir.ledger, run_dir.staging) as staged:
        shutil.copyfile(run_dir.backup, staged)
    return rounds


@contextmanager
def _naming_copy(run_dir: RunDir) -> Iterator[None]:
    """Say for a damaged ledger how to restore its copy, if that is intact and belongs to it."""
    try:
        yield
    except DamagedLedgerError as error:
        rounds = _rounds(run_dir)
        if rounds is None or find_mismatch(run_dir):
            raise
        hint = (
            f"restore {run_dir.backup.name}, which ends with round {rounds}: "
            f"python -m sweeper verify {quote(str(run_dir.root))} --restore-ledger"
        )
        raise DamagedLedgerError(replace(error.problems[0], hint=hint)) from error


def _rounds(run_dir: RunDir) -> int | None:
    """The closed rounds of the copy; None if there is none or it is damaged."""
    try:
        return check_file(run_dir.backup)
    except LedgerError:
        return None
