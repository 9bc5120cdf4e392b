"""The terminal, file or pipe that commands print to."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, redirect_stdout
from functools import cache, partial
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from sweeper.errors import printable

_T = TypeVar("_T")


# line breaks and tabs are layout
_LAYOUT = "\n\t"


_IN_ASCII = {
    **dict(zip("▁▂▃▄▅▆▇█", "_.,-=+*#", strict=True)),  # sparklines
    **dict(zip("─━│┃┌┐└┘├┤┬┴┼▌", "--||+++++++++|", strict=True)),
    "•": "*",
    "·": "*",
    "…": "~",
    "\u2013": "-",
    "\u2014": "-",
    "\u00d7": "x",
    "≤": "<=",
    "≥": ">=",
    "±": "+-",
    "→": "->",
}


@cache
def _replaced(encoding: str) -> dict[int, str]:
    """What is printed instead of the characters that `encoding` lacks."""
    lacking = [one for one in _IN_ASCII if not one.encode(encoding, "ignore")]
    return {ord(one): _IN_ASCII[one] for one in lacking}


class _Console(Console):
    """A console that goes silent when its reader is gone; the study continues.

    Control characters in text are escaped, since the text may come from anybody's table. Bars,
    bullets and signs that the encoding of the file lacks are printed in ASCII.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """The text, with control characters escaped."""
        return super().render_str(printable(text, _LAYOUT), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments to write; control codes come only from the console itself."""
        replaced = _replaced(self.encoding)
        for text, style, control in super().render(renderable, options):
            shown = text if control else printable(text, _LAYOUT).translate(replaced)
            yield Segment(shown, style, control)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence(self.file)


class _Aside:
    """Standard error, whose write errors are ignored.

    It only shows progress, so a full disk must not stop the work.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, text: str) -> int:
        return self._try_write(partial(self._file.write, text), len(text))

    def flush(self) -> None:
        self._try_write(self._file.flush, None)

    def _try_write(self, write: Callable[[], _T], fallback: _T) -> _T:
        try:
            return write()
        except BrokenPipeError:  # which the console handles
            raise
        except OSError:
            silence(self._file)
            return fallback


def silence(file: Any) -> None:
    """Discard what is still printed: closing a broken pipe would raise again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)


def drop_unwritten(file: Any) -> None:
    """Discard what `file` could not write, so that Python does not try again at exit."""
    try:
        file.flush()
    except OSError:
        silence(file)


@contextmanager
def announce(doing: str) -> Generator[None]:
    """Show on a terminal what is being done, until it ends.

    No thread may wait for it to take long: with threads, the data are not prepared in a fork.
    """
    if not sys.stderr.isatty():
        yield
        return
    file: Any = _Aside(sys.stderr)
    file.write(f"{doing} ...")
    file.flush()
    try:
        yield
    finally:
        file.write("\r\x1b[2K")  # clears the line
        file.flush()


_for_answers: list[Any] = []  # standard output, while other code prints to standard error


@contextmanager
def answers_alone() -> Generator[None]:
    """Within this block only answers go to standard output, and what user code prints does not.

    All threads of a process print to the same file, so a block has no effect unless it runs in the
    main thread: other blocks could end before it, and the program may print its own results.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _for_answers.append(answers())
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _for_answers.pop()


def answers() -> Any:
    """The file for answers: standard output."""
    return _for_answers[-1] if _for_answers else sys.stdout


def console_on(file: Any) -> Console:
    """A console that prints text unchanged, since names and messages are not markup."""
    if file is sys.stderr:
        file = _Aside(file)
    console = _Console(file=file, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 200  # not a terminal, so nothing has to fit into a width
    return console
