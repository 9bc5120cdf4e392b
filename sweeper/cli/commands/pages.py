"""Commands that show results in a browser: dashboard, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeper.cli.commands.arguments import refuse_a_file
from sweeper.cli.commands.printing import print_shown, print_written
from sweeper.results.status import newest_run
from sweeper.rundir import RunDir

if TYPE_CHECKING:
    from sweeper.dashboard.page import Page

RunDirectories = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[DIR ...]", help="Run directories; the newest under runs/ if omitted."),
]


def dashboard(
    directories: RunDirectories = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="The address to listen on; anyone who reaches it can read the page."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0 picks a free one.")] = 8321,
) -> None:
    """Show studies in a browser, while they run or afterwards; stop with Ctrl-C.

    The page is read-only, and only this machine can open it unless you set --host.
    """
    page = _page(directories)
    from sweeper.dashboard import server

    listening = server.listen(host, port)
    shown = ", ".join(str(study.run_dir.root) for study in page.studies)
    address = server.address_of(listening)
    print_shown(f"the page is at {address}; it shows {shown}; press Ctrl-C to stop")
    server.serve(page, host, listening)


def report(
    directories: RunDirectories = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
    ] = Path("report.html"),
) -> None:
    """Write the `dashboard` page as one HTML file that works without a network."""
    page = _page(directories, is_report=True)
    from sweeper.dashboard.report import report as whole
    from sweeper.results.text_files import write_over

    write_over(output, whole(page))
    print_written(output, "open it in any browser")


def _page(directories: list[Path] | None, *, is_report: bool = False) -> Page:
    """The page of the studies in these run directories, or of the newest study."""
    chosen = directories or [newest_run(Path("runs"))]
    for directory in chosen:
        refuse_a_file(directory)
    from sweeper.dashboard.page import Page
    from sweeper.dashboard.study import PublishedStudy

    return Page([PublishedStudy(RunDir(directory)) for directory in chosen], is_report)
