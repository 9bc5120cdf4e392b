"""What commands say on standard output: JSON, tables, or where something was written."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from sweeper.cli.console import console_on
from sweeper.results.status import Status
from sweeper.rundir import RunDir


def print_json(record: Mapping[str, Any]) -> None:
    print(json.dumps(record, indent=2, default=str))


def print_shown(*parts: RenderableType) -> None:
    """Each part on lines of its own."""
    console_on(sys.stdout).print(*parts, sep="\n")


def print_written(output: Path | str, use: str) -> None:
    """Say what the file at `output` is good for now that it is there."""
    console_on(sys.stdout).print(f"written to {output}; {use}", soft_wrap=True)


def print_exported(number: int, output: Path) -> None:
    """Say what the directory `output` is good for, now that a model is in it."""
    from sweeper.export.card import trust_needed
    from sweeper.programs.saved_file import read_saved

    by_command = f"`python -m sweeper predict {output} new.csv` predicts rows, "
    record = read_saved(output, trusted=True).record
    predicts, trust = bool(record["data"]["targets"]), trust_needed(record)
    print_written(
        output,
        f"trial {number}; README.md tells what it is and is good for, "
        f'{by_command if predicts else ""}`sweeper.load("{output}")` loads it in Python'
        f"{f'; {trust}' if trust else ''}",
    )


def status_record(run_dir: RunDir, status: Status) -> dict[str, Any]:
    """What `--json` answers where a command tells how a study stands."""
    return {"run_dir": str(run_dir.root), **asdict(status)}
