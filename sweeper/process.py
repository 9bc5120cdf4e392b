"""How a command ends: at once, where nothing is lost by that.

As it tears down, Python looks several times through all objects for garbage, of which JAX has made
hundreds of thousands by then, and takes every module apart: of 3.5 s of a small study that is 0.2
to 0.4. Where code of the user's own was loaded it has to: a file that a module leaves open is
written out when the module is found to be garbage.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

_has_foreign_code = threading.Event()
_code: int | None = None
# this is among the first modules that the program imports
_imported_at = time.time()
_program_start: float | None = None


def note_foreign_code() -> None:
    """Say that a module of the user's own is about to be loaded."""
    _has_foreign_code.set()


def as_program(command: Callable[[], NoReturn]) -> NoReturn:
    """Run `command` as all that this process is for: it ends at once after what ends it.

    What else is registered for the end of the process is called before. Python calls the last that
    was registered first: where there is one already, nothing ends at once.
    """
    global _code, _program_start
    _program_start = _imported_at
    # nothing public says how many there are
    if not atexit._ncallbacks():  # pyright: ignore[reportAttributeAccessIssue]
        atexit.register(_leave)
    try:
        command()
    except SystemExit as end:
        _code = end.code if isinstance(end.code, int) else None
        raise


def take_program_start() -> float | None:
    """When this program began, in seconds since 1970; None if it is not only here for a command.

    Only the first caller gets it: what a command does next has not gone on since then.
    """
    global _program_start
    taken, _program_start = _program_start, None
    return taken


def _leave() -> None:
    if _code is None or _has_foreign_code.is_set():
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # full, or closed: Python knows what to do about it
        return
    os._exit(_code)
