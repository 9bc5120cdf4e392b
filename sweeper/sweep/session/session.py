"""A session: one start of the program on a run directory, with its lock and its ledger."""

from __future__ import annotations

import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.errors import SetupError, SweeperError, not_written
from sweeper.faults import Step, fault_points
from sweeper.ledger import Ledger
from sweeper.results.events import is_of_observer
from sweeper.rundir import RunDir, replacing
from sweeper.scheduler.forecast import Forecast
from sweeper.study.learning import Learned, learn, refuse_other
from sweeper.sweep.session import backup
from sweeper.sweep.session.crashes import count_crashes, note_normal_end
from sweeper.sweep.session.directory import check_directory, clear_staging, make, move_aside
from sweeper.sweep.session.lock import hold
from sweeper.sweep.session.ownership import signed
from sweeper.sweep.session.reconcile import (
    Change,
    Weights,
    check_resume,
    code_of,
    describe_changes,
    environment_changes,
)
from sweeper.sweep.session.study_copy import copy_study
from sweeper.trial import fields_of

KEEPS_CANDIDATES = "keeps_candidates"
"""Whether a session keeps the models of all trials that may be among the best until it finishes."""


@dataclass(frozen=True, slots=True)
class Session:
    """A run directory that this process holds, and its ledger.

    `boundaries` are settings, libraries and flags that have changed since the study began, in ways
    that keep it valid but not equal to an unbroken run; rows from here on have the `mark` of all
    changes so far. `largest_n_trials` is the highest number that was ever requested, `forecast` the
    recorded one, since a study is planned once. `crashes` are those during the open round.
    `moved_to` is where an old run directory is now, if the study started over. `learned` are the
    trials of earlier studies that it learns from.
    """

    run_id: str
    run_dir: RunDir
    ledger: Ledger
    boundaries: tuple[Change, ...]
    mark: str | None
    largest_n_trials: int
    forecast: Forecast
    crashes: int = 0
    moved_to: Path | None = None
    learned: Learned = field(default_factory=Learned)


ForecastMaker = Callable[[Forecast | None], Forecast]
"""The forecast to use, from the recorded one, if there is one."""


@contextmanager
def open_session(
    config: StudyConfig,
    data_digest: str,
    make_forecast: ForecastMaker,
    environment: Mapping[str, str],
    *,
    fresh: bool = False,
    start: Mapping[str, str] | None = None,
    weights: Weights | None = None,
    learn_from: Sequence[str | Path] = (),
) -> Iterator[Session]:
    """The session of a study, held until the block ends.

    `environment` is what results depend on besides the study, by name. `start` has path and digest
    of the saved model that trials start from, if any; `weights` are as for `check_resume`.
    `learn_from` are earlier studies for a new one to learn from.

    Raises:
        StudyError: the directory contains a study that this file cannot resume.
        StudyHeldError: another process runs it.
        SetupError: the directory cannot be written, or the ledger is damaged.
    """
    run_dir = RunDir(config.run_dir)
    check_directory(config, run_dir, fresh=fresh)
    # checks that refuse a new study come before any file is written, or an old one is moved
    is_new = fresh or not run_dir.ledger.exists()
    new_forecast = make_forecast(None) if is_new else None
    learned = learn(config, learn_from) if is_new else None
    rows = _rows_to_keep(config, run_dir)
    with _refusing(run_dir):
        moved_to = move_aside(run_dir) if fresh else None
        make(config, run_dir)
        if moved_to is not None and rows is not None and rows == run_dir.rows:
            rows = moved_to / rows.name
    with _refusing(run_dir), hold(run_dir):
        clear_staging(run_dir)
        if not run_dir.ledger.exists():
            _create_ledger(run_dir)
        ledger = backup.open_ledger(run_dir)
        try:
            sessions = ledger.sessions()
            boundaries = check_resume(config, sessions, data_digest, start, weights=weights)
            boundaries += _changes_since_start(ledger, sessions, environment)
            if sessions:
                learned = Learned.from_dict(ledger.learned())
                refuse_other(run_dir, learned, learn_from)
            elif learned is None:  # a crash has left an empty ledger
                learned = learn(config, learn_from)
            recorded = Forecast.from_dict(sessions[-1]["forecast"]) if sessions else None
            if recorded is None and new_forecast is not None:
                forecast = new_forecast
            else:
                forecast = make_forecast(recorded)
            if recorded is not None and forecast != recorded:
                boundaries += (Change("the lattice", "as it was planned", "another"),)
            run_id = uuid.uuid4().hex[:12]
            record = _record(config, data_digest, run_id, boundaries, forecast, start, environment)
            record |= count_crashes(ledger, run_dir)
            if rows is not None and not (sessions and run_dir.rows.exists()):
                _copy(rows, run_dir.rows, run_dir)
            if config.rows is not None:
                config.rows.forget()
            if rows is not None:
                record["rows"] = run_dir.rows.name
            if weights is not None:
                record["fixed_start"] = weights
            with fault_points(Step.ADD_SESSION):
                is_learning = not sessions and learned is not None and learned.sources
                ledger.add_session(record, fields_of(learned) if is_learning else None)
            if start is not None and not run_dir.started_from.exists():
                _copy(Path(start["path"]), run_dir.started_from, run_dir)
            copy_study(run_dir, config)
            sizes = (past["study"]["study"]["n_trials"] for past in ledger.sessions())
            lasting = RunDir(run_dir.root.absolute())  # user code may change the directory
            session = Session(
                run_id=run_id,
                run_dir=lasting,
                ledger=ledger,
                boundaries=boundaries,
                mark=describe_changes(ledger.sessions()),
                largest_n_trials=max(sizes),
                forecast=forecast,
                crashes=record["deaths"],
                moved_to=moved_to,
                learned=learned or Learned(),
            )
            with note_normal_end(lasting, lambda: not ledger.file.is_replaced):
                yield session
        finally:
            ledger.close()


def _create_ledger(run_dir: RunDir) -> None:
    """Create the ledger with its tables at once: an empty ledger is always a damaged one."""
    with fault_points(Step.CREATE_LEDGER), replacing(run_dir.ledger, run_dir.staging) as staged:
        Ledger.create(staged).close()


def _copy(source: Path, target: Path, run_dir: RunDir) -> None:
    with replacing(target, run_dir.staging) as staged:
        shutil.copyfile(source, staged)


def _rows_to_keep(config: StudyConfig, run_dir: RunDir) -> Path | None:
    """The rows to write into the run directory: those in memory, or those that are there.

    The latter are moved aside with the study, if it starts over with its own copy of the file.
    """
    if config.rows is not None:
        return config.rows.file
    is_there = config.base_dir == run_dir.root.absolute() and run_dir.rows.is_file()
    return run_dir.rows if is_there else None


def check(config: StudyConfig, data_digest: str | None, weights: Weights | None = None) -> None:
    """Refuse what `open_session` would refuse, without writing.

    `data_digest` is None if the data was not read, `weights` if no model was built.

    Raises:
        SweeperError: as `open_session`.
    """
    run_dir = RunDir(config.run_dir)
    check_directory(config, run_dir)
    if run_dir.ledger.exists():
        with hold(run_dir), closing(backup.read(run_dir)) as ledger:
            past = ledger.sessions()
            check_resume(config, past, data_digest, None, asks_start=False, weights=weights)


def with_recorded_rules(config: StudyConfig, *, fresh: bool = False) -> StudyConfig:
    """The study under the rules that it began with, or today's if it is new or `fresh`.

    They are checked again when the ledger is opened.
    """
    run_dir = RunDir(config.run_dir)
    with suppress(OSError):  # an impossible path is refused when the directory is checked
        if fresh or not run_dir.ledger.exists():
            return config
    with suppress(SweeperError, OSError), closing(backup.read(run_dir)) as ledger:
        if sessions := ledger.sessions():
            return config.as_begun(sessions[0]["study"])
    return config


@contextmanager
def _refusing(run_dir: RunDir) -> Iterator[None]:
    """Report disk errors about a file of the run directory."""
    try:
        yield
    except OSError as error:
        if is_of_observer(error):
            raise
        raise SetupError(not_written(run_dir.root, error)) from error


def _changes_since_start(
    ledger: Ledger, sessions: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> tuple[Change, ...]:
    """Which libraries, device, flags and ledger version differ from when the study began."""
    if not sessions:
        return ()
    began = sessions[0]
    changes = environment_changes(began.get("environment", began.get("versions", {})), environment)
    if ledger.began_as != ledger.version:
        changes += (Change("the ledger's version", ledger.began_as, ledger.version),)
    return changes


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
        "study_file": str(config.source.path),
        "data_digest": data_digest,
        "code": code_of(config),
        "signed": signed(config, None if start is None else start["digest"]),
        "continued_from": start,
        "boundaries": [asdict(change) for change in boundaries],
        "forecast": forecast.as_dict(),
        "started_at": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "directory": str(Path.cwd()),
        "environment": dict(environment),
        KEEPS_CANDIDATES: True,
    }
