"""The status of a study, in one small file that can be read while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Literal

from sweeper.errors import FRESH, Problem, SetupError, counted, printable
from sweeper.faults import Step, fault_points
from sweeper.files import read_json, replacing, write_unsynced
from sweeper.results.owner import has_ended
from sweeper.rundir import RunDir

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
    """The seconds from `committed_at` until all trials have ended; None if too little is known."""
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
    `without_pruning`, and how many trials were `pruned`; None if a limit cut trials off, or if
    pruned ones could have stopped early."""
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
    if status.stopped_by is not None:
        called = f"'{status.stopped_by}', which called study.stop"
        return f"ended by {called}: it proposes no more trials"
    ending = _ending(status)
    if ending is None:
        return None
    ended, change = f"ended by {ending[0]}", ending[1]
    if status.max_failures is not None:
        failed = f"{counted(status.counts['FAIL'], 'trial')} failed"
        ended += f": {failed}; the columns reason and error_message say why"
    if status.counts.get("WAITING", 0):
        return f"{ended}; run the same command with {change} to continue with new trials"
    return f"{ended}; no trials are left; use {FRESH} and {change} to train all of them fully"


def what_takes_requests(status: Status) -> str:
    """Which `run` takes a request for a new trial that was sent to an ended study."""
    ending = _ending(status)
    if ending is None and status.state != "finished":
        return f"the study is {status.state}: its next `run` takes the request"
    changes = [ending[1]] if ending else []
    if not status.counts.get("WAITING", 0):
        changes.append("a larger study.n_trials")
    state = f"was ended by {ending[0]}" if ending else "is finished"
    return f"the study {state}: run it with {' and '.join(changes)} to take the request"


def _ending(status: Status) -> tuple[str, str] | None:
    """The limit or rule that ended a study early, and what it needs instead; None if none did."""
    if status.max_failures is not None:
        return f"execution.max_failures = {status.max_failures}", "a larger limit"
    if status.stop is not None:
        rules = ", ".join(f"study.stop.{name} = {value}" for name, value in status.stop.items())
        return rules, "another study.stop (or none)"
    if status.timeout is not None:
        return (
            f"study.timeout = {status.timeout}, over all of its sessions",
            "a longer study.timeout",
        )
    return None


def epochs_saved(status: Status) -> str | None:
    """How many epochs pruning saved; None if it saved none, or if that is not known."""
    if not status.epochs or not (pruned := status.epochs.get("pruned")):
        return None
    trained, everything = status.epochs["trained"], status.epochs["without_pruning"]
    if trained == everything:
        return None
    were = f"{counted(pruned, 'trial')} {'was' if pruned == 1 else 'were'} pruned"
    return f"trained {trained:,} of {everything:,} epochs: {were}, which saved the others"


def write_status(run_dir: RunDir, status: Status) -> None:
    """Replace the status file of the run by `status`."""
    with fault_points(Step.WRITE_STATUS), replacing(run_dir.status, run_dir.staging) as staged:
        staged.write_bytes(_as_json(status))


def update_status(run_dir: RunDir, status: Status) -> None:
    """Replace the status file by one of the same round, which may be lost in a power failure."""
    write_unsynced(run_dir.status, run_dir.staging, _as_json(status))


def _as_json(status: Status) -> bytes:
    return f"{json.dumps(asdict(status), indent=2, allow_nan=False)}\n".encode()


def read_status(run_dir: RunDir) -> Status:
    """The status of the study in `run_dir`; interrupted if its process on this host is gone.

    Raises:
        SetupError: the status file does not exist, or has another version.
    """
    status = _read(run_dir)
    if status.is_running and has_ended(run_dir, status.pid, status.host):
        last = _read(run_dir)  # which the process may have written before it ended
        is_left = last.is_running and (last.pid, last.host) == (status.pid, status.host)
        status = replace(last, state="interrupted") if is_left else last
    if status.diverged is None:
        return replace(status, diverged=_count_diverged(run_dir))
    return status


def _read(run_dir: RunDir) -> Status:
    """The status as it is written."""
    try:
        return Status(**read_json(run_dir.status))
    except FileNotFoundError:
        hint = (
            "start one with 'python -m sweeper run study.toml', name its run directory, or wait if "
            "one has just been started"
        )
        found = "no study has been run here"
        if run_dir.ledger.exists():
            found = "the study has no status, because it is starting or the file was removed"
            hint = "wait for it with 'python -m sweeper status --watch DIR', or resume the study"
        raise SetupError(Problem(str(run_dir.root), "", found, hint)) from None
    except (OSError, ValueError, TypeError) as error:
        found = f"not a status file of this version ({error})"
        hint = "resume the study, which rewrites it"
        raise SetupError(Problem(str(run_dir.status), "", found, hint)) from error


def find_status(run_dir: RunDir) -> Status | None:
    """The status as by `read_status`; None if it is missing or cannot be read.

    A study that is starting has none, nor has a directory in which only the tables were kept.
    """
    try:
        return read_status(run_dir)
    except SetupError:
        return None


def in_training(run_dir: RunDir, number: int) -> Mapping[str, Any] | None:
    """The parameters of a trial in the round that trains; None if it is not known to be in one."""
    status = find_status(run_dir)
    if status is None or not status.is_running:
        return None
    buckets = (zip(one["trials"], one.get("params", ()), strict=False) for one in status.running)
    return dict(chain.from_iterable(buckets)).get(number)


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
