"""The command line: puts the commands together and turns errors into exit codes.

Progress and errors go to standard error, results to standard output.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from sweeper.cli.address_space import check_address_space
from sweeper.cli.commands.printing import CommandGroup, print_shown
from sweeper.cli.console import answers_alone, console_on, drop_unwritten, silence
from sweeper.errors import (
    Problem,
    SetupError,
    StudyError,
    SweeperError,
    did_you_mean,
    unforeseen,
)
from sweeper.executors.private_apis import is_invalid_jax_setting
from sweeper.executors.signals import SignalExit, ignore_interrupts, leave_on_signals
from sweeper.faults import VARIABLE, FaultPlanError, plan_faults
from sweeper.process import open_streams, package_version

# Thresholds of the garbage collector: new objects before a collection, and collections of each
# generation before the next older one. Nearly everything that imports and traced programs create
# stays alive: with Python's default of 700, a small study spends 6 % of its time collecting.
_GARBAGE_AFTER = (50_000, 10, 10)

# what Typer raises for wrong words; it exports only some of the classes derived from it
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

# commands that import nothing large
_SMALL = {"status", "stop", "list", "schema", "guide"}

# each command and the module in `commands` that defines it, in the order of --help
COMMANDS = {
    "run": "running",
    "init": "writing",
    "validate": "running",
    "plan": "running",
    "stop": "running",
    "enqueue": "running",
    "status": "looking",
    "list": "directories",
    "delete": "directories",
    "trials": "listing",
    "show": "listing",
    "best": "listing",
    "verify": "looking",
    "dashboard": "looking",
    "report": "looking",
    "trial": "writing",
    "export-optuna": "writing",
    "import-optuna": "writing",
    "log": "tracking",
    "ensemble": "winner",
    "confirm": "winner",
    "reproduce": "winner",
    "refit": "winner",
    "export": "models",
    "predict": "models",
    "check-program": "models",
    "doctor": "looking",
    "calibrate": "looking",
    "schema": "writing",
    "guide": "guide",
}


def app_for(words: Sequence[str]) -> typer.Typer:
    """The command line with the command that `words` start with, or with all commands if none.

    Importing and declaring the others would take longer than many a command itself.
    """
    app = typer.Typer(
        cls=CommandGroup,
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
            app.command(name)(_with_answers_alone(command))
    return app


def _with_answers_alone(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, whose answer excludes whatever user code prints."""

    @wraps(command)
    def wrapped(*words: Any, **options: Any) -> Any:
        with answers_alone():
            return command(*words, **options)

    return wrapped


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
    """Run a command; an error ends the program with its message and exit code."""
    gc.set_threshold(*_GARBAGE_AFTER)
    open_streams()
    try:
        leave_on_signals()
        faulthandler.enable(all_threads=False)  # a crash in native code prints where it was
        plan_faults(os.environ.get(VARIABLE))
        _check_current_directory()
        if {*sys.argv[1:2]} & (COMMANDS.keys() - _SMALL):
            check_address_space()
        app_for(sys.argv[1:])(prog_name="sweeper")
    except SweeperError as error:
        _refuse(error)
    except FaultPlanError as error:
        _refuse(SetupError(str(error)))
    except BrokenPipeError:  # the reader closed the pipe, for example `head`
        silence(sys.stdout)
    except SignalExit as left:
        sys.exit(left.exit_code)
    except OSError as error:
        drop_unwritten(sys.stdout)
        _refuse(SetupError(unforeseen(error)))
    except ValueError as error:
        if not is_invalid_jax_setting(error):
            raise
        hint = "fix or unset this environment variable"
        _refuse(SetupError(Problem("JAX", "", str(error), hint)))
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        hint = "allow more processes (ulimit -u) or more memory (ulimit -v)"
        _refuse(SetupError(Problem("", "", "the system refuses to start more threads", hint)))
    finally:
        ignore_interrupts()  # Python would print one during teardown
    sys.exit(0)


def command(*words: str) -> None:
    """Run a command in this process: `command("export", "runs/digits")`.

    This way, commands find functions that a notebook or script defines itself.

    Raises:
        SweeperError: the command or an option is unknown, or the command fails.
        SystemExit: it ended with an exit code other than 0.
    """
    given = [*map(str, words)] or ["--help"]
    name = given[0]
    if name not in COMMANDS and not name.startswith("-"):
        hint = did_you_mean(name, [*COMMANDS]) or "command('--help') lists the commands"
        raise StudyError(Problem("sweeper.command", "", f"no command '{name}'", hint))
    try:
        # called itself, the app would set sys.excepthook
        run = typer.main.get_command(app_for(given))
        code = run(given, prog_name="sweeper", standalone_mode=False)
    except _UsageError as error:
        found, hint = str(error).rstrip("."), f"command('{name}', '--help') lists its arguments"
        raise StudyError(Problem("sweeper.command", name, found, hint)) from None
    if code:
        raise SystemExit(code)


def _check_current_directory() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        found = "the current directory no longer exists"
        raise SetupError(Problem("", "", found, "change into another directory")) from None


def _refuse(error: SweeperError) -> NoReturn:
    ignore_interrupts()
    console_on(sys.stderr).print(str(error), soft_wrap=True)
    sys.exit(error.exit_code)
