"""Commands about the machine that studies run on: doctor, calibrate."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.commands.arguments import AsJson
from sweeper.cli.commands.printing import print_json, print_shown, print_written
from sweeper.cli.console import console_on


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

    Takes about a minute; run nothing else on the machine during that time.
    """
    from sweeper.preflight import calibrate
    from sweeper.results.text_files import write_over

    console = console_on(sys.stderr)
    with console.status("measuring") as shown:
        record = calibrate.calibrate(
            lambda done, count: shown.update(f"measured {done} of {count} programs")
        )
    write_over(output, json.dumps(record, indent=2) + "\n")
    print_written(output, f'use it in a study with [execution] costs = "{output}"')
