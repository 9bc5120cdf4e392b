"""Commands that print schemas: schema study, schema results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.commands.arguments import loaded
from sweeper.cli.commands.printing import print_json

schema = typer.Typer(
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
    config = None if study is None else loaded(study, None)
    from sweeper.results.columns import SCHEMA_VERSION
    from sweeper.results.schema import columns_of_tables

    tables = columns_of_tables(config)
    print_json({"schema_version": SCHEMA_VERSION, "tables": tables})
