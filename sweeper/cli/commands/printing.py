"""Print to standard output: JSON, tables, lists of commands, or where something was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from typer.core import TyperGroup

from sweeper.cli.console import answers, console_on
from sweeper.results.baseline import read_baseline
from sweeper.results.status import Status
from sweeper.rundir import RunDir

if TYPE_CHECKING:
    from sweeper.export.formats import Written

_MAX_SENTENCE = 1000  # characters


class CommandGroup(TyperGroup):
    """Commands whose list wraps the first sentence of each, which Click cuts to one line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first sentence of its help."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(_MAX_SENTENCE))
                    for name in self.list_commands(ctx)
                    if (command := self.get_command(ctx, name)) is not None
                ]
            )


def print_json(record: Mapping[str, Any]) -> None:
    print(json.dumps(record, indent=2, default=str), file=answers())


def print_shown(*parts: RenderableType) -> None:
    """Print each part on its own lines."""
    console_on(answers()).print(*parts, sep="\n")


def print_written(output: Path | str, use: str) -> None:
    """Report that `output` was written, and how to use it."""
    console_on(answers()).print(f"written to {output}; {use}", soft_wrap=True)


def print_exported(number: int | None, output: Path) -> None:
    """Report that a trial, or an ensemble if None, was exported to `output`, and how to use it."""
    from sweeper.export.card import trust_needed, which_model
    from sweeper.export.members import first_model
    from sweeper.programs.saved_file import read_saved

    record = read_saved(first_model(output), trusted=True).record
    what = "the ensemble" if number is None else f"trial {number}"
    if number is not None and (which := which_model(record)):
        what += f" ({which}; `--member` exports another)"
    ways = [f'load it in Python with `sweeper.load("{output}")`']
    if record["data"]["targets"]:
        place = quote(str(output))
        ways.insert(0, f"predict rows with `python -m sweeper predict {place} new.csv`")
    trust = trust_needed(record)
    console = console_on(answers())
    console.print(
        f"{what}, described in {output}/README.md, was written to {output}", soft_wrap=True
    )
    console.print(f"{', or '.join(ways)}{f'; {trust}' if trust else ''}", soft_wrap=True)


def print_converted(written: Written) -> None:
    """Report that a trial or an ensemble was converted, and how it was checked."""
    what = "the ensemble" if written.trial is None else f"trial {written.trial}"
    file, checked = written.file, written.checked
    console = console_on(answers())
    console.print(
        f"{what}, described in {file.parent}/README.md, was written to {file}", soft_wrap=True
    )
    console.print(str(checked), soft_wrap=True)


def status_record(run_dir: RunDir, status: Status) -> dict[str, Any]:
    """The record that `--json` prints for the status of a study, with its simple models."""
    return {"run_dir": str(run_dir.root), **asdict(status), "baseline": baseline_record(run_dir)}


def baseline_record(run_dir: RunDir) -> dict[str, Any] | None:
    """What `--json` prints about the simple models of a study; None if they are not known."""
    baseline = read_baseline(run_dir)
    return None if baseline is None else asdict(baseline)
