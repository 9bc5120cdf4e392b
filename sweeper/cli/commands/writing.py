"""Commands that write what others read: init and trial study files, export-optuna a storage."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.commands.arguments import MaybeDirectory, MaybeTrial, run_asked, trial_asked
from sweeper.cli.commands.printing import print_written
from sweeper.cli.console import console_on


def init(
    template: Annotated[
        str | None, typer.Argument(metavar="[digits|csv|regression]", help="Which study.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the study file.")
    ] = Path("study.toml"),
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="The table to fill in.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="NAME", help="Its column to predict; else it is guessed."),
    ] = None,
) -> None:
    """Write a study file to begin with: of a table of your own, or of the digits.

    Beside it `study.schema.json` is written, by which editors complete and check study files.
    """
    from sweeper.cli.new_study import begin

    for told in begin(template, output, data, target):
        console_on(sys.stderr).print(told, soft_wrap=True)
    print_written(output, f"`python -m sweeper run {output}` runs it")


def export_optuna(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The run directory.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Such as sqlite:///study.db.")],
    name: Annotated[
        str | None, typer.Option("--name", help="Of the study there; else its own.")
    ] = None,
) -> None:
    """Write all trials that have ended to a storage of Optuna's, for optuna-dashboard and others.

    With their states, values, parameters and curves; `optuna.load_study` loads it.
    """
    run_dir = run_asked(directory)
    from sweeper.study.optuna_export import export_optuna as write

    called, count = write(run_dir, url, name)
    use = f"`optuna.load_study(study_name={called!r}, storage={url!r})` loads it"
    print_written(url, f"{count} trials of '{called}'; {use}, `optuna-dashboard {url}` shows it")


def trial(
    directory: MaybeDirectory = None,
    number: MaybeTrial = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the study file.")
    ] = Path("trial.toml"),
) -> None:
    """Write a study file that runs one trial of a study again, bit for bit."""
    run_dir, chosen = trial_asked(directory, number)
    from sweeper.cli.new_study import begin_again

    begin_again(run_dir.root, chosen, output)
    print_written(output, f"`python -m sweeper run {output}` runs it")
