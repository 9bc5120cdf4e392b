"""Commands that look at studies and at this machine.

These are status, verify, dashboard, report, doctor and calibrate.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeper.cli import tables
from sweeper.cli.commands.arguments import (
    AsJson,
    MaybeDirectory,
    RunDirectory,
    TrustCode,
    find_run,
    refuse_a_file,
    refuse_misspelt,
    warn_if_behind,
)
from sweeper.cli.commands.printing import print_json, print_shown, print_written, status_record
from sweeper.cli.console import answers, console_on
from sweeper.errors import SetupError
from sweeper.results.run_directories import near_run, newest_run, runs_in
from sweeper.results.status import Status, read_status
from sweeper.rundir import RunDir, refuse_links

if TYPE_CHECKING:
    from sweeper.dashboard.page import Page

WATCHED_EVERY_S = 1.0


def status(
    directory: MaybeDirectory = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Wait for the study to start, and refresh every second until it ends; with "
            "--json, only wait for it to start. Without DIR, wait only if runs/ has no study.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a study, while it runs or afterwards."""
    run_dir = find_run(wait_for_newest_run(directory) if watch else directory)
    current = read_status(run_dir)
    if as_json:
        print_json(status_record(run_dir, current))
    elif watch:
        _watch(run_dir, current)
    else:
        print_shown(tables.status_table(run_dir, current))
        warn_if_behind(run_dir)


def wait_for_newest_run(directory: str | Path | None) -> Path:
    """The newest run directory in `directory`, or in runs/ if it is None; it may be one itself.

    If there is none with a status, this says so and waits.
    """
    path = Path("runs" if directory is None else directory)
    refuse_a_file(path)
    if not _has_study(path):
        note = f"waiting for a study in {path}: {_missing(path)}; press Ctrl-C to stop"
        console_on(sys.stderr).print(note, soft_wrap=True)
    while not _has_study(path):
        time.sleep(WATCHED_EVERY_S)
    return newest_run(path)


def _has_study(directory: Path) -> bool:
    """Whether a study has a status in this directory or below it; not below one that starts."""
    found = runs_in(directory)
    return bool(found) and (found == [directory] or not RunDir(directory).ledger.exists())


def _missing(directory: Path) -> str:
    """That a directory has no study yet, and which directory may be meant instead."""
    if RunDir(directory).ledger.exists():
        return "it is starting"
    if directory.is_dir():
        return "no study has been run there yet"
    near = near_run(directory)
    return f"it does not exist yet{f' ({near})' if near else ''}"


def _watch(run_dir: RunDir, current: Status) -> None:
    """Refresh the status in one place until the study ends."""
    from rich.live import Live

    shown = tables.status_table(run_dir, current)
    with Live(shown, console=console_on(answers()), auto_refresh=False) as live:
        while current.is_running:
            time.sleep(WATCHED_EVERY_S)
            refuse_links(run_dir)
            current = read_status(run_dir)
            live.update(tables.status_table(run_dir, current), refresh=True)


def verify(
    directory: RunDirectory,
    repair: Annotated[
        bool, typer.Option("--repair", help="Rewrite what the ledger and the data determine.")
    ] = False,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore-ledger", help="Replace a damaged ledger with its backup; implies --repair."
        ),
    ] = False,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Check that the ledger, checkpoints, models and tables of a run directory agree.

    Exits with 1 if something is damaged.
    """
    run_dir = RunDir(directory)
    refuse_a_file(directory)
    refuse_misspelt(directory)
    from sweeper.sweep import verify

    done = verify.restore_ledger(run_dir) if restore else None
    left = verify.repair(run_dir, trust_code=trust_code) if repair or restore else ()
    found = verify.verify(run_dir, trust_code=trust_code)
    if as_json:
        actions = {"restored": done, "not_rewritten": left}
        print_json({"run_dir": str(directory), **asdict(found), **actions})
    else:
        print_shown(*filter(None, (done, *left)), *found.looked_at, *map(str, found.damage))
        if not found.damage:
            print_shown("no damage found")
    raise typer.Exit(bool(found.damage))


def doctor(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The directory to write results to.")
    ] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Check whether this machine can run studies: packages, devices, memory, disk, a probe.

    Exits with 1 if something is wrong, and says how to fix it.
    """
    from sweeper.preflight.doctor import MachineFinding, diagnose

    found: list[MachineFinding] = []
    for finding in diagnose(directory):
        found.append(finding)
        if not as_json:
            mark, hint = ("!", f"; {finding.hint}") if finding.hint else (" ", "")
            print_shown(f"{mark} {finding.about}: {finding.found}{hint}")
    wrong = sum(bool(finding.hint) for finding in found)
    if as_json:
        print_json({"findings": [asdict(finding) for finding in found]})
    else:
        print_shown(f"{wrong} to fix" if wrong else "nothing to fix")
    raise typer.Exit(bool(wrong))


def calibrate(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write the constants to."),
    ] = Path("costs.json"),
) -> None:
    """Measure the cost of compiling and training on this machine, for `execution.costs`.

    Takes about a minute; run nothing else on the machine during that time. An existing file is
    replaced only if it contains such constants.
    """
    from sweeper.preflight import calibrate
    from sweeper.results.text_files import refuse_other, write_over

    refuse_other(output, '"fitted_on"')
    console = console_on(sys.stderr)
    with console.status("measuring") as shown:
        record = calibrate.calibrate(
            lambda done, count: shown.update(f"measured {done} of {count} programs")
        )
    write_over(output, json.dumps(record, indent=2) + "\n")
    print_written(output, f'use it in a study with [execution] costs = "{output}"')


RunDirectories = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[DIR ...]",
        help="Run directories, or directories of these; the newest under runs/ if omitted.",
    ),
]


def dashboard(
    directories: RunDirectories = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="The address to listen on; anyone who reaches it can read the page."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 picks a free one.")
    ] = 8321,
) -> None:
    """Show studies in a browser, while they run or afterwards; stop with Ctrl-C.

    The page is read-only, and only this machine can open it unless you set --host. A directory that
    is not a run directory stands for all below it. Waits if a directory has no study yet.
    """
    for directory in directories or [Path("runs")]:
        wait_for_newest_run(directory)
    page = _page(directories)
    from sweeper.dashboard import server

    listening = server.listen(host, port)
    shown = ", ".join(str(study.run_dir.root) for study in page.studies)
    address = server.server_url(listening)
    print_shown(f"the page is at {address} and shows {shown}; press Ctrl-C to stop")
    server.serve(page, host, listening)


def report(
    directories: RunDirectories = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
    ] = Path("report.html"),
) -> None:
    """Write the `dashboard` page as one HTML file that works without a network.

    An existing file is replaced only if it is such a page.
    """
    from sweeper.dashboard.report import MARK
    from sweeper.dashboard.report import report as whole
    from sweeper.results.text_files import refuse_other, write_over

    refuse_other(output, MARK)
    write_over(output, whole(_page(directories, is_report=True)))
    print_written(output, "open it in any browser")


def _page(directories: list[Path] | None, *, is_report: bool = False) -> Page:
    """The page of the studies in or below these directories, or of the newest study."""
    named = directories or [newest_run(Path("runs"))]
    for directory in named:
        refuse_a_file(directory)
        refuse_misspelt(directory)
    below = [run for directory in named for run in runs_in(directory) or [directory]]
    chosen = {run.resolve(): run for run in below}.values()  # each once, however it is named
    from sweeper.dashboard.page import Page
    from sweeper.dashboard.study import PublishedStudy

    studies: list[PublishedStudy] = []
    refusals: list[SetupError] = []
    for directory in chosen:
        try:
            studies.append(PublishedStudy(RunDir(directory)))
        except SetupError as error:
            if not os.path.lexists(RunDir(directory).status):
                raise
            refusals.append(error)
    if not studies:
        raise SetupError(problem for error in refusals for problem in error.problems)
    for error in refusals:
        console_on(sys.stderr).print(str(error), soft_wrap=True)
    return Page(studies, is_report, [*map(str, refusals)])
