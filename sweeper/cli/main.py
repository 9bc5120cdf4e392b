"""The command line: `commands`, put together, and how a refusal ends the program.

Progress and errors go to standard error, answers to standard output.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from sweeper.cli.address_space import check_address_space
from sweeper.cli.commands.printing import print_shown
from sweeper.cli.console import console_on, drop_unwritten, silence
from sweeper.errors import Problem, SetupError, SweeperError, unforeseen
from sweeper.executors.private_apis import is_invalid_jax_setting
from sweeper.executors.signals import Left, ignore_interrupts, leave_on_signals
from sweeper.faults import VARIABLE, FaultPlanError, plan_faults
from sweeper.process import open_streams, package_version

# Objects made since the last look for garbage among them, and how many looks at the youngest, and
# then at the next older ones, precede one at those that are older still. Nearly all that imports
# and traced programs make stays: with Python's own 700 a small study spends 6 % of its time here.
_GARBAGE_AFTER = (50_000, 10, 10)

# those that import nothing large
_SMALL = {"status", "stop", "schema"}

# Each command and the module of `commands` that has it, in the order in which they are listed.
COMMANDS = {
    "run": "running",
    "init": "writing",
    "validate": "running",
    "plan": "running",
    "stop": "running",
    "status": "looking",
    "trials": "listing",
    "show": "listing",
    "best": "listing",
    "verify": "looking",
    "dashboard": "pages",
    "report": "pages",
    "trial": "writing",
    "export-optuna": "writing",
    "confirm": "winner",
    "reproduce": "winner",
    "refit": "winner",
    "export": "models",
    "predict": "models",
    "check-program": "models",
    "doctor": "machine",
    "calibrate": "machine",
    "schema": "schema",
}


def app_for(words: Sequence[str]) -> typer.Typer:
    """The command line with the command that `words` begin with, or with all where with none.

    To import and declare the others would take longer than many a command itself.
    """
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Hyperparameter sweeps for JAX networks whose architectures differ from trial to "
        "trial.",
    )
    app.callback()(_options)
    for name in COMMANDS.keys() & words[:1] or COMMANDS:
        module = import_module(f"sweeper.cli.commands.{COMMANDS[name]}")
        command = getattr(module, name.replace("-", "_"))
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print_shown(f"sweeper {package_version()}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run a command; a refusal ends the program with its message and its exit code."""
    gc.set_threshold(*_GARBAGE_AFTER)
    open_streams()
    try:
        leave_on_signals()
        faulthandler.enable(all_threads=False)  # a crash in native code tells where it was
        plan_faults(os.environ.get(VARIABLE))
        _check_current_directory()
        if {*sys.argv[1:2]} & (COMMANDS.keys() - _SMALL):
            check_address_space()
        app_for(sys.argv[1:])(prog_name="sweeper")
    except SweeperError as error:
        _refuse(error)
    except FaultPlanError as error:
        _refuse(SetupError(str(error)))
    except BrokenPipeError:  # whoever read the answer has read enough
        silence(sys.stdout)
    except Left as left:
        sys.exit(left.exit_code)
    except OSError as error:
        drop_unwritten(sys.stdout)
        _refuse(SetupError(unforeseen(error)))
    except ValueError as error:
        if not is_invalid_jax_setting(error):
            raise
        hint = "fix or unset the environment variable of that name"
        _refuse(SetupError(Problem("JAX", "", str(error), hint)))
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        hint = "allow more processes (ulimit -u) or more memory (ulimit -v)"
        _refuse(SetupError(Problem("", "", "the system lets no more threads start", hint)))
    finally:
        ignore_interrupts()  # Python would tell of one while it tears down
    sys.exit(0)


def command(*words: str) -> None:
    """Run a command of the command line in this process: `command("export", "runs/digits")`.

    So commands find functions that a notebook or script defines itself.

    Raises:
        SweeperError: the command refuses, or cannot do it.
        SystemExit: it ended with another exit code than 0.
    """
    code = app_for(words)([*words], prog_name="sweeper", standalone_mode=False)
    if code:
        raise SystemExit(code)


def _check_current_directory() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        found = "the directory that this was started in is gone"
        raise SetupError(Problem("", "", found, "change into one that is there")) from None


def _refuse(error: SweeperError) -> NoReturn:
    ignore_interrupts()
    console_on(sys.stderr).print(str(error), soft_wrap=True)
    sys.exit(error.exit_code)
