"""The command line: `commands`, put together, and how a refusal ends the program.

Progress and errors go to standard error, answers to standard output.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from sweeper.commands import listing, looking, machine, models, pages, running, winner, writing
from sweeper.commands.printing import print_shown
from sweeper.commands.schema import schema
from sweeper.console import console_on, silence
from sweeper.errors import Problem, SetupError, SweeperError
from sweeper.faults import VARIABLE, FaultPlanError, plan_faults
from sweeper.interrupts import INTERRUPTED, Left, ignore_interrupts, leave_on_interrupt

COMMANDS = (
    running.run,
    writing.init,
    running.validate,
    running.plan,
    running.stop,
    looking.status,
    listing.trials,
    listing.show,
    listing.best,
    looking.verify,
    pages.dashboard,
    pages.report,
    writing.trial,
    writing.export_optuna,
    winner.confirm,
    winner.reproduce,
    winner.refit,
    models.export,
    models.predict,
    models.check_program,
    machine.doctor,
    machine.calibrate,
)

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Hyperparameter sweeps for JAX networks whose architectures differ from trial to trial.",
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(schema, name="schema")


def _print_version(wanted: bool) -> None:
    if wanted:
        print_shown(f"sweeper {version('sweeper')}")
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
    try:
        leave_on_interrupt()
        faulthandler.enable(all_threads=False)  # a crash in native code tells where it was
        plan_faults(os.environ.get(VARIABLE))
        app(prog_name="sweeper")
    except SweeperError as error:
        _refuse(error)
    except FaultPlanError as error:
        _refuse(SetupError(str(error)))
    except BrokenPipeError:  # whoever read the answer has read enough
        silence(sys.stdout)
    except Left:
        sys.exit(INTERRUPTED)
    except OSError as error:  # what no command foresaw of disks and permissions
        _refuse(SetupError(Problem("", "", str(error), "")))
    finally:
        ignore_interrupts()  # Python would tell of one while it tears down
    sys.exit(0)


def _refuse(error: SweeperError) -> NoReturn:
    ignore_interrupts()
    console_on(sys.stderr).print(str(error), soft_wrap=True)
    sys.exit(error.exit_code)
