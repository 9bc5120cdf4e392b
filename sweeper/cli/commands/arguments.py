"""Arguments and options shared by several commands."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeper.cli.console import console_on
from sweeper.errors import Problem, SetupError, StudyError
from sweeper.results.run_directories import near_run, newest_run
from sweeper.rundir import RunDir, refuse_links

if TYPE_CHECKING:
    from sweeper.config import StudyConfig

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (TOML).")]
RunDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The run directory.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one setting; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


MaybeDirectory = Annotated[
    str | None,
    typer.Argument(metavar="[DIR]", help="A run directory; the newest under runs/ if omitted."),
]
MaybeTrial = Annotated[
    str | None,
    typer.Argument(metavar="[TRIAL]", help="The trial's number; the best trial if omitted."),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Move an existing run directory aside and start again.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only errors.")]
QuoteFormulas = Annotated[
    bool,
    typer.Option(
        "--quote-formulas", help="Put ' before CSV cells that a spreadsheet would run as formulas."
    ),
]
AnswerAlone = Annotated[bool, typer.Option("--quiet", help="Print only the result and errors.")]
ModelDirectory = Annotated[
    Path,
    typer.Option(
        "--to", "-o", metavar="DIR", help="The directory to write; it must not exist yet."
    ),
]
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Run code that the files name even if it may not be yours; lift size limits.",
    ),
]
LearnFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--learn-from",
        metavar="DIR|URL#NAME",
        help="Let the sampler of a new study learn from the trials of an earlier one, in a run "
        "directory or an Optuna storage; repeatable.",
    ),
]
BEST = "best"
_MAX_DIGITS = 18  # of 64-bit integers, whatever the digits are


def find_run(directory: str | Path | None) -> RunDir:
    """The run directory that a command names, or else the newest under runs/.

    Raises:
        StudyError: it is a file.
        SetupError: there is none, or it contains a link.
    """
    path = newest_run(Path("runs")) if directory is None else Path(directory)
    refuse_a_file(path)
    refuse_misspelt(path)
    refuse_links(RunDir(path))
    return RunDir(path)


def find_tables(directory: str | Path | None) -> RunDir:
    """Like `find_run`, for a command that reads the tables; warns if they are not up to date."""
    run_dir = find_run(directory)
    warn_if_behind(run_dir)
    return run_dir


def warn_if_behind(run_dir: RunDir) -> None:
    """Warn if the tables lack rows of the ledger, unless the study runs."""
    from sweeper.sweep.unpublished import describe_unpublished

    if warning := describe_unpublished(run_dir):
        console_on(sys.stderr).print(warning, soft_wrap=True)


def find_trial(directory: str | None, trial: str | None) -> tuple[RunDir, int | None]:
    """The run directory and the trial that a command names; None means the best trial.

    A single argument that is a number or `best` is the trial.

    Raises:
        StudyError: the trial is not a number.
        SetupError: no run directory was found.
    """
    if trial is None and directory is not None and (directory == BEST or directory.isdecimal()):
        directory, trial = None, directory
    if trial is not None and trial != BEST and not trial.isdecimal():
        hint = f"use a number or {BEST}"
        raise StudyError(Problem("", "TRIAL", f"'{trial}' is not a trial number", hint))
    if trial is not None and trial != BEST and len(trial) > _MAX_DIGITS:
        found, hint = f"no trial has a number of {len(trial)} digits", f"use a number or {BEST}"
        raise StudyError(Problem("", "TRIAL", found, hint))
    number = None if trial in (None, BEST) else int(str(trial))
    return find_tables(directory), number


def refuse_without_effect(why: str, **given: bool) -> None:
    """Refuse options that change nothing, by their names in Python; `why` follows their names.

    Raises:
        StudyError: with each of those that are given.
    """
    idle = ["--" + name.replace("_", "-") for name, is_given in given.items() if is_given]
    if idle:
        raise StudyError(Problem("", name, f"has no effect {why}", "remove it") for name in idle)


def column_names(text: str | None) -> list[str] | None:
    """The names in `a,b`; one that contains a comma is in double quotes, as in CSV."""
    if text is None:
        return None
    try:
        names = next(csv.reader([text], skipinitialspace=True)) or [""]
    except csv.Error:  # a line break, which no column is found with
        names = [text]
    return [name.strip() for name in names]


def load_config(study: Path, overrides: list[str] | None) -> StudyConfig:
    """The study, read before anything slow is imported, since most errors are in the file."""
    from sweeper import config

    return config.load(study, overrides or ())


def refuse_a_file(path: Path) -> None:
    """Raise a StudyError if a file was given instead of a run directory."""
    if path.is_file():
        meant = _run_dir_of(path)
        hint = "name the run directory of the study" + (f": {meant}" if meant else "")
        raise StudyError(Problem(str(path), "", "a file, not a run directory", hint))


def refuse_misspelt(path: Path) -> None:
    """Raise a SetupError if a run directory does not exist and another one has a similar name."""
    if near := near_run(path):
        raise SetupError(Problem(str(path), "", "no such run directory", near))


def _run_dir_of(path: Path) -> Path | None:
    """The run directory that contains the file, or that the file names if it is a study file."""
    from sweeper.config.load import named_run_dir
    from sweeper.sweep.session.directory import holds_study

    around = (parent for parent in (*path.parents,)[:2] if holds_study(RunDir(parent)))
    return next(around, None) or named_run_dir(path)
