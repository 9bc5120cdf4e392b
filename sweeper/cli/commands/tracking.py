"""Commands for experiment trackers: log."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

import typer

from sweeper.cli.commands.arguments import MaybeDirectory, find_run, warn_if_behind
from sweeper.cli.commands.looking import wait_for_newest_run
from sweeper.cli.commands.printing import print_shown
from sweeper.cli.console import answers, console_on
from sweeper.errors import Problem, StudyError, counted, printable
from sweeper.trackers.tracker import TrackerName

_TOP = 10


def log(
    directory: MaybeDirectory = None,
    *,
    to: Annotated[TrackerName, typer.Option("--to", help="The experiment tracker.")],
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Wait for the study to start, and log it until it ends. Without DIR, wait only if "
            "runs/ has no study.",
        ),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            "--top", metavar="K", min=0, help=f"Log the best K trials as runs; default: {_TOP}."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Log every trial as a run.")] = False,
    project: Annotated[
        str | None,
        typer.Option(
            "--project",
            metavar="NAME",
            help="MLflow's experiment, W&B's [ENTITY/]PROJECT, or the directory's name for "
            "TensorBoard; default: the name of the study.",
        ),
    ] = None,
    uri: Annotated[
        str | None,
        typer.Option(
            "--uri",
            metavar="URI",
            help="MLflow's tracking URI, W&B's server, or a directory for TensorBoard; default: "
            "as MLflow or W&B is set up, or tensorboard/.",
        ),
    ] = None,
) -> None:
    """Log a study to MLflow, W&B or TensorBoard: a run for it, and runs for its best trials.

    What was logged before is updated, not repeated.
    """
    if every and top is not None:
        found = "with --all, which logs every trial"
        raise StudyError(Problem("", "--top", found, "remove one of the two"))
    run_dir = find_run(wait_for_newest_run(directory) if follow else directory)
    warn_if_behind(run_dir)
    from sweeper.trackers.log import connect, log_study

    console = console_on(sys.stderr)

    def show(logged: int, finished: int) -> None:
        if follow:
            said = f"{counted(logged, 'trial')} logged, {finished} finished"
            console.print(said, soft_wrap=True)

    best = None if every else _TOP if top is None else top
    connecting = partial(connect, to, uri, project)
    done = log_study(run_dir, connecting, top=best, follow=follow, shown=show)
    earlier = f", {done.before} of them earlier" if done.before else ""
    said = f"logged the study and {done.logged} of {counted(done.finished, 'trial')}{earlier}"
    console_on(answers()).print(printable(f"{said}, to {done.place}"), soft_wrap=True)
    if done.state in ("running", "interrupted"):
        then = "log it again" if done.state == "running" else "resume it and log it again"
        print_shown(f"the study {_describe_state(done.state)}: {then} to add what follows")


def _describe_state(state: str) -> str:
    return "is still running" if state == "running" else "was interrupted"
