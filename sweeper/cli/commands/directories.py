"""Commands about run directories as a whole: list, delete."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from sweeper.cli import tables
from sweeper.cli.commands.arguments import AsJson, RunDirectory, refuse_a_file, refuse_misspelt
from sweeper.cli.commands.printing import print_json, print_shown
from sweeper.cli.console import console_on
from sweeper.errors import Problem, SetupError, StudyError, counted, printable, size_text
from sweeper.results import formatting
from sweeper.results.run_directories import newest_run, runs_in
from sweeper.results.status import read_status
from sweeper.rundir import RunDir, refuse_links

_LEFT_SHOWN = 5
_DAY = 86400


def list(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to look for run directories.")
    ] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the run directories in a directory, the newest first: state, trials, best, size."""
    refuse_a_file(directory)
    found = sorted(map(_record, runs_in(directory)), key=lambda run: -run["updated_at"])
    if not found:
        newest_run(directory)  # raises an error that says that there is none
    if as_json:
        print_json({"runs": found})
    else:
        headings = ("directory", "study", "state", "trials", "best", "size", "age")
        print_shown(tables.rows("run directories", headings, [*map(_row, found)]))
    for problem in (run["problem"] for run in found if "problem" in run):
        console_on(sys.stderr).print(problem, soft_wrap=True)


def _record(path: Path) -> dict[str, Any]:
    """A run directory in numbers; if its status cannot be read, why, and what its files say."""
    run_dir = RunDir(path)
    record: dict[str, Any] = {"run_dir": str(path), "bytes": _size(path)}
    try:
        refuse_links(run_dir)
        status = read_status(run_dir)
    except SetupError as error:
        updated_at = run_dir.status.lstat().st_mtime
        return {**record, "state": "unknown", "problem": str(error), "updated_at": updated_at}
    return {
        **record,
        "study": status.study,
        "state": status.state,
        "n_finished": formatting.finished_trials(status.counts),
        "n_trials": status.n_trials,
        "metric": formatting.names(status.metric)[0],
        "best": status.best and status.best["value"],
        "updated_at": status.updated_at,
    }


def _size(directory: Path) -> int:
    """The bytes of all files below a directory, which may change meanwhile."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(Path(place) / name).st_size
    return total


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    is_known = "study" in run
    return (
        run["run_dir"],
        run.get("study", ""),
        run["state"],
        f"{run['n_finished']} of {run['n_trials']}" if is_known else "",
        f"{run['metric']} {formatting.number(run['best'])}" if run.get("best") is not None else "",
        size_text(run["bytes"]),
        _age(time.time() - run["updated_at"]),
    )


def _age(seconds: float) -> str:
    if seconds < _DAY:
        return formatting.duration(max(seconds, 0))
    return counted(int(seconds / _DAY), "day")


def delete(
    directory: RunDirectory,
    without_asking: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
) -> None:
    """Delete a run directory; files in it that sweeper did not write are left."""
    from sweeper.sweep.session.directory import check_deletable
    from sweeper.sweep.session.directory import delete as delete_files

    refuse_a_file(directory)
    refuse_misspelt(directory)
    run_dir = RunDir(directory)
    check_deletable(run_dir)
    if not (without_asking or _is_confirmed(directory)):
        print_shown("nothing was deleted")
        return
    left = delete_files(run_dir)
    if left:
        shown = [printable(str(path.relative_to(directory))) for path in left[:_LEFT_SHOWN]]
        more = f" and {len(left) - len(shown)} more" if len(left) > len(shown) else ""
        print_shown(f"left in {directory}, not written by sweeper: {', '.join(shown)}{more}")
    else:
        print_shown(f"deleted {directory}")


def _is_confirmed(directory: Path) -> bool:
    """Whether the user wants to delete a run directory, as asked in the terminal.

    Raises:
        StudyError: nobody can answer, since the input is not a terminal and at its end.
    """
    try:
        return typer.confirm(f"delete {_described(directory)}?")
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        print()  # ends the line of the question
        hint = "use --yes to delete it without being asked"
        raise StudyError(Problem(str(directory), "", "nobody confirmed this", hint)) from None


def _described(directory: Path) -> str:
    """A run directory in a question."""
    if not RunDir(directory).status.is_file():
        return printable(str(directory))
    run = _record(directory)
    trials = f"{run['n_finished']} of {run['n_trials']} trials, " if "study" in run else ""
    return printable(f"{directory} ({trials}{size_text(run['bytes'])})")
