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
        Path, typer.Argument(metavar="[DIR]", help="Where results would be written.")
    ] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Look whether this machine is fit for studies: packages, devices, memory, disk, a probe.

    Ends with 1 where something is wrong, and tells the fix.
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
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the constants.")
    ] = Path("costs.json"),
) -> None:
    """Measure what compiling and training cost on this machine, for `execution.costs`.

    Takes about a minute, in which the machine should do nothing else.
    """
    from sweeper.preflight import calibrate
    from sweeper.results.text_files import write_over

    console = console_on(sys.stderr)
    with console.status("measuring") as shown:
        record = calibrate.calibrate(
            lambda done, count: shown.update(f"measured {done} of {count} programs")
        )
    write_over(output, json.dumps(record, indent=2) + "\n")
    print_written(output, f'a study uses it by [execution] costs = "{output}"')
