"""One start of the program on a run directory: its lock, its ledger, its place in the study."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sweeper.config import StudyConfig
from sweeper.deaths import deaths_over, leaving_in_order
from sweeper.errors import Problem, SetupError, StudyError, StudyHeldError
from sweeper.faults import Step, fault_points
from sweeper.ledger import Ledger
from sweeper.reconcile import Change, other_start, reconcile, refusals
from sweeper.results.replace import replacing
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.scheduler.forecast import Forecast
from sweeper.user_source import source_digests

_LIBRARIES = ("jax", "jaxlib", "equinox", "optax", "optuna", "numpy")


@dataclass(frozen=True, slots=True)
class Session:
    """A run directory that this process holds, and the ledger in it.

    `boundaries` are the settings that changed since the study began in a way that keeps it valid
    but no longer equal to an unbroken run, `largest_n_trials` the most it was ever asked for.
    `forecast` is the recorded one: a study is planned once. `deaths` are those over the open round.
    """

    run_id: str
    run_dir: RunDir
    ledger: Ledger
    boundaries: tuple[Change, ...]
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
    *,
    fresh: bool = False,
    start: Mapping[str, str] | None = None,
) -> Iterator[Session]:
    """The session of a study, which is its own until the block ends.

    `start` has path and digest of the saved model that its trials start from, if they do.

    Raises:
        StudyError: the directory holds a study that this file cannot go on with.
        StudyHeldError: another process runs it.
        SetupError: the directory cannot be written, or the ledger is damaged.
    """
    run_dir = RunDir(config.run_dir)
    check_directory(config, run_dir)
    # what refuses a new study does so before a file of it is written, or an old one is moved
    foreseen = foresee(None) if fresh or not run_dir.ledger.exists() else None
    _make(config, run_dir)
    if fresh:
        _move_aside(run_dir)
        _make(config, run_dir)
    with held(run_dir):
        if not run_dir.ledger.exists():
            # A ledger appears with its tables or not at all: an empty one is always a damaged one.
            with (
                fault_points(Step.CREATE_LEDGER),
                replacing(run_dir.ledger, run_dir.staging) as staged,
            ):
                staged.unlink(missing_ok=True)
                Ledger.create(staged).close()
        ledger = Ledger.open(run_dir.ledger)
        try:
            boundaries = _joined(config, ledger, data_digest, start)
            recorded = _recorded_forecast(ledger)
            forecast = foreseen if foreseen and recorded is None else foresee(recorded)
            if recorded is not None and forecast != recorded:
                boundaries += (Change("the lattice", "as it was planned", "another"),)
            run_id = uuid.uuid4().hex[:12]
            record = _record(config, data_digest, run_id, boundaries, forecast, start)
            record |= deaths_over(ledger, run_dir)
            with fault_points(Step.ADD_SESSION):
                ledger.add_session(record)
            if start is not None and not run_dir.started_from.exists():
                with replacing(run_dir.started_from, run_dir.staging) as staged:
                    shutil.copyfile(start["path"], staged)
            if not run_dir.study_file.exists():
                with (
                    fault_points(Step.COPY_STUDY),
                    replacing(run_dir.study_file, run_dir.staging) as staged,
                ):
                    staged.write_text(_as_run(config), encoding="utf-8")
            sizes = (past["study"]["study"]["n_trials"] for past in ledger.sessions())
            found = boundaries, max(sizes), forecast, record["deaths"]
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
        with held(run_dir), closing(Ledger.open(run_dir.ledger)) as ledger:
            _joined(config, ledger, data_digest, None, asks_start=False)


def check_directory(config: StudyConfig, run_dir: RunDir) -> None:
    """Refuse a directory that cannot be written, or in which something stands that is not a study.

    Raises:
        SetupError: it, or what is to hold it, is no directory that this user may write to.
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
        told = f"{error.filename}: {error.strerror}"
        raise SetupError(_unwritable(config, told)) from error


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
    if run_dir.ledger.exists():
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        with held(run_dir):
            run_dir.root.rename(run_dir.root.with_name(f"{run_dir.root.name}.{stamp}"))


def _joined(
    config: StudyConfig,
    ledger: Ledger,
    data_digest: str | None,
    start: Mapping[str, str] | None,
    *,
    asks_start: bool = True,
) -> tuple[Change, ...]:
    """The session boundaries of going on with `ledger`; none for a new study."""
    sessions = ledger.sessions()
    if not sessions:
        return ()
    began = sessions[0]
    found = reconcile(began["study"], config.canonical())
    problems = refusals(config, found.refused)
    code = dict(_changed_code(config, began["code"]))
    mended = tuple(Change(key, f"{code[key]} as it was", "another") for key in code if _asks(key))
    if not problems:
        problems = [_other(config, key, files) for key, files in code.items() if not _asks(key)]
    if not problems and data_digest not in (None, began["data_digest"]):
        problems = [_other(config, "data", "the data")]
    if not problems and asks_start:
        problems = [*other_start(config, began["continued_from"], start)]
    if problems:
        raise StudyError(problems)
    return (*found.boundary, *mended)


def _asks(key: str) -> bool:
    """Whether code by this key only asks for trials and ends them: what it did stays as it is."""
    return key.startswith(("study.sampler.", "study.pruner."))


def _changed_code(
    config: StudyConfig, began: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """The files of the user's own code that are not what they were, by the key that names it."""
    for key, now in _code(config).items():
        before = began.get(key, {})
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if changed:
            yield key, ", ".join(changed)


def _other(config: StudyConfig, key: str, what: str) -> Problem:
    found = f"{what} is not what it was when the study in {config.run_dir} began"
    mend = "put it back, or start over with --fresh, which moves the old directory aside"
    return config.problem(key, found, mend)


def _code(config: StudyConfig) -> dict[str, dict[str, str]]:
    """A digest of each file of the user's own code, by the key that names a function of it."""
    code: dict[str, dict[str, str]] = {}
    for function, key in config.functions.items():
        code.setdefault(key, {}).update(source_digests(function, config.base_dir))
    return code


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
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "study": config.canonical(),
        "data_digest": data_digest,
        "code": _code(config),
        "continued_from": start,
        "boundaries": [asdict(change) for change in boundaries],
        "forecast": forecast.as_dict(),
        "started_at": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "directory": str(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {library: version(library) for library in _LIBRARIES},
    }


def _as_run(config: StudyConfig) -> str:
    """The text of the study file, under the settings that were given on the command line."""
    given = [f"# --set {key}={_value(config, key)}\n" for key in config.source.overridden]
    return "".join([*given, config.source.text])


def _value(config: StudyConfig, key: str) -> str:
    value: Any = config.canonical()
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return json.dumps(value)
