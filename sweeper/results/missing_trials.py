"""What to do if a study has no trials, or none that a command can use."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from sweeper.errors import NoTrialError, Problem, counted, number_runs
from sweeper.results.run_directories import where_to_look
from sweeper.results.status import Status, find_status
from sweeper.rundir import RunDir


def no_trials(run_dir: RunDir) -> Problem:
    """The problem that a directory has no table of trials, and what to do about it."""
    found, hint = f"{run_dir.trials.name} does not exist", where_to_look(run_dir.root)
    if not run_dir.root.exists():
        found = "no such directory"
    if run_dir.ledger.exists():
        status = find_status(run_dir)
        if status is not None and status.round:
            hint = f"publish it with 'python -m sweeper verify {quote(str(run_dir.root))} --repair'"
        else:
            found = "the study was started, but no round is committed yet"
            hint = _how_to_wait(status)
    return Problem(str(run_dir.root), "", found, hint)


def _how_to_wait(status: Status | None) -> str:
    """What to do until the first round is committed."""
    resume = "run the study again, which resumes it"
    if status is None:  # it is starting, or was killed while it was
        return f"wait if it runs, or {resume}"
    return "wait for the first one" if status.is_running else resume


def none_complete(run_dir: RunDir, found: str) -> NoTrialError:
    """The error that no trial of a study is complete, and what to do; `found` says it."""
    return NoTrialError(Problem(str(run_dir.root), "", found, hint_if_none_complete(run_dir)))


def hint_if_none_complete(run_dir: RunDir) -> str:
    """What to do if no trial of a study is complete."""
    status = find_status(run_dir)
    if status is not None and status.state == "interrupted":
        return "the study was interrupted: resume it with the command that started it"
    if status is not None and status.is_running:
        return "wait until a trial is complete"
    if status is not None and status.is_imported and not sum(status.counts.values()):
        return "the Optuna study has no trials that ended"
    command = f"python -m sweeper trials {quote(str(run_dir.root))}"
    return f"`{command}` shows why each trial ended; {_what_to_change(status)}"


def _what_to_change(status: Status | None) -> str:
    """How a study that has ended may get a complete trial."""
    if status is not None and status.infeasible:
        return (
            f"{counted(status.infeasible, 'trial')} had a number of parameters that violates "
            "study.constraints: relax them, or search models of other sizes"
        )
    if status is not None and status.is_imported:
        return "import it again if it has more trials"
    return "change the study, such as its learning rates, or run more trials"


def hint_of_finished(numbers: Sequence[int], *, are_trained: bool = False) -> str:
    """A hint that lists `numbers`: the finished trials or, if `are_trained`, the trained ones."""
    kind = "trained" if are_trained else "finished"
    return f"use a {kind} trial: {number_runs(numbers) or 'none yet'}"
