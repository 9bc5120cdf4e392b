"""Describes errors of user-defined code by their text and the line of that code."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb

# what faulty user code may raise; sys.exit in it only ends the call
RAISED = (Exception, SystemExit, GeneratorExit)


_MAX_CHARACTERS = 200  # characters of an error message, since those of JAX are long
# where an error message quotes another traceback: a place, and the lines of code below it
_QUOTED_PLACE = re.compile(r'^  File "(.+)", line (\d+), in .*\n(?:    .*\n)*', re.MULTILINE)
_QUOTED_CLASS = re.compile(r"(?:\w+\.)*(\w+)(?::|$)")
_INSTALLED = {"site-packages", "dist-packages"}
_NOT_THE_USERS = (
    Path(__file__).parents[1],
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")),
)


def is_raised(error: BaseException) -> bool:
    """Whether user code may have raised the error, rather than something ending the program."""
    if isinstance(error, RAISED):
        return True
    is_ours = type(error).__module__.partition(".")[0] == "sweeper"
    return not (is_ours or isinstance(error, KeyboardInterrupt))


def describe_error(error: BaseException) -> str:
    """An error of user code on one line, with where it was raised.

    For an error in a callback, JAX only passes on the text of its traceback; the line then
    describes the error in that traceback.
    """
    if quoted := _quoted(text_of(error)):
        text, places = quoted
        return _first_words(text) + _place(places)
    text = _first_words(" ".join(text_of(error).split()))
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return what if isinstance(error, SyntaxError) else what + place_of(error)


def error_type(error: BaseException) -> str:
    """The class of an error of user code; of one in a callback, that in the quoted traceback."""
    quoted = _quoted(text_of(error))
    named = quoted and _QUOTED_CLASS.match(quoted[0])
    return named[1] if named else type(error).__name__


def full_error_text(error: BaseException) -> str:
    """`describe_error`, the lines of user code from the failing one outwards, and the traceback.

    Empty lines separate them.
    """
    trace = _writable("".join(traceback.format_exception(error)))
    passed = [it[0] for it in _QUOTED_PLACE.finditer(trace) if _is_of_the_users(it[1])]
    own = f"{''.join(passed[::-1])}\n" if passed else ""
    return f"{describe_error(error)}\n\n{own}{trace}"


def text_of(error: BaseException) -> str:
    """The message of an error, as text that can be written to a file."""
    try:
        return _writable(str(error))
    except Exception:
        return "its text cannot be shown"


def place_of(error: BaseException) -> str:
    """The last line of user code that the error passed through, in brackets, if any."""
    frames = walk_tb(error.__traceback__)
    return _place([(frame.f_code.co_filename, line) for frame, line in frames])


def _writable(text: str) -> str:
    """`text` with lone surrogates, as in names of files, escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _quoted(text: str) -> tuple[str, list[tuple[str, int]]] | None:
    """The error of the last traceback quoted in `text`, and the places it passed through."""
    _, begins, quoted = text.rpartition("Traceback (most recent call last):\n")
    places = [*_QUOTED_PLACE.finditer(quoted)]
    raised = " ".join(quoted[places[-1].end() :].split()) if places else ""
    if not (begins and raised):
        return None
    return raised, [(place[1], int(place[2])) for place in places]


def _place(places: Sequence[tuple[str, int]]) -> str:
    own = [(Path(name).name, line) for name, line in places if _is_of_the_users(name)]
    return f" ({own[-1][0]}, line {own[-1][1]})" if own else ""


def _is_of_the_users(file: str) -> bool:
    if file.startswith("<"):
        return False
    path = Path(file)
    is_installed = any(path.is_relative_to(place) for place in _NOT_THE_USERS)
    return not is_installed and _INSTALLED.isdisjoint(path.parts)


def _first_words(text: str) -> str:
    """The first sentence of a long text, or its beginning."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    words = text[:_MAX_CHARACTERS]
    sentence, end, _ = words.partition(". ")
    return sentence if end else f"{words.rpartition(' ')[0]} ..."
