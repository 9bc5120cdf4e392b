"""Commands about the machine that studies run on: calibrate."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sweeper.commands.printing import print_written
from sweeper.console import console_on


def calibrate(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the constants.")
    ] = Path("costs.json"),
) -> None:
    """Measure what compiling and training cost on this machine, for `execution.costs`.

    Takes about a minute, in which the machine should do nothing else.
    """
    from sweeper import calibration

    console = console_on(sys.stderr)
    with console.status("measuring") as shown:
        record = calibration.calibrate(
            lambda done, count: shown.update(f"measured {done} of {count} programs")
        )
    output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print_written(output, f'a study uses it by [execution] costs = "{output}"')
