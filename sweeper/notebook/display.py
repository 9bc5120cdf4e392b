"""Where a card is shown and updated in place: Jupyter, VS Code, marimo, or lines elsewhere.

Neither IPython nor marimo is a dependency: what is not imported yet does not show this program.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

_PERIOD_S = 10.0


class Display(Protocol):
    """A place on the screen whose content is replaced."""

    def show(self, html: str, text: str, *, is_last: bool) -> None:
        """Replace what was shown before; `text` is for front ends that cannot show HTML.

        The first line of `text` is the progress, the others are all warnings so far.
        """
        ...

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        """A thread, not started yet, that may call `show`."""
        ...


def notebook() -> Display | None:
    """The output of the current cell; None if this program is not a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if hasattr(shell, "kernel"):  # a terminal has none
        return _Jupyter()
    marimo: Any = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return _Marimo(marimo)
    return None


class _Jupyter:
    """The output of a cell in Jupyter, VS Code, Colab and others that run IPython kernels."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, html: str, text: str, *, is_last: bool) -> None:
        from IPython.display import DisplayHandle  # pyright: ignore[reportMissingImports]

        content = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = DisplayHandle()
            self._handle.display(content, raw=True)
        else:
            self._handle.update(content, raw=True)

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target, name="card", daemon=True)


class _Marimo:
    """The output of a cell in marimo; only its own threads reach it."""

    def __init__(self, marimo: Any) -> None:
        self._marimo = marimo

    def show(self, html: str, text: str, *, is_last: bool) -> None:
        self._marimo.output.replace(self._marimo.Html(html))

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        return self._marimo.Thread(target=target, name="card", daemon=True)


class Lines:
    """Standard error: the progress every ten seconds if it has changed, and each warning once.

    A stream that cannot be written, or is missing, must not stop the study.
    """

    def __init__(self) -> None:
        self._last, self._said_at, self._n_warnings = "", float("-inf"), 0

    def show(self, html: str, text: str, *, is_last: bool) -> None:
        now = time.monotonic()
        progress, *warnings = text.split("\n")
        lines = warnings[self._n_warnings :]
        self._n_warnings = len(warnings)
        if progress != self._last and (is_last or now - self._said_at >= _PERIOD_S):
            self._last, self._said_at = progress, now
            lines.append(progress)
        stream: Any = sys.stderr  # None in a program without a console
        if lines and stream is not None:
            with suppress(OSError, ValueError):  # the disk is full, or it was closed
                stream.write("".join(f"{line}\n" for line in lines))
                stream.flush()

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target, name="card", daemon=True)
