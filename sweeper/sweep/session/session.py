"""A session: one start of the program on a run directory, with its lock and its ledger."""

from __future__ import annotations

import filecmp
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
from sweeper.files import replacing
from sweeper.ledger import Ledger
from sweeper.results.events import is_of_observer
from sweeper.rundir import RunDir
from sweeper.scheduler.forecast import Forecast
from sweeper.study.learning import Learned, learn, refuse_other
from sweeper.sweep.session import backup
from sweeper.sweep.session.crashes import count_crashes, forget_normal_end, note_normal_end
from sweeper.sweep.session.directory import (
    check_directory,
    clear_staging,
    make,
    move_aside,
    place_after_move,
)
from sweeper.sweep.session.lock import hold
from sweeper.sweep.session.ownership import sign
from sweeper.sweep.session.reconcile import (
    Change,
    InitialWeights,
    StartModel,
    check_resume,
    describe_changes,
    environment_changes,
)
from sweeper.sweep.session.study_copy import copy_study
from sweeper.sweep.session.user_code import code_digests
from sweeper.trial import fields_of

KEEPS_CANDIDATES = "keeps_candidates"
"""Whether a session keeps the models of all trials that may be among the best until it finishes."""


@dataclass(frozen=True, slots=True)
class Session:
    """A run directory that this process holds, and its ledger.

    `boundaries` are settings, libraries and flags that have changed since the study began, in ways
    that keep it valid but not equal to an unbroken run; rows from here on have the `boundary_text`
    of all changes so far. `largest_n_trials` is the highest number that was ever requested,
    `forecast` the recorded one, since a study is planned once. `crashes` are those during the open
    round. `moved_to` is where an old run directory is now, if the study started over. `learned` are
    the trials of earlier studies that it learns from.
    """

    run_id: str
    run_dir: RunDir
    ledger: Ledger
    boundaries: tuple[Change, ...]
    boundary_text: str | None
    largest_n_trials: int
    forecast: Forecast
    crashes: int = 0
    moved_to: Path | None = None
    learned: Learned = field(default_factory=Learned)


ForecastMaker = Callable[[Forecast | None], Forecast]
"""The forecast to use, from the recorded one, if there is one."""


@dataclass(frozen=True, slots=True)
class _Opening:
    """The arguments of `open_session` that its steps share."""

    config: StudyConfig
    run_dir: RunDir
    data_digest: str
    make_forecast: ForecastMaker
    environment: Mapping[str, str]
    start: StartModel | None
    weights: InitialWeights | None
    learn_from: Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class _StudyPlan:
    """The forecast of a study, and the trials of earlier studies that it learns from."""

    forecast: Forecast
    learned: Learned


@contextmanager
def open_session(
    config: StudyConfig,
    data_digest: str,
    make_forecast: ForecastMaker,
    environment: Mapping[str, str],
    *,
    fresh: bool = False,
    start: StartModel | None = None,
    weights: InitialWeights | None = None,
    learn_from: Sequence[str | Path] = (),
) -> Iterator[Session]:
    """The session of a study, held until the block ends.

    `environment` is what results depend on besides the study, by name. `start` is the saved model
    that trials start from, if any; `weights` are as for `check_resume`. `learn_from` are earlier
    studies for a new one to learn from.

    Raises:
        StudyError: the directory contains a study that this file cannot resume.
        StudyHeldError: another process runs it.
        SetupError: the directory cannot be written, even later in the block, or the ledger is
            damaged.
    """
    run_dir = RunDir(config.run_dir)
    check_directory(config, run_dir, fresh=fresh)
    opening = _Opening(
        config, run_dir, data_digest, make_forecast, environment, start, weights, learn_from
    )
    # checks that refuse a new study come before any file is written, or an old one is moved
    new = _prepare(opening) if fresh or not run_dir.ledger.exists() else None
    rows = _rows_to_keep(config, run_dir)
    with _as_setup_errors(run_dir):
        moved_to = _claim_directory(config, run_dir, fresh=fresh)
    if rows is not None:
        rows = place_after_move(rows, run_dir, moved_to)
    with _as_setup_errors(run_dir), hold(run_dir), closing(_open_ledger(run_dir)) as ledger:
        session = _begin(opening, ledger, new, rows, moved_to)
        with note_normal_end(session.run_dir, lambda: not ledger.file.is_replaced):
            yield session


def _prepare(opening: _Opening) -> _StudyPlan:
    """Forecast a new study, and read the trials that it learns from; nothing is written."""
    return _StudyPlan(opening.make_forecast(None), learn(opening.config, opening.learn_from))


def _claim_directory(config: StudyConfig, run_dir: RunDir, *, fresh: bool) -> Path | None:
    """Move an old study aside if `fresh`, and create the run directory; returns its new place."""
    moved_to = move_aside(run_dir) if fresh else None
    make(config, run_dir)
    return moved_to


def _open_ledger(run_dir: RunDir) -> Ledger:
    clear_staging(run_dir)
    if not run_dir.ledger.exists():
        _create_ledger(run_dir)
    return backup.open_ledger(run_dir)


def _begin(
    opening: _Opening,
    ledger: Ledger,
    new: _StudyPlan | None,
    rows: Path | None,
    moved_to: Path | None,
) -> Session:
    """Record a session and the files that it starts from; `rows` are those to write, if any."""
    config, run_dir = opening.config, opening.run_dir
    sessions = ledger.sessions()
    boundaries, study = _resume_or_plan(opening, ledger, sessions, new)
    run_id = uuid.uuid4().hex[:12]
    record = _record(opening, run_id, boundaries, study.forecast, rows)
    record |= count_crashes(ledger, run_dir)
    if rows is not None:
        _keep_copy(rows, run_dir.rows, run_dir)
    if config.rows is not None:
        config.rows.forget()
    with fault_points(Step.ADD_SESSION):
        is_learning = not sessions and study.learned.sources
        ledger.add_session(record, fields_of(study.learned) if is_learning else None)
    forget_normal_end(run_dir)
    if opening.start is not None:
        source = place_after_move(Path(opening.start.path), run_dir, moved_to)
        _keep_copy(source, run_dir.started_from, run_dir)
    copy_study(run_dir, config)
    sizes = (past["study"]["study"]["n_trials"] for past in ledger.sessions())
    return Session(
        run_id=run_id,
        run_dir=RunDir(run_dir.root.absolute()),  # user code may change the directory
        ledger=ledger,
        boundaries=boundaries,
        boundary_text=describe_changes(ledger.sessions()),
        largest_n_trials=max(sizes),
        forecast=study.forecast,
        crashes=record["deaths"],
        moved_to=moved_to,
        learned=study.learned,
    )


def _resume_or_plan(
    opening: _Opening, ledger: Ledger, sessions: Sequence[Mapping[str, Any]], new: _StudyPlan | None
) -> tuple[tuple[Change, ...], _StudyPlan]:
    """The session boundaries after these sessions, and the study as it began, or begins now."""
    config = opening.config
    boundaries = check_resume(
        config, sessions, opening.data_digest, opening.start, weights=opening.weights
    )
    boundaries += _changes_since_start(ledger, sessions, opening.environment)
    if not sessions:  # if it is not new, a crash has left an empty ledger
        return boundaries, new or _prepare(opening)
    learned = Learned.from_dict(ledger.learned())
    refuse_other(opening.run_dir, learned, opening.learn_from)
    recorded = Forecast.from_dict(sessions[-1]["forecast"])
    forecast = opening.make_forecast(recorded)
    if forecast != recorded:
        boundaries += (Change("the lattice", "as it was planned", "another"),)
    return boundaries, _StudyPlan(forecast, learned)


def _create_ledger(run_dir: RunDir) -> None:
    """Create the ledger with its tables at once: an empty ledger is always a damaged one."""
    with fault_points(Step.CREATE_LEDGER), replacing(run_dir.ledger, run_dir.staging) as staged:
        Ledger.create(staged).close()


def _keep_copy(source: Path, target: Path, run_dir: RunDir) -> None:
    """Copy a file that the study starts from, unless an earlier session did and it is undamaged."""
    if target.exists() and filecmp.cmp(source, target, shallow=False):
        return
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


def check(
    config: StudyConfig, data_digest: str | None, weights: InitialWeights | None = None
) -> None:
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
def _as_setup_errors(run_dir: RunDir) -> Iterator[None]:
    """Report disk errors about a file of the run directory.

    Raises:
        SetupError: for an error of the disk; errors of observers pass.
    """
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
    opening: _Opening,
    run_id: str,
    boundaries: tuple[Change, ...],
    forecast: Forecast,
    rows: Path | None,
) -> dict[str, Any]:
    """The record of a session in the ledger."""
    config, start = opening.config, opening.start
    record: dict[str, Any] = {
        "run_id": run_id,
        "study": config.canonical(),
        "study_file": str(config.source.path),
        "data_digest": opening.data_digest,
        "code": code_digests(config),
        "signed": sign(config, None if start is None else start.digest),
        "continued_from": None if start is None else fields_of(start),
        "boundaries": [asdict(change) for change in boundaries],
        "forecast": forecast.as_dict(),
        "started_at": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "directory": str(Path.cwd()),
        "environment": dict(opening.environment),
        KEEPS_CANDIDATES: True,
    }
    if rows is not None:
        record["rows"] = opening.run_dir.rows.name
    if opening.weights is not None:
        record["fixed_start"] = fields_of(opening.weights)
    return record
