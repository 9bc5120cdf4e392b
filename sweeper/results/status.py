"""The status of a study, in one small file that can be read while it runs."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from sweeper.errors import FRESH, NoTrialError, Problem, SetupError, counted, number_runs, printable
from sweeper.faults import Step, fault_points
from sweeper.rundir import RunDir, open_inside, read_json, replacing, swapped

_STARTING = "or wait if one has just been started"
_MAX_LETTERS = 300  # of a lock file: enough for a number and a host name

IMPORTED_RUN = "imported"
"""The `run_id` of a study that another tool has trained."""

StudyState = Literal["running", "finished", "interrupted", "failed"]


@dataclass(frozen=True, slots=True, repr=False)
class Status:
    """The status of a study after its last closed round.

    Times are seconds since 1970, UTC. Fields with a default may be missing from a file of an
    earlier version.
    """

    study: str
    run_id: str
    pid: int
    """The process that runs the study, on `host`."""
    host: str
    state: StudyState
    started_at: float
    updated_at: float
    round: int
    """How many rounds are closed."""
    n_trials: int
    """How many trials the study has, including those not yet proposed."""
    counts: Mapping[str, int]
    """The number of trials by state, including RUNNING and WAITING."""
    best: Mapping[str, Any] | None
    """The best trial, with trial_number, value, values and params; None until a feasible trial is
    COMPLETE."""
    metric: str | Sequence[str]
    direction: str | Sequence[str]
    trials_per_minute: float | None
    """The rate of this session; None if too little is known."""
    eta_s: float | None
    """The seconds until all trials have ended; None if too little is known."""
    running: Sequence[Mapping[str, Any]]
    """One entry per bucket of the round in training: bucket, place, class_id, class_name, trials
    and their params. The place is None until the bucket starts."""
    compile_s: float
    """The sum over all buckets, in parallel or not, like `train_s`."""
    train_s: float
    predicted_compile_s: float
    """What the cost model predicted for `compile_s`."""
    predicted_train_s: float
    """What the cost model predicted for `train_s`."""
    n_compiled: int
    """How many programs were compiled or loaded from the compile cache."""
    n_cache_hits: int
    """How many of `n_compiled` came from the compile cache."""
    spent_s: Mapping[str, float]
    """Where the time since the start of this program went, by activity as in spans.parquet. It adds
    up to all of that time: a moment in which some place trains counts only as `train`, and so on in
    the order of `Activity`; the rest is `idle`."""
    committed_at: float | None
    """About when the last round was committed; None before the first."""
    front: Sequence[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    """With several objectives, the trials of the Pareto front, each like `best`; else empty."""
    feasible: int | None = None
    """How many complete trials meet the constraints; None without constraints."""
    timeout: str | None = None
    """The limit `study.timeout`, if it ended the study."""
    max_failures: int | float | None = None
    """The limit `execution.max_failures`, if it ended the study."""
    stop: Mapping[str, float] | None = None
    """The rules of `study.stop` that ended the study, if any did."""
    xla_threads: int | None = None
    """The number of XLA threads that the study began with, on a CPU."""
    edition: int | None = None
    """The edition of the study's rules; None in a file of a version that recorded none."""
    diverged: int | None = None
    """How many of the PRUNED trials diverged; None in a file of an earlier version without
    tables."""
    infeasible: int | None = None
    """How many trials were not trained because of a constraint, if known."""
    compiling: Mapping[str, Any] | None = None
    """While threads compile programs, how many are `planned` and `done` since the time `since`;
    else None."""
    epochs: Mapping[str, int] | None = None
    """The epochs that a finished study has `trained`, those that it would have trained
    `without_pruning`, and how many trials were `pruned`; None if a limit cut trials off."""
    training: str | None = None
    """How many trials of the round in training have reached its end, in words."""
    stopped_by: str | None = None
    """The user-defined sampler or pruner that ended a finished study."""
    learned: Mapping[str, int] | None = None
    """The number of trials that the sampler has learnt from, by the earlier study they are from."""

    @property
    def is_running(self) -> bool:
        """Whether the study is in training, as far as its last status says."""
        return self.state == "running"

    @property
    def is_imported(self) -> bool:
        """Whether another tool has trained the study."""
        return self.run_id == IMPORTED_RUN

    def __repr__(self) -> str:
        ended = sum(self.counts.get(state, 0) for state in ("COMPLETE", "PRUNED", "FAIL"))
        of = f"{ended} of {counted(self.n_trials, 'trial')}"
        best = self.best and f", best {self.best['value']:.6g} (trial {self.best['trial_number']})"
        return printable(f"<Status of {self.study}: {self.state}, {of}{best or ''}>")


def ended_by(status: Status) -> str | None:
    """What ended a study early, and how to continue it; None if nothing did."""
    if status.max_failures is not None:
        return (
            f"ended by execution.max_failures = {status.max_failures}: {status.counts['FAIL']} "
            "trials failed; the columns reason and error_message say why; run the same command "
            "with a larger limit to continue with new trials"
        )
    if status.stop is not None:
        rules = ", ".join(f"study.stop.{name} = {value}" for name, value in status.stop.items())
        return f"ended by {rules}; change or remove it and run again to continue with new trials"
    if status.stopped_by is not None:
        return (
            f"ended by '{status.stopped_by}', which called study.stop: it proposes no more trials"
        )
    if status.timeout is None:
        return None
    ended = f"ended by study.timeout = {status.timeout}, over all of its sessions"
    return f"{ended}; {going_on(status)}"


def epochs_saved(status: Status) -> str | None:
    """How many epochs pruning saved; None if it saved none, or if that is not known."""
    if not status.epochs or not (pruned := status.epochs.get("pruned")):
        return None
    trained, everything = status.epochs["trained"], status.epochs["without_pruning"]
    if trained == everything:
        return None
    were = f"{counted(pruned, 'trial')} {'was' if pruned == 1 else 'were'} pruned"
    return f"trained {trained:,} of {everything:,} epochs: {were}, which saved the others"


def going_on(status: Status) -> str:
    """How to continue such a study."""
    if status.counts.get("WAITING", 0):
        return "run the same command with a longer study.timeout to continue with new trials"
    return f"no trials are left; use {FRESH} and a longer study.timeout to train all of them fully"


def write_status(run_dir: RunDir, status: Status) -> None:
    """Replace the status file of the run by `status`."""
    with fault_points(Step.WRITE_STATUS), replacing(run_dir.status, run_dir.staging) as staged:
        staged.write_bytes(_as_json(status))


def update_status(run_dir: RunDir, status: Status) -> None:
    """Replace the status file by one of the same round, which may be lost in a power failure."""
    swapped(run_dir.status, run_dir.staging, _as_json(status))


def _as_json(status: Status) -> bytes:
    return f"{json.dumps(asdict(status), indent=2, allow_nan=False)}\n".encode()


def read_status(run_dir: RunDir) -> Status:
    """The status of the study in `run_dir`; interrupted if its process on this host is gone.

    Raises:
        SetupError: the status file does not exist, or has another version.
    """
    try:
        status = Status(**read_json(run_dir.status))
    except FileNotFoundError:
        hint = "start one with 'python -m sweeper run study.toml', name its run directory, "
        hint += _STARTING
        found = "no study has been run here"
        if run_dir.ledger.exists():
            found = "the study has no status, because it is starting or the file was removed"
            hint = "wait for it with 'python -m sweeper status --watch DIR', or resume the study"
        raise SetupError(Problem(str(run_dir.root), "", found, hint)) from None
    except (OSError, ValueError, TypeError) as error:
        found = f"not a status file of this version ({error})"
        hint = "resume the study, which rewrites it"
        raise SetupError(Problem(str(run_dir.status), "", found, hint)) from error
    if status.diverged is None:
        status = replace(status, diverged=_count_diverged(run_dir))
    if status.is_running and (_has_left(run_dir, status) or _was_killed(run_dir, status)):
        return replace(status, state="interrupted")
    return status


def hint_of_finished(numbers: Sequence[int], *, are_trained: bool = False) -> str:
    """A hint that lists `numbers`: the finished trials or, if `are_trained`, the trained ones."""
    kind = "trained" if are_trained else "finished"
    return f"use a {kind} trial: {number_runs(numbers) or 'none yet'}"


def none_complete(run_dir: RunDir, found: str) -> NoTrialError:
    """The error that no trial of a study is complete, and what to do; `found` says it."""
    return NoTrialError(Problem(str(run_dir.root), "", found, hint_if_none_complete(run_dir)))


def hint_if_none_complete(run_dir: RunDir) -> str:
    """What to do if no trial of a study is complete."""
    try:
        status = read_status(run_dir)
    except SetupError:  # the directory may contain only the tables
        status = None
    if status is not None and status.state == "interrupted":
        return "the study was interrupted: resume it with the command that started it"
    if status is not None and status.is_running:
        return "wait until a trial is complete"
    if status is not None and status.is_imported and not sum(status.counts.values()):
        return "the Optuna study has no trials that ended"
    change = "change the study, such as the range of optimizer.lr, or run more trials"
    if status is not None and status.is_imported:
        change = "import it again if it has more trials"
    if status is not None and status.infeasible:
        change = (
            f"{counted(status.infeasible, 'trial')} had a number of parameters that violates "
            "study.constraints: relax them, or search models of other sizes"
        )
    command = f"python -m sweeper trials {quote(str(run_dir.root))}"
    return f"`{command}` shows why each trial ended; {change}"


def in_training(run_dir: RunDir, number: int) -> Mapping[str, Any] | None:
    """The parameters of a trial in the round that trains; None if it is not known to be in one."""
    try:
        status = read_status(run_dir)
    except SetupError:  # the directory may contain only the tables
        return None
    if not status.is_running:
        return None
    buckets = (zip(one["trials"], one.get("params", ()), strict=False) for one in status.running)
    return dict(chain.from_iterable(buckets)).get(number)


def _was_killed(run_dir: RunDir, status: Status) -> bool:
    """Whether its process ended without updating the status; only known for this host.

    Never True on systems where asking for a process is harmful. Another process may have the same
    number now, so the lock is checked, too.
    """
    if status.host != socket.gethostname() or os.name != "posix":
        return False
    try:
        os.kill(status.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it belongs to somebody else
    return _has_lost_lock(run_dir, status)


def _has_lost_lock(run_dir: RunDir, status: Status) -> bool:
    """Whether a process of the same host has held the lock, and nobody holds it now.

    False if that is not known: the file was removed, or cannot be opened, or its file system has
    no locks. The check shares the lock for less than a millisecond; a study that starts meanwhile
    waits for it.
    """
    import fcntl  # only on POSIX

    if not run_dir.lock.is_file():  # a pipe would block
        return False
    try:
        with open_inside(run_dir.root, run_dir.lock, "r", encoding="utf-8") as file:
            match file.read(_MAX_LETTERS).split():
                case [_, host] if host == status.host:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                case _:
                    return False
    except (OSError, ValueError):  # somebody holds it, or it is not known
        return False
    return True


def _has_left(run_dir: RunDir, status: Status) -> bool:
    """Whether its process noted that a signal ended it at once; known for any host."""
    try:
        noted = read_json(run_dir.exit_note)
    except (OSError, ValueError):
        return False
    return noted == {"pid": status.pid, "host": status.host}


def _count_diverged(run_dir: RunDir) -> int | None:
    """How many trials diverged according to trials.parquet; None if it cannot be read."""
    from sweeper.results.light import readable, texts  # pyarrow: slow to import, seldom needed

    table = readable(run_dir.trials, ("reason",))
    if table is None or "reason" not in table.column_names:
        return None
    reasons, codes = texts(table["reason"])
    return int((codes == reasons.index("diverged")).sum()) if "diverged" in reasons else 0


def is_published(run_dir: RunDir) -> bool:
    """Whether the last session ended normally, so that its tables have everything it committed.

    False if that is not known.
    """
    try:
        written = read_json(run_dir.status)
        return written["state"] in ("finished", "interrupted")
    except (OSError, ValueError, TypeError, KeyError):
        return False


def runs_in(directory: Path) -> list[Path]:
    """The directory if it is a run directory with a status, else such directories below it.

    These are at most two levels down, as in `runs/group/study`, and not inside each other.
    """
    if (directory / "status.json").is_file():
        return [directory]
    found: list[Path] = []
    for pattern in ("*/status.json", "*/*/status.json"):
        below = sorted(path.parent for path in directory.glob(pattern))
        # what is half-written is in a hidden directory
        shown = (run for run in below if "/." not in f"/{run.relative_to(directory).as_posix()}")
        found += [run for run in shown if run.parent not in found]
    return found


def near_run(path: Path) -> str:
    """A question that offers a run directory near `path`, which does not exist, or under runs/.

    Empty if `path` exists, or no name is similar.
    """
    if path.exists():
        return ""
    others = [*runs_in(Path("runs")), *runs_in(path.parent)]
    by_name = {run.name.lower(): run for run in others}
    near = get_close_matches(path.name.lower(), by_name, n=1)
    return f"did you mean '{by_name[near[0]]}'?" if near else ""


def where_to_look(path: Path) -> str:
    """What to write instead of `path`, which is not a run directory with results."""
    return (
        near_run(path) or "name the run directory of a study that was started, such as runs/digits"
    )


def no_trials(run_dir: RunDir) -> Problem:
    """The problem that a directory has no table of trials, and what to do about it."""
    found, hint = f"{run_dir.trials.name} does not exist", where_to_look(run_dir.root)
    if run_dir.ledger.exists():
        try:
            status = read_status(run_dir)
            state, round_ = status.state, status.round
        except SetupError:  # it is starting, or was killed while it was
            state, round_ = None, 0
        if round_:
            hint = f"publish it with 'python -m sweeper verify {quote(str(run_dir.root))} --repair'"
        else:
            found = "the study was started, but no round is committed yet"
            resume = "run the study again, which resumes it"
            waits = {"running": "wait for the first one", None: f"wait if it runs, or {resume}"}
            hint = waits.get(state, resume)
    return Problem(str(run_dir.root), "", found, hint)


def newest_run(directory: Path) -> Path:
    """The run directory below `directory` whose status was written last.

    Raises:
        SetupError: there is none.
    """
    written = [(RunDir(run).status.stat().st_mtime_ns, run) for run in runs_in(directory)]
    if not written:
        start = "start a study with 'python -m sweeper run study.toml'"
        hint = f"name a run directory, {start}, {_STARTING}"
        raise SetupError(Problem(f"{directory}/", "", "no study has been run here", hint))
    return max(written)[1]
