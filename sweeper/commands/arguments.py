"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeper.errors import Problem, StudyError

if TYPE_CHECKING:
    from sweeper.config import StudyConfig

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (TOML).")]
RunDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The run directory.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another value for one setting; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]


def loaded(study: Path, overrides: list[str] | None) -> StudyConfig:
    """The study, read before anything slow is imported: most refusals come from here."""
    from sweeper import config

    return config.load(study, overrides or ())


def refuse_a_file(path: Path) -> None:
    """Raise a StudyError where the run directory that was named is a file."""
    if path.is_file():
        mend = "name the run directory of the study, such as runs/digits"
        raise StudyError(Problem(str(path), "", "a file, and no run directory", mend))
