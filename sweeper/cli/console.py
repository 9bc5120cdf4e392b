"""The terminal, or whatever stands in its place, that answers are written to."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from sweeper.errors import printable

_T = TypeVar("_T")


# line breaks and tabs lay out text
_LAYOUT = "\n\t"


class _Console(Console):
    """Says no more once nobody reads it; the study goes on.

    Control characters within text are escaped: they may come from anybody's table.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as it is laid out."""
        return super().render_str(printable(text, _LAYOUT), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments to write; those that control the terminal are the console's own."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, _LAYOUT), style, control)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence(self.file)


class _Aside:
    """Standard error: where it cannot be written, what it would say is said to nobody.

    It tells how work goes on, in a file whose disk may be full; the work itself has lost nothing.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        return self._said(partial(self._file.write, text), len(text))

    def flush(self) -> None:
        self._said(self._file.flush, None)

    def _said(self, saying: Callable[[], _T], unheard: _T) -> _T:
        try:
            return saying()
        except BrokenPipeError:  # of which the console knows
            raise
        except OSError:
            silence(self._file)
            return unheard


def silence(file: Any) -> None:
    """Send what is still printed nowhere; closing a broken pipe would raise again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)


def drop_unwritten(file: Any) -> None:
    """Forget what `file` could not take, so that Python does not try once more at its end."""
    try:
        file.flush()
    except OSError:
        silence(file)


def console_on(file: Any) -> Console:
    """A console that prints text as it is: names and messages are the user's, not markup."""
    if file is sys.stderr:
        file = _Aside(file)
    console = _Console(file=file, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 200  # nothing to fit into, so cut no column off
    return console
