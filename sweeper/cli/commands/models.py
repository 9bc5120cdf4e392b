"""Commands about models and programs: export, predict, check-program."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from sweeper.cli.commands.arguments import (
    AsJson,
    MaybeDirectory,
    MaybeTrial,
    ModelDirectory,
    Overrides,
    QuoteFormulas,
    TrustCode,
    column_names,
    find_tables,
    find_trial,
    load_config,
    refuse_without_effect,
)
from sweeper.cli.commands.printing import (
    print_converted,
    print_exported,
    print_json,
    print_shown,
    print_written,
)
from sweeper.cli.console import announce, answers, console_on
from sweeper.errors import Problem, ProblemKind, StudyError, counted, printable
from sweeper.results import formatting
from sweeper.results.ensemble import outdated, read_ensemble

if TYPE_CHECKING:
    from sweeper.preflight.program_rules import ProgramFinding

ENSEMBLE: Final = "ensemble"


def export(
    directory: MaybeDirectory = None,
    trial: MaybeTrial = None,
    member: Annotated[
        int,
        typer.Option("--member", metavar="NUMBER", help="The replicate or fold, counted from 0."),
    ] = 0,
    output: ModelDirectory = Path("best"),
    kind: Annotated[
        Literal["equinox", "onnx", "stablehlo"],
        typer.Option(
            "--format",
            help="equinox: for sweeper, or for Equinox and NumPy. onnx: one file that predicts raw "
            "rows in ONNX Runtime. stablehlo: a program for prepared rows, which JAX alone calls.",
        ),
    ] = "equinox",
    trust_code: TrustCode = False,
) -> None:
    """Write the model of a trial, and everything needed to use it elsewhere, to a directory.

    With `ensemble` as TRIAL, write the trials that `sweeper ensemble` selected, as one model.
    """
    if directory == ENSEMBLE and trial is not None:
        found = f"'{trial}' has no effect after '{ENSEMBLE}'"
        hint = f"remove one of them, or write ./{ENSEMBLE} for a run directory of this name"
        raise StudyError(Problem("", "TRIAL", found, hint))
    if ENSEMBLE in (directory, trial):
        refuse_without_effect("for an ensemble", member=bool(member))
        run_dir = find_tables(None if directory == ENSEMBLE else directory)
        number: int | Literal["ensemble"] | None = ENSEMBLE
    else:
        run_dir, number = find_trial(directory, trial)
    from sweeper.results.listing import read_trials

    known, is_best = read_trials(run_dir), number is None  # a damaged table is refused first
    if kind != "equinox":
        from sweeper.export.formats import export_as

        written = export_as(kind, run_dir.root, number, member, output, trust_code=trust_code)
        number = written.trial
    elif number == ENSEMBLE:
        from sweeper.export.ensemble_directory import export_ensemble

        written, number = None, None
        export_ensemble(run_dir.root, output, trust_code=trust_code)
    else:
        from sweeper.export import export as write

        written, number = None, write(run_dir.root, number, member, output, trust_code=trust_code)
    warning = None
    if isinstance(number, int):
        row = known.row(number)
        warning = None if row is None else formatting.violates(row, is_best=is_best)
    elif chosen := read_ensemble(run_dir):
        warning = outdated(chosen, run_dir, known.n_complete, known.study["settings"])
    if warning:
        print_shown(warning)
    if written is None:
        print_exported(number, output)
    else:
        print_converted(written)


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A directory that `export` wrote.")
    ],
    rows: Annotated[
        Path,
        typer.Argument(metavar="ROWS", help="The table: .csv, .tsv, .txt, .parquet, .npz or .npy."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .csv, .txt or .parquet file; default: CSV on standard output.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="A,B,...",
            help="Columns of ROWS to copy to the output unchanged, or all.",
        ),
    ] = None,
    quote_formulas: QuoteFormulas = False,
    trust_code: TrustCode = False,
) -> None:
    """Predict the rows of a table and write CSV or Parquet, with the rows in the same order.

    For classification each class has a column with its probability; regression outputs are in the
    units of the data. Kept columns come first. If a kept column has the name NAME of a prediction,
    the prediction is called `predicted NAME`.
    """
    from sweeper.export.predict import enough_memory_for, predict_table
    from sweeper.results.text_files import check_new_table, write_new

    is_parquet = output is not None and output.suffix.lower() == ".parquet"
    if is_parquet:
        refuse_without_effect("on a Parquet file", quote_formulas=quote_formulas)
    if output is not None:
        check_new_table(output)
    console, warnings = console_on(sys.stderr), list[str]()
    try:
        with announce("predicting"):
            predictions = predict_table(
                model, rows, warnings.append, column_names(keep) or [], trust_code=trust_code
            )
    finally:
        for warning in warnings:
            console.print(printable(warning), soft_wrap=True)
    with enough_memory_for(rows):
        content = (
            predictions.as_parquet()
            if is_parquet
            else predictions.as_csv(quote_formulas=quote_formulas)
        )
    if output is None:
        print(content, end="", file=answers())
    else:
        write_new(output, content)
        print_written(output, counted(len(predictions), "row"))


def check_program(
    program: Annotated[
        str, typer.Argument(metavar="MODULE:CLASS", help="Your own training program, by its name.")
    ],
    study: Annotated[
        Path | None,
        typer.Option(
            "--study", metavar="STUDY", help="Use the data, model and settings of this study."
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Check that your own training program follows the rules; runs a few epochs, writes nothing."""
    given = [f"train.program={program}", *(overrides or ())]
    found: list[ProgramFinding] = []
    try:
        config = None if study is None else load_config(study, given)
        from sweeper.preflight.program_rules import findings, premise, study_of

        if config is None:
            config = study_of(program, overrides or ())
            if not as_json:
                console_on(sys.stderr).print(premise(config), soft_wrap=True)
        for finding in findings(config, knows_metrics=study is not None):
            found.append(finding)
            if not as_json:
                print_shown(str(finding))
    except StudyError as error:
        problems = (
            _of_program(one, program, has_study=study is not None) for one in error.problems
        )
        raise StudyError(problems) from None
    if as_json:
        print_json({"program": program, "promises": [asdict(finding) for finding in found]})
    raise typer.Exit(any(finding.found for finding in found))


def _of_program(problem: Problem, program: str, *, has_study: bool) -> Problem:
    """A problem in terms of the program that the command names, not of overrides."""
    from sweeper.config.toml import COMMAND_LINE

    if has_study and (problem.where, problem.key) != (COMMAND_LINE, "train.program"):
        return problem
    hint = problem.hint
    if not has_study and problem.kind is ProblemKind.MISSING:
        hint = f"write --set {problem.key}=..., or give a study with --study"
    return replace(problem, where=program, hint=hint)
