"""The terminal, or whatever stands in its place, that answers are written to."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console


class _Console(Console):
    """Says no more once nobody reads it; the study goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence(self.file)


def silence(file: Any) -> None:
    """Send what is still printed nowhere; closing a broken pipe would raise again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)


def console_on(file: Any) -> Console:
    """A console that prints text as it is: names and messages are the user's, not markup."""
    console = _Console(file=file, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 200  # nothing to fit into, so cut no column off
    return console
