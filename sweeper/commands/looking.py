"""Commands that look at a run directory: status, verify."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sweeper import answers
from sweeper.commands.arguments import AsJson, RunDirectory, refuse_a_file
from sweeper.commands.printing import print_json, print_shown, status_record
from sweeper.results.status import newest_run, read_status
from sweeper.rundir import RunDir


def status(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]", help="A run directory; the newest under runs/ if left out."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how a study stands, while it runs or afterwards."""
    run_dir = RunDir(directory or newest_run(Path("runs")))
    refuse_a_file(run_dir.root)
    standing = read_status(run_dir)
    if as_json:
        print_json(status_record(run_dir, standing))
    else:
        print_shown(answers.standing(run_dir, standing))


def verify(
    directory: RunDirectory,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write anew what the ledger tells: tables, status.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a run directory: ledger, checkpoints, models and tables against each other.

    Ends with 1 where something is damaged.
    """
    run_dir = RunDir(directory)
    refuse_a_file(directory)
    from sweeper import verification

    if repair:
        verification.repair(run_dir)
    found = verification.verify(run_dir)
    if as_json:
        print_json({"run_dir": str(directory), **asdict(found)})
    else:
        print_shown(*found.looked_at, *map(str, found.damage))
        if not found.damage:
            print_shown("whole")
    raise typer.Exit(bool(found.damage))
