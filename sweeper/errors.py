"""The exceptions of sweeper, and how messages write names, counts and sizes.

Each class ends the program with its own exit code:

SweeperError                 1
├── StudyError               2   the study file, or the way a command was called
│   └── NoTrialError         1   no trial completed
├── FitError                 2   the arguments of an estimator
├── UnsupportedError         2   what a saved model cannot do
├── SetupError               3   the machine: device, data, disk
│   ├── DataError
│   │   └── UnfitRowsError
│   └── LedgerError
│       └── DamagedLedgerError
└── StudyHeldError           4   another process holds the study

`FitError`, `UnsupportedError` and `UnfitRowsError` are ValueErrors, too.
"""

from __future__ import annotations

import errno
import inspect
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum, auto
from pathlib import Path

FRESH = "--fresh (in Python fresh=True)"  # how a run moves an old run directory aside

_NO_SPACE = "free some disk space, then try again"
_PERMISSION = "give this user write permission there, then try again"
_IN_THE_WAY = "remove or rename what is at this path, then try again"
_GONE = "it was removed or renamed during the run: restore it, then try again"
_HINTS = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EFBIG: "raise the limit on file size (ulimit -f), or use a file system that allows "
    "larger files",
    errno.EROFS: _PERMISSION,
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.ENOENT: _GONE,
    errno.ENOTDIR: _GONE,
    errno.ESTALE: _GONE,
    errno.EISDIR: _IN_THE_WAY,
    errno.ELOOP: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.ENOTEMPTY: _IN_THE_WAY,
    # SQLite also reports EIO for read-only disks and for limits on the size of files
    errno.EIO: "check how the disk is mounted, ulimit -f and the system log",
}

_MAX_LETTERS = 600  # of each part of a problem, since `found` may quote a long text


class ProblemKind(Enum):
    """What is wrong with a setting, if a better hint or another problem may depend on it."""

    MISSING = auto()
    UNKNOWN_SETTING = auto()
    NOT_A_NUMBER = auto()
    NOT_AN_INTEGER = auto()
    NOT_A_BOOLEAN = auto()
    NOT_A_SCALAR = auto()
    NOT_TEXT = auto()
    TOO_SMALL = auto()
    UNKNOWN_NAME = auto()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to fix: where it is, what was found there, and how to fix it.

    Its text is one printable line, whatever the user has written. Programs tell problems apart by
    their `kind`, if it has one.
    """

    where: str
    key: str
    found: str
    hint: str
    kind: ProblemKind | None = field(default=None, compare=False)

    def __str__(self) -> str:
        parts = (self.where, self.key, self.found, self.hint)
        where, key, found, hint = (printable(shortened(part)) for part in parts)
        place = ": ".join(part for part in (where, key) if part)
        return f"{place}: {found}; {hint}" if hint else f"{place}: {found}"


def shortened(text: str) -> str:
    """The text without its middle if it is long."""
    if len(text) <= _MAX_LETTERS:
        return text
    half = _MAX_LETTERS // 2
    return f"{text[:half]} ... {text[-half:]}"


def printable(text: str, kept: str = "") -> str:
    """The text with every character escaped that a terminal would obey or hide.

    These are control characters, line breaks and marks that change the direction of text, except
    for those in `kept`. Text from other people's tables and results may contain any of them.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in kept else ascii(letter)[1:-1] for letter in text
    )


class SweeperError(Exception):
    """The base of all errors of sweeper; the message names the place and the fix."""

    exit_code = 1

    def __init__(self, problems: Problem | Iterable[Problem] | str) -> None:
        if isinstance(problems, str):
            problems = Problem("", "", problems, "")
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem).removeprefix(": ") for problem in self.problems))

    def __reduce__(self) -> tuple[type[SweeperError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class StudyError(SweeperError):
    """The study file, or the command that used it, is wrong."""

    exit_code = 2


class NoTrialError(StudyError):
    """No trial of the study completed, so none is the best."""

    exit_code = 1


class FitError(SweeperError, ValueError):
    """The arguments of an estimator or of its `fit` do not make a study."""

    exit_code = 2


class UnsupportedError(SweeperError, ValueError):
    """A saved model cannot do what was asked of it."""

    exit_code = 2


class SetupError(SweeperError):
    """The machine cannot run the study: a device, the data or the disk is at fault."""

    exit_code = 3


class DataError(SetupError):
    """The data of a study is missing or does not fit the study."""


class UnfitRowsError(DataError, ValueError):
    """Rows that a model was not trained for: what was found, the fix, and row indices from 0."""

    def __init__(self, found: str, hint: str, rows: Sequence[int] = ()) -> None:
        super().__init__(Problem("", "", found, hint))
        self.found, self.hint, self.rows = found, hint, rows

    def __reduce__(self) -> tuple[type[UnfitRowsError], tuple[str, str, Sequence[int]]]:  # type: ignore[override]
        return type(self), (self.found, self.hint, self.rows)


class LedgerError(SetupError):
    """The ledger of a study cannot be read or written, or has another version."""


class DamagedLedgerError(LedgerError):
    """The ledger of a study is missing or damaged."""


class StudyHeldError(SweeperError):
    """Another process is running this study."""

    exit_code = 4


def not_written(place: Path | str, error: OSError) -> Problem:
    """The problem that a file, the one that `error` names or else `place`, cannot be written."""
    found = f"cannot be written: {error.strerror or error}"
    hint = _HINTS.get(error.errno or 0, "fix this, then try again")
    return Problem(str(error.filename or place), "", found, hint)


def unforeseen(error: OSError) -> Problem:
    """The problem for a disk or permission error that nothing else handled."""
    found, hint = error.strerror or str(error), _HINTS.get(error.errno or 0, "")
    return Problem(str(error.filename or ""), "", found, hint)


def warn_caller(warning: Warning) -> None:
    """Warn at the line of the caller: the first one outside of this package."""
    frame, level = inspect.currentframe(), 1
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == "sweeper":
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


_MAX_LISTED = 20
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def number_runs(numbers: Iterable[int]) -> str:
    """Numbers as runs without gaps: `0 to 3, 5, 7 to 9`; many runs are cut off, with the count."""
    runs: list[list[int]] = []
    for number in sorted({*numbers}):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = ", ".join(f"{a} to {b}" if a < b else str(a) for a, b in runs[:_MAX_LISTED])
    n_left = sum(b - a + 1 for a, b in runs[_MAX_LISTED:])
    return f"{shown} and {n_left} more" if n_left else shown


def listed(names: Sequence[str], last: str = "and") -> str:
    """The names as in a sentence: "a, b and c"; a long list is cut short."""
    if len(names) > _MAX_LISTED:
        names = [*names[:_MAX_LISTED], f"{len(names) - _MAX_LISTED} more"]
    return f" {last} ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def counted(count: int, word: str) -> str:
    """The count with its noun: "1 row", "2 rows"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """A question that offers the closest of `names`; empty if none is close."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean '{by_lower[near[0]]}'?" if near else ""


def did_you_mean_file(path: Path, names: Sequence[str], suffix: str) -> str:
    """Like `did_you_mean`, for files whose common suffix does not make their names similar."""
    by_stem = {name.lower().removesuffix(suffix): name for name in names}
    near = get_close_matches(path.name.lower().removesuffix(suffix), by_stem, n=1)
    return f"did you mean '{path.with_name(by_stem[near[0]])}'?" if near else ""


def size_text(n_bytes: float) -> str:
    """An amount of memory for people: `3.2 MiB`."""
    unit = 0
    while n_bytes >= 1024 and unit < len(_UNITS) - 1:
        n_bytes, unit = n_bytes / 1024, unit + 1
    # three digits, or four from 1000 to 1023, never an exponent
    whole = not unit or n_bytes >= 999.5
    return f"{n_bytes:{'.0f' if whole else '.3g'}} {_UNITS[unit]}"
