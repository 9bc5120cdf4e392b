"""How a study stands, in one small file that anybody can read while it runs."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from sweeper.errors import Problem, SetupError, StudyError
from sweeper.faults import Step, fault_points
from sweeper.rundir import RunDir, read_json, replacing


@dataclass(frozen=True, slots=True)
class Status:
    """How a study stands after `round` closed rounds.

    Times are seconds since 1970, UTC. `counts` are trials by state, RUNNING and WAITING among
    them; `diverged` are those of the PRUNED ones that diverged, None in a file of an earlier
    version without tables. `best` has trial_number, value, values and params, and is None before
    a feasible trial is COMPLETE; `front` has the same of each trial of the Pareto front, where
    there are several objectives, and `feasible` counts complete trials that keep the constraints,
    if there are any. `timeout` is the study's where it has ended the study, None else; so is
    `max_failures`. `xla_threads` is how many the study began with, on a CPU; `edition` is that of
    its rules, None in a status of a version that recorded none.
    `running` has bucket, place, class_id, class_name and trials, one entry a bucket. `eta_s` and
    `trials_per_minute` are None where there is too little to tell them from. `compile_s` and
    `train_s` are the sums over all buckets, side by side or not, and the predicted ones what the
    cost model foresaw for them; `n_compiled` counts programs, those of them from the compile cache
    in `n_cache_hits`. `spent_s` is where the time since the start of this program went, by activity
    as in spans.parquet, and adds up to all of it: an instant in which some place trains counts as
    `train` only, and so on in the order of `Activity`; `idle` is what is left.
    """

    study: str
    run_id: str
    pid: int
    host: str
    state: Literal["running", "finished", "interrupted", "failed"]
    started_at: float
    updated_at: float
    round: int
    n_trials: int
    counts: Mapping[str, int]
    best: Mapping[str, Any] | None
    metric: str | Sequence[str]
    direction: str | Sequence[str]
    trials_per_minute: float | None
    eta_s: float | None
    running: Sequence[Mapping[str, Any]]
    compile_s: float
    train_s: float
    predicted_compile_s: float
    predicted_train_s: float
    n_compiled: int
    n_cache_hits: int
    spent_s: Mapping[str, float]
    committed_at: float | None
    front: Sequence[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    feasible: int | None = None
    timeout: str | None = None
    max_failures: int | float | None = None
    xla_threads: int | None = None
    edition: int | None = None
    diverged: int | None = None


def ended_by(status: Status) -> str | None:
    """What ended a study early, and how it goes on; None where nothing did."""
    if status.max_failures is not None:
        return (
            f"ended by execution.max_failures = {status.max_failures}, {status.counts['FAIL']} "
            "failed: the columns reason and error_message tell why; the same command with a larger "
            "limit goes on with new trials"
        )
    if status.timeout is None:
        return None
    return f"{_ended_by_timeout(status)}; {going_on(status)}"


def _ended_by_timeout(status: Status) -> str:
    """What ended a study that its timeout has ended."""
    return f"ended by study.timeout = {status.timeout}, of all its sessions together"


def going_on(status: Status) -> str:
    """How such a study goes on."""
    if status.counts.get("WAITING", 0):
        return "the same command with a longer study.timeout goes on with new trials"
    return "no trial is left to begin; --fresh with a longer study.timeout trains all to their end"


def write_status(run_dir: RunDir, status: Status) -> None:
    """Replace the status file of the run by `status`."""
    text = json.dumps(asdict(status), indent=2, allow_nan=False)
    with fault_points(Step.WRITE_STATUS), replacing(run_dir.status, run_dir.staging) as staged:
        staged.write_text(text + "\n", encoding="utf-8")


def read_status(run_dir: RunDir) -> Status:
    """How the study of `run_dir` stands; interrupted where its process of this host is gone.

    Raises:
        SetupError: there is no status file, or it is not one of this version.
    """
    try:
        status = Status(**read_json(run_dir.status))
    except FileNotFoundError:
        raise SetupError(
            Problem(
                str(run_dir.root),
                "",
                "no study has been run here",
                "start one with 'python -m sweeper run study.toml', or name its run directory",
            )
        ) from None
    except (OSError, ValueError, TypeError) as error:
        raise SetupError(
            Problem(
                str(run_dir.status),
                "",
                f"not a status of this version ({error})",
                "go on with the study, which writes it anew",
            )
        ) from error
    if status.diverged is None:
        status = replace(status, diverged=_count_diverged(run_dir))
    if status.state == "running" and (_has_left(run_dir, status) or _was_killed(status)):
        return replace(status, state="interrupted")
    return status


def for_want_of_one(run_dir: RunDir) -> str:
    """What to do if no trial of a study is complete."""
    try:
        is_over = read_status(run_dir).state in ("finished", "interrupted")
    except SetupError:  # only the tables were kept
        is_over = True
    if not is_over:
        return "wait for one"
    return (
        f"`python -m sweeper trials {run_dir.root}` says why each trial ended; change the study, "
        "such as the range of optimizer.lr, or run more trials"
    )


def _was_killed(status: Status) -> bool:
    """Whether its process ended without writing so; known only of this host."""
    return status.host == socket.gethostname() and _is_gone(status.pid)


def _has_left(run_dir: RunDir, status: Status) -> bool:
    """Whether its process noted that a signal ended it at once; known of any host."""
    try:
        noted = read_json(run_dir.left)
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
    """Whether the last session ended in good order, so that its tables hold all that it committed.

    False where that cannot be told.
    """
    try:
        written = read_json(run_dir.status)
        return written["state"] in ("finished", "interrupted")
    except (OSError, ValueError, TypeError, KeyError):
        return False


def newest_run(directory: Path) -> Path:
    """The run directory below `directory` whose status was written last.

    Raises:
        StudyError: there is none.
    """
    written = [(path.stat().st_mtime_ns, path.parent) for path in directory.glob("*/status.json")]
    if not written:
        raise StudyError(
            Problem(
                f"{directory}/",
                "",
                "no study has been run here",
                "name a run directory, or start a study: python -m sweeper run study.toml",
            )
        )
    return max(written)[1]


def _is_gone(pid: int) -> bool:
    """Whether no process has the number `pid`; never true where asking would harm it."""
    if os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
