"""Commands about trained models: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sweeper.commands.arguments import RunDirectory, refuse_a_file
from sweeper.commands.printing import print_written


def export(
    directory: RunDirectory,
    number: Annotated[
        int | None, typer.Option("--trial", metavar="NUMBER", help="Which one; else the best.")
    ] = None,
    member: Annotated[
        int,
        typer.Option("--member", metavar="NUMBER", help="Of its replicates and folds, from 0 on."),
    ] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the model.")
    ] = Path("model.safetensors"),
) -> None:
    """Write the model of a trial, with all that it takes to use it elsewhere, as one file."""
    refuse_a_file(directory)
    from sweeper.export import export as write

    write(directory, number, member, output)
    print_written(output, f'`sweeper.load_model("{output}")` loads it in Python')
