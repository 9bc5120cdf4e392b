"""Commands that inspect a run directory: status, verify."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Annotated

import typer

from sweeper.cli import tables
from sweeper.cli.commands.arguments import (
    AsJson,
    MaybeDirectory,
    RunDirectory,
    TrustCode,
    refuse_a_file,
    run_asked,
)
from sweeper.cli.commands.printing import print_json, print_shown, status_record
from sweeper.cli.console import console_on
from sweeper.results.status import Status, read_status
from sweeper.rundir import RunDir

WATCHED_EVERY_S = 1.0


def status(
    directory: MaybeDirectory = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh every second until the study ends.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a study, while it runs or afterwards."""
    run_dir = run_asked(directory)
    standing = read_status(run_dir)
    if watch and not as_json:
        _watch(run_dir, standing)
    elif as_json:
        print_json(status_record(run_dir, standing))
    else:
        print_shown(tables.standing(run_dir, standing))


def _watch(run_dir: RunDir, standing: Status) -> None:
    """Refresh the status in one place until the study ends."""
    from rich.live import Live

    shown = tables.standing(run_dir, standing)
    with Live(shown, console=console_on(sys.stdout), auto_refresh=False) as live:
        while standing.state == "running":
            time.sleep(WATCHED_EVERY_S)
            standing = read_status(run_dir)
            live.update(tables.standing(run_dir, standing), refresh=True)


def verify(
    directory: RunDirectory,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rewrite what the ledger and the data determine.")
    ] = False,
    restore: Annotated[
        bool,
        typer.Option("--restore-ledger", help="Replace a damaged ledger with its backup."),
    ] = False,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Check that the ledger, checkpoints, models and tables of a run directory agree.

    Exits with 1 if something is damaged.
    """
    run_dir = RunDir(directory)
    refuse_a_file(directory)
    from sweeper.sweep import verify

    done = verify.restore_ledger(run_dir) if restore else None
    left = verify.repair(run_dir, trust_code=trust_code) if repair else ()
    found = verify.verify(run_dir, trust_code=trust_code)
    if not as_json and (done is not None or left):
        print_shown(*(() if done is None else (done,)), *left)
    if as_json:
        print_json({"run_dir": str(directory), **asdict(found)})
    else:
        print_shown(*found.looked_at, *map(str, found.damage))
        if not found.damage:
            print_shown("whole")
    raise typer.Exit(bool(found.damage))
