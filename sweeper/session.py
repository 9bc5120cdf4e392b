"""One start of the program on a run directory: its lock, its ledger, its place in the study."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sweeper import backup
from sweeper.config import StudyConfig
from sweeper.deaths import deaths_over, leaving_in_order
from sweeper.errors import Problem, SetupError, StudyError, StudyHeldError, not_written
from sweeper.faults import Step, fault_points
from sweeper.ledger import Ledger
from sweeper.reconcile import Change, code_of, departures, joined, mark_of
from sweeper.results.replace import replacing
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.scheduler.forecast import Forecast
from sweeper.study_copy import copy_study

# of what stands in the way of a new directory, what another name would not mend
_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


@dataclass(frozen=True, slots=True)
class Session:
    """A run directory that this process holds, and the ledger in it.

    `boundaries` are the settings, libraries and flags that changed since the study began in a way
    that keeps it valid but no longer equal to an unbroken run; rows from here on have the `mark` of
    all that ever did. `largest_n_trials` is the most it was ever asked for, `forecast` the recorded
    one: a study is planned once. `deaths` are those over the open round.
    """

    run_id: str
    run_dir: RunDir
    ledger: Ledger
    boundaries: tuple[Change, ...]
    mark: str | None
    largest_n_trials: int
    forecast: Forecast
    deaths: int = 0


Foresee = Callable[[Forecast | None], Forecast]
"""The forecast to go by, from the one that the study has recorded, if it has."""


@contextmanager
def opened(
    config: StudyConfig,
    data_digest: str,
    foresee: Foresee,
    environment: Mapping[str, str],
    *,
    fresh: bool = False,
    start: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """The session of a study, which is its own until the block ends.

    `environment` is what its results depend on beside the study, by name. `start` has path and
    digest of the saved model that its trials start from, if they do.

    Raises:
        StudyError: the directory holds a study that this file cannot go on with.
        StudyHeldError: another process runs it.
        SetupError: the directory cannot be written, or the ledger is damaged.
    """
    run_dir = RunDir(config.run_dir)
    check_directory(config, run_dir, fresh=fresh)
    # what refuses a new study does so before a file of it is written, or an old one is moved
    foreseen = foresee(None) if fresh or not run_dir.ledger.exists() else None
    with _refusing(run_dir):
        _make(config, run_dir)
        if fresh:
            _move_aside(run_dir)
            _make(config, run_dir)
    with _refusing(run_dir), held(run_dir):
        _clear(run_dir.staging)  # what a crash left half-written
        if not run_dir.ledger.exists():
            # A ledger appears with its tables or not at all: an empty one is always a damaged one.
            with (
                fault_points(Step.CREATE_LEDGER),
                replacing(run_dir.ledger, run_dir.staging) as staged,
            ):
                Ledger.create(staged).close()
        ledger = backup.opened(run_dir)
        try:
            sessions = ledger.sessions()
            boundaries = joined(config, sessions, data_digest, start)
            boundaries += _departures(ledger, sessions, environment)
            recorded = _recorded_forecast(ledger)
            forecast = foreseen if foreseen and recorded is None else foresee(recorded)
            if recorded is not None and forecast != recorded:
                boundaries += (Change("the lattice", "as it was planned", "another"),)
            run_id = uuid.uuid4().hex[:12]
            record = _record(config, data_digest, run_id, boundaries, forecast, start, environment)
            record |= deaths_over(ledger, run_dir)
            with fault_points(Step.ADD_SESSION):
                ledger.add_session(record)
            if start is not None and not run_dir.started_from.exists():
                with replacing(run_dir.started_from, run_dir.staging) as staged:
                    shutil.copyfile(start["path"], staged)
            copy_study(run_dir, config)
            sizes = (past["study"]["study"]["n_trials"] for past in ledger.sessions())
            mark = mark_of(ledger.sessions())
            found = boundaries, mark, max(sizes), forecast, record["deaths"]
            with leaving_in_order(run_dir):
                yield Session(run_id, run_dir, ledger, *found)
        finally:
            ledger.close()


def check(config: StudyConfig, data_digest: str | None) -> None:
    """Refuse what `opened` would refuse, and write nothing; None where nobody read the data.

    Raises:
        SweeperError: as `opened`.
    """
    run_dir = RunDir(config.run_dir)
    check_directory(config, run_dir)
    if run_dir.ledger.exists():
        with held(run_dir), closing(backup.read(run_dir)) as ledger:
            joined(config, ledger.sessions(), data_digest, None, asks_start=False)


def check_directory(config: StudyConfig, run_dir: RunDir, *, fresh: bool = False) -> None:
    """Refuse a directory that cannot be written, or in which something stands that is not a study.

    Raises:
        SetupError: it, or what is to hold it, is no directory that this user may write to.
        DamagedLedgerError: its ledger is gone, and the copy is there.
        StudyError: it has files, but no ledger.
    """
    try:
        place = next(path for path in (run_dir.root, *run_dir.root.parents) if path.exists())
    except OSError as error:  # a name that is longer than the system has names
        told = f"{run_dir.root}: {error.strerror}"
        raise SetupError(_unwritable(config, told)) from error
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise SetupError(_unwritable(config, run_dir.root))
    if run_dir.ledger.exists() or not run_dir.root.exists():
        return
    if run_dir.backup.exists():
        if not fresh:
            backup.read(run_dir)
        return
    ours = {".staging", "metrics", "checkpoints", "models", "logs", run_dir.lock.name}
    strange = sorted(path.name for path in run_dir.root.iterdir() if path.name not in ours)
    if strange:
        raise StudyError(
            config.problem(
                "results.dir",
                f"{run_dir.root} holds {strange[0]!r} and no ledger",
                "name a directory that is empty or does not exist yet",
            )
        )


def _make(config: StudyConfig, run_dir: RunDir) -> None:
    try:
        with fault_points(Step.MAKE_DIRECTORY):
            run_dir.make()
    except OSError as error:
        if error.errno in _OF_THE_MACHINE:
            raise
        told = f"{error.filename}: {error.strerror}"
        raise SetupError(_unwritable(config, told)) from error


def _clear(directory: Path) -> None:
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def _refusing(run_dir: RunDir) -> Iterator[None]:
    """Say what the disk has against a file of the run directory."""
    try:
        yield
    except OSError as error:
        raise SetupError(not_written(run_dir.root, error)) from error


def _unwritable(config: StudyConfig, place: Path | str) -> Problem:
    mend = "name a directory that you may write to"
    return config.problem("results.dir", f"cannot write to {place}", mend)


@contextmanager
def held(run_dir: RunDir) -> Iterator[None]:
    """The lock of a run directory; the system lets go of it when the process ends, however.

    Raises:
        StudyHeldError: another process has it.
    """
    try:
        with FileLock(run_dir.lock, timeout=0):
            yield
    except Timeout:
        raise StudyHeldError(
            Problem(
                str(run_dir.root),
                "",
                f"another process runs this study{_owner(run_dir)}",
                "wait for it, or end it",
            )
        ) from None


def _owner(run_dir: RunDir) -> str:
    try:
        status = read_status(run_dir)
    except SetupError:
        return ""  # it has only just started
    if status.state != "running":
        return ""  # the same, and this is the status of the process before it
    return f" (pid {status.pid} on {status.host})"


def _move_aside(run_dir: RunDir) -> None:
    """Rename the directory of a study for the time, in one step, while nobody else runs it."""
    if run_dir.ledger.exists() or run_dir.backup.exists():
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        with held(run_dir):
            run_dir.root.rename(run_dir.root.with_name(f"{run_dir.root.name}.{stamp}"))


def _departures(
    ledger: Ledger, sessions: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> tuple[Change, ...]:
    """What of libraries, device, flags and ledger is not what it was when the study began."""
    if not sessions:
        return ()
    began = sessions[0]
    changes = departures(began.get("environment", began.get("versions", {})), environment)
    if ledger.began_as != ledger.version:
        changes += (Change("the ledger's version", ledger.began_as, ledger.version),)
    return changes


def _recorded_forecast(ledger: Ledger) -> Forecast | None:
    sessions = ledger.sessions()
    return Forecast.from_dict(sessions[-1]["forecast"]) if sessions else None


def _record(
    config: StudyConfig,
    data_digest: str,
    run_id: str,
    boundaries: tuple[Change, ...],
    forecast: Forecast,
    start: Mapping[str, str] | None,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "study": config.canonical(),
        "study_file": str(config.source.path.absolute()),
        "data_digest": data_digest,
        "code": code_of(config),
        "continued_from": start,
        "boundaries": [asdict(change) for change in boundaries],
        "forecast": forecast.as_dict(),
        "started_at": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "directory": str(Path.cwd()),
        "environment": dict(environment),
    }
