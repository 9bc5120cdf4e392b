"""How a command ends: without a last look for garbage, which takes a third of a second of a study.

Python looks through every object several times as it tears down, and by then JAX has made hundreds
of thousands. Where code of the user's own was loaded it has to: a file that a module leaves open is
written out when the module is found to be garbage.
"""

from __future__ import annotations

import gc
import threading

_has_foreign_code = threading.Event()


def note_foreign_code() -> None:
    """Say that a module of the user's own is about to be loaded."""
    _has_foreign_code.set()


def freeze_what_is_left() -> None:
    """Let Python look at nothing that is there now as it tears down, if nothing is lost by that."""
    if not _has_foreign_code.is_set():
        gc.freeze()
