"""Commands that write files for others, or print their schemas.

These are init and trial, which write study files; export-optuna; import-optuna; and schema.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from sweeper.cli.commands.arguments import (
    MaybeDirectory,
    MaybeTrial,
    find_tables,
    find_trial,
    load_config,
)
from sweeper.cli.commands.printing import CommandGroup, print_json, print_shown, print_written
from sweeper.cli.console import announce, console_on
from sweeper.errors import Problem, StudyError, SweeperError, counted, listed, printable
from sweeper.templates.advice import Effort


def init(
    template: Annotated[
        str | None,
        typer.Argument(
            metavar="[digits|csv|regression]",
            help="The digits example, or a table: csv predicts classes, regression numbers; with "
            "--data, guessed if omitted.",
        ),
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
    effort: Annotated[
        Effort, typer.Option("--effort", help="How much to search: trials, epochs and widths.")
    ] = Effort.NORMAL,
) -> None:
    """Write a first study file for your own table, or for the digits example.

    Also writes `study.schema.json` next to it, which editors use to complete and check study files.
    """
    from sweeper.cli.new_study import begin

    console = console_on(sys.stderr)
    with nullcontext() if data is None else announce(f"reading {printable(data.name)}"):
        messages = begin(template, output, data, target, effort)
    for message in messages:
        console.print(message, soft_wrap=True)
    can_run = True
    if data is not None:
        with announce("predicting how long the study takes"):
            message, can_run = _time_of(output, effort)
        console.print(message, soft_wrap=True)
    then = "run it with" if can_run else "correct it, then run it with"
    print_written(output, f"{then} `python -m sweeper run {quote(str(output))}`")


def _time_of(study_file: Path, effort: Effort) -> tuple[str, bool]:
    """How long a study will take, or why it cannot be run yet, and whether it can be run."""
    from sweeper.api import plan
    from sweeper.config import load
    from sweeper.results.formatting import duration

    try:
        predicted = plan(load(study_file)).predicted
    except SweeperError as error:
        return f"{study_file} cannot be run yet: {error}", False
    ways = {
        Effort.QUICK: "search less with `--effort quick`",
        Effort.NORMAL: "search with `--effort normal`",
        Effort.THOROUGH: "search more with `--effort thorough`",
    }
    others = ", or ".join(way for one, way in ways.items() if one is not effort)
    return f"it takes about {duration(predicted.total_s)} on this machine; {others}", True


def export_optuna(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The run directory.")],
    url: Annotated[
        str, typer.Argument(metavar="URL[#NAME]", help="For example sqlite:///study.db.")
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the study there; default: its own.")
    ] = None,
) -> None:
    """Copy all finished trials to an Optuna storage, for optuna-dashboard and other tools.

    Copies states, values, parameters and curves; load them with `optuna.load_study`. If the
    storage already has the study, the missing trials are added.
    """
    _refuse_empty("--name", () if name is None else (name,), "omit it to keep the study's own name")
    run_dir = find_tables(directory)
    from sweeper.study.optuna_export import export_optuna as write
    from sweeper.study.optuna_storage import split_name, without_password

    called, count, held = write(run_dir, url, name)
    shown = without_password(split_name(url)[0])
    use = f"load it with `optuna.load_study(study_name={called!r}, storage={shown!r})`"
    view = f"view it: `optuna-dashboard {shown}`"
    print_written(shown, f"{counted(count, 'new trial')} of '{called}'; {use}, {view}")
    if held:
        have, hold = ("has", "holds its number") if held == 1 else ("have", "hold their numbers")
        found = f"{counted(held, 'trial')} that {have} not ended {hold} as RUNNING"
        print_shown(f"{found}; export again when the study has ended")


def _refuse_empty(option: str, names: Sequence[str], hint: str) -> None:
    """Refuse empty names, which would be taken for an option that was not given."""
    if any(not name.strip() for name in names):
        raise StudyError(Problem("", option, "the name is empty", hint))


def import_optuna(
    url: Annotated[
        str, typer.Argument(metavar="URL[#NAME]", help="For example sqlite:///study.db#mlp.")
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The study there, if it has several.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--to", "-o", metavar="DIR", help="The directory to write; default: runs/NAME."
        ),
    ] = None,
    renamed: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="NAME=KEY",
            help="The setting that a parameter is called here, such as lr=optimizer.lr; "
            "repeatable.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", metavar="NAME", help="What the objective is called here; one for each."
        ),
    ] = None,
) -> None:
    """Write the results of an Optuna study as a run directory, to view them and learn from them.

    Commands that show results work on it. Importing again replaces it.
    """
    pairs = [text.partition("=") for text in renamed or ()]
    for text, (old, _, key) in zip(renamed or (), pairs, strict=True):
        if not (old and key):
            hint = "write e.g. --map lr=optimizer.lr"
            raise StudyError(Problem("--map", text, "not of the form NAME=KEY", hint))
    _refuse_empty("--metric", metric or (), "write e.g. --metric val_accuracy")
    names = {old.strip(): key.strip() for old, _, key in pairs}
    if len(names) < len(pairs):
        found = "a parameter is mapped twice"
        raise StudyError(Problem("--map", " ".join(renamed or ()), found, "map each of them once"))
    from sweeper.results import formatting
    from sweeper.results.status import read_status
    from sweeper.study.optuna_import import has_metric, named_like_settings, without_settings
    from sweeper.study.optuna_import import import_optuna as write

    run_dir, count = write(url, name, output, names, metric or ())
    root = quote(str(run_dir.root))
    use = f"view it with `python -m sweeper report {root}`"
    learn = f", learn from it with `run STUDY --learn-from {root}`"
    if not has_metric(run_dir):
        learn = "; to learn from it, import it again with --metric NAME, such as val_accuracy"
    states = formatting.states(read_status(run_dir))
    ended = f"{counted(count, 'trial')}{states and f': {states}'}"
    print_written(run_dir.root, f"{ended}; {use}{learn}")
    if same := named_like_settings(run_dir):
        pairs = listed([f"{parameter} is {key}" for parameter, key in same.items()])
        print_shown(f"by name, {pairs}; if one is something else, use --map")
    for parameter, key in without_settings(run_dir).items():
        way = f"; if it is {key}, import again with --map {parameter}={key}" if key else ""
        print_shown(printable(f"{parameter} is not a setting{way}"))


def trial(
    directory: MaybeDirectory = None,
    number: MaybeTrial = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The study file to write.")
    ] = Path("trial.toml"),
) -> None:
    """Write a study file that repeats one trial of a study, bit for bit."""
    run_dir, chosen = find_trial(directory, number)
    from sweeper.cli.new_study import begin_again

    begin_again(run_dir.root, chosen, output)
    print_written(output, f"run it with `python -m sweeper run {quote(str(output))}`")


schema = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Print the schema of study files, or the columns of the results, as JSON.",
)


@schema.command("study")
def schema_of_studies() -> None:
    """Print the JSON Schema of study files; editors find it by `#:schema ./study.schema.json`."""
    from sweeper.config.json_schema import study_schema

    print_json(study_schema())


@schema.command("results")
def schema_of_results(
    study: Annotated[
        Path | None,
        typer.Argument(metavar="[STUDY]", help="A study file, to include its own columns."),
    ] = None,
) -> None:
    """Print the columns of the published tables: name, type, meaning and guarantees."""
    config = None if study is None else load_config(study, None)
    from sweeper.results.columns import SCHEMA_VERSION
    from sweeper.results.schema import columns_of_tables

    tables = columns_of_tables(config)
    print_json({"schema_version": SCHEMA_VERSION, "tables": tables})
