"""Commands that write files for others: init and trial (study files), export-optuna."""

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
        str | None, typer.Argument(metavar="[digits|csv|regression]", help="The kind of study.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The study file to write.")
    ] = Path("study.toml"),
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help="The table with your data.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="NAME", help="The column to predict; guessed if omitted."),
    ] = None,
) -> None:
    """Write a first study file for your own table, or for the digits example.

    Also writes `study.schema.json` next to it, which editors use to complete and check study files.
    """
    from sweeper.cli.new_study import begin

    for told in begin(template, output, data, target):
        console_on(sys.stderr).print(told, soft_wrap=True)
    print_written(output, f"run it with `python -m sweeper run {output}`")


def export_optuna(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The run directory.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="For example sqlite:///study.db.")],
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the study there; default: its own.")
    ] = None,
) -> None:
    """Copy all finished trials to an Optuna storage, for optuna-dashboard and other tools.

    Copies states, values, parameters and curves; load them with `optuna.load_study`.
    """
    run_dir = run_asked(directory)
    from sweeper.study.optuna_export import export_optuna as write

    called, count = write(run_dir, url, name)
    use = f"load it with `optuna.load_study(study_name={called!r}, storage={url!r})`"
    print_written(url, f"{count} trials of '{called}'; {use}, view it: `optuna-dashboard {url}`")


def trial(
    directory: MaybeDirectory = None,
    number: MaybeTrial = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The study file to write.")
    ] = Path("trial.toml"),
) -> None:
    """Write a study file that repeats one trial of a study, bit for bit."""
    run_dir, chosen = trial_asked(directory, number)
    from sweeper.cli.new_study import begin_again

    begin_again(run_dir.root, chosen, output)
    print_written(output, f"run it with `python -m sweeper run {output}`")
