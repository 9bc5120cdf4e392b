"""The commands. This module, `live` and `answers` are the only ones that print.

Progress and errors go to standard error, answers to standard output. What is slow to import
(JAX, Optuna, pandas) is imported by the commands that need it: `status` needs none of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sweeper import answers, wording
from sweeper.console import console_on, silence
from sweeper.errors import Problem, SetupError, StudyError, SweeperError
from sweeper.interrupts import INTERRUPTED, interruptible, leave_on_interrupt
from sweeper.live import QuietView, View, view_for
from sweeper.results.status import Status, newest_run, read_status
from sweeper.rundir import RunDir

if TYPE_CHECKING:
    from sweeper.config import StudyConfig

BEST_SHOWN = 10

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Hyperparameter sweeps for JAX networks whose architectures differ from trial to trial.",
)

schema = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Print the form of study files, or the columns of the results, as JSON.",
)
app.add_typer(schema, name="schema")

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file (TOML).")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another value for one setting; repeatable."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]


@app.command()
def run(
    study: StudyFile,
    overrides: Overrides = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Move an old run directory aside and start anew.")
    ] = False,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Go by the lattice that `plan --json` wrote."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a study, or go on with it where it was left.

    Ctrl-C once stops at the end of the round, with everything committed; twice at once.
    """
    loaded = _loaded(study, overrides)
    view: View = QuietView() if quiet else view_for(console_on(sys.stderr))
    with view:
        from sweeper import api  # takes seconds, so the view shows already

        with interruptible(view.say) as stop:
            status = api.run(loaded, fresh=fresh, plan_file=plan_file, observer=view, stop=stop)
    run_dir = RunDir(loaded.run_dir)
    if as_json:
        _print_json(_status_record(run_dir, status))
    elif not quiet:
        _print_results(run_dir, status)
    raise typer.Exit(exit_code(status))


@app.command()
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
) -> None:
    """Write a study file to begin with: of a table of your own, or of the digits.

    Beside it `study.schema.json` is written, by which editors complete and check study files.
    """
    from sweeper.authoring import begin

    begin(template, output, data)
    _tell_written(output, f"`python -m sweeper run {output}` runs it")


@app.command()
def validate(study: StudyFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check a study file, its data and its run directory; train nothing."""
    loaded = _loaded(study, overrides)
    from sweeper import api

    checked = asdict(api.check(loaded))
    if as_json:
        _print_json(checked)
    else:
        facts = {name: value for name, value in checked.items() if value is not None}
        console_on(sys.stdout).print(answers.pairs({"study_file": study, **facts}))


@app.command()
def plan(study: StudyFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show how the trials of a study would be placed; train nothing."""
    loaded = _loaded(study, overrides)
    from sweeper import api

    preview = api.plan(loaded).as_dict()
    if as_json:
        _print_json(preview)
    else:
        console_on(sys.stdout).print(*answers.plan(preview), sep="\n")


@app.command()
def trial(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The run directory.")],
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="The trial's number, or best.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the study file.")
    ] = Path("trial.toml"),
) -> None:
    """Write a study file that runs one trial of a study again, bit for bit."""
    _refuse_a_file(directory)
    if number != "best" and not number.isdecimal():
        raise StudyError(Problem("", "NUMBER", f"'{number}' is no number", "write one, or best"))
    from sweeper.authoring import begin_again

    begin_again(directory, None if number == "best" else int(number), output)
    _tell_written(output, f"`python -m sweeper run {output}` runs it")


@schema.command("study")
def schema_of_studies() -> None:
    """Print the JSON Schema of study files; an editor uses it by `#:schema ./study.schema.json`."""
    from sweeper.config.json_schema import study_schema

    _print_json(study_schema())


@schema.command("results")
def schema_of_results(
    study: Annotated[
        Path | None, typer.Argument(metavar="[STUDY]", help="A study file, for its own columns.")
    ] = None,
) -> None:
    """Print the columns of the published tables: name, type, meaning, what they promise."""
    config = None if study is None else _loaded(study, None)
    from sweeper.results.columns import SCHEMA_VERSION
    from sweeper.results.schema import columns_of_tables

    tables = columns_of_tables(config)
    _print_json({"schema_version": SCHEMA_VERSION, "tables": tables})


@app.command()
def calibrate(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the constants.")
    ] = Path("costs.json"),
) -> None:
    """Measure what compiling and training cost on this machine, for `execution.costs`.

    Takes about a minute, in which the machine should do nothing else.
    """
    from sweeper import calibration

    console = console_on(sys.stderr)
    with console.status("measuring") as shown:
        record = calibration.calibrate(
            lambda done, count: shown.update(f"measured {done} of {count} programs")
        )
    output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    _tell_written(output, f'a study uses it by [execution] costs = "{output}"')


@app.command()
def status(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]", help="A run directory; the newest under runs/ if left out."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how a study stands, while it runs or afterwards."""
    run_dir = RunDir(directory or newest_run(Path("runs")))
    _refuse_a_file(run_dir.root)
    standing = read_status(run_dir)
    if as_json:
        _print_json(_status_record(run_dir, standing))
    else:
        console_on(sys.stdout).print(answers.standing(run_dir, standing))


def _tell_written(output: Path, use: str) -> None:
    console_on(sys.stdout).print(f"written to {output}; {use}", soft_wrap=True)


def _refuse_a_file(path: Path) -> None:
    if path.is_file():
        mend = "name the run directory of the study, such as runs/digits"
        raise StudyError(Problem(str(path), "", "a file, and no run directory", mend))


def _loaded(study: Path, overrides: list[str] | None) -> StudyConfig:
    """The study, read before anything slow is imported: most refusals come from here."""
    from sweeper import config

    return config.load(study, overrides or ())


def _print_version(wanted: bool) -> None:
    if wanted:
        console_on(sys.stdout).print(f"sweeper {version('sweeper')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run a command; a refusal ends the program with its message and its exit code."""
    leave_on_interrupt()
    try:
        app(prog_name="sweeper")
    except SweeperError as error:
        _refuse(error)
    except BrokenPipeError:  # whoever read the answer has read enough
        silence(sys.stdout)
    except OSError as error:  # what no command foresaw of disks and permissions
        _refuse(SetupError(Problem("", "", str(error), "")))
    sys.exit(0)


def _refuse(error: SweeperError) -> NoReturn:
    console_on(sys.stderr).print(str(error), soft_wrap=True)
    sys.exit(error.exit_code)


def exit_code(status: Status) -> int:
    """What a run that ended as `status` says ends the program with."""
    if status.state == "interrupted":
        return INTERRUPTED
    return 0 if status.state == "finished" and status.counts.get("COMPLETE", 0) else 1


def _print_json(record: Mapping[str, Any]) -> None:
    print(json.dumps(record, indent=2, default=str))


def _status_record(run_dir: RunDir, status: Status) -> dict[str, Any]:
    return {"run_dir": str(run_dir.root), **asdict(status)}


def _print_results(run_dir: RunDir, status: Status) -> None:
    """How trials ended, the best of them, and where everything is."""
    from sweeper.results.read import open_results

    console = console_on(sys.stdout)
    console.print(wording.ended(status.counts), "", sep="\n")
    best = open_results(run_dir.root).best(BEST_SHOWN)
    if len(best):
        known = best.astype(object).where(best.notna(), None)  # one None for what is null
        console.print(answers.best_trials(status.metric, known.to_dict("records")), "")
    elif status.state == "finished":
        console.print("no trial completed; the columns reason and error_message tell why\n")
    console.print(answers.paths(run_dir))
    if status.state == "interrupted":
        console.print(f"stopped after round {status.round}; the same command goes on from there")
