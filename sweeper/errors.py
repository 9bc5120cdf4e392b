"""The exceptions of sweeper, and how messages write names, counts and sizes.

Each class ends the program with its own exit code:

SweeperError                 1
├── StudyError               2   the study file, or how it was asked for
├── SetupError               3   the machine: device, data, disk
│   ├── DataError
│   └── LedgerError
│       └── DamagedLedgerError
└── StudyHeldError           4   another process holds the study
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

_ROOM = "make room for it, then go on"
_PERMISSION = "let this user write there, then go on"
_IN_THE_WAY = "remove or rename what stands there, then go on"
_GONE = "it was removed or renamed meanwhile: put it back, then go on"
_HINTS = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: _ROOM,
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
    # SQLite says so of disks that are read-only, too, and of limits on the size of files
    errno.EIO: "see how the disk is mounted, ulimit -f, and the system's log, then go on",
}

_MAX_LETTERS = 600  # of each part of a problem: what was found may hold a text of the user's


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to fix: where it stands, what was found there, what to write instead.

    Its text is one line that can be printed, whatever the user has written.
    """

    where: str
    key: str
    found: str
    hint: str

    def __str__(self) -> str:
        parts = (self.where, self.key, self.found, self.hint)
        where, key, found, hint = (printable(_shortened(part)) for part in parts)
        place = ": ".join(part for part in (where, key) if part)
        return f"{place}: {found}; {hint}" if hint else f"{place}: {found}"


def _shortened(text: str) -> str:
    if len(text) <= _MAX_LETTERS:
        return text
    half = _MAX_LETTERS // 2
    return f"{text[:half]} ... {text[-half:]}"


def printable(text: str, kept: str = "") -> str:
    """The text with every character escaped that a terminal would obey or not show.

    These are control characters, line breaks and marks that turn the direction of text, unless they
    are `kept`. Text from tables and results of others may hold any.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in kept else ascii(letter)[1:-1] for letter in text
    )


class SweeperError(Exception):
    """The root of everything that sweeper refuses; its message names the place and the fix."""

    exit_code = 1

    def __init__(self, problems: Problem | Iterable[Problem] | str) -> None:
        if isinstance(problems, str):
            problems = Problem("", "", problems, "")
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem).removeprefix(": ") for problem in self.problems))

    def __reduce__(self) -> tuple[type[SweeperError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)


class StudyError(SweeperError):
    """The study file, or the way it was asked for, cannot be run as it stands."""

    exit_code = 2


class SetupError(SweeperError):
    """The machine cannot run the study: a device, the data or the disk."""

    exit_code = 3


class DataError(SetupError):
    """The data that a study names is missing or unfit for it."""


class LedgerError(SetupError):
    """The ledger of a study cannot be read or written, or is of another version."""


class DamagedLedgerError(LedgerError):
    """The ledger of a study is gone, or is not what was written."""


class StudyHeldError(SweeperError):
    """Another process is running this study."""

    exit_code = 4


def not_written(place: Path | str, error: OSError) -> Problem:
    """That the disk does not take a file, with what fixes it; the file may be told by `error`."""
    found = f"cannot be written: {error.strerror or error}"
    hint = _HINTS.get(error.errno or 0, "fix that, then go on")
    return Problem(str(error.filename or place), "", found, hint)


def unforeseen(error: OSError) -> Problem:
    """What nobody foresaw of disks and permissions, with what may fix it."""
    found, hint = error.strerror or str(error), _HINTS.get(error.errno or 0, "")
    return Problem(str(error.filename or ""), "", found, hint)


_MAX_LISTED = 20
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def listed(names: Sequence[str], last: str = "and") -> str:
    """The names as a sentence has them: "a, b and c"; of very many the first."""
    if len(names) > _MAX_LISTED:
        names = [*names[:_MAX_LISTED], f"{len(names) - _MAX_LISTED} more"]
    return f" {last} ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def counted(count: int, word: str) -> str:
    """The count with its word: "1 row", "2 rows"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """A question that offers the nearest of `names`; empty where none is near."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean '{by_lower[near[0]]}'?" if near else ""


def did_you_mean_file(path: Path, names: Sequence[str], suffix: str) -> str:
    """Like `did_you_mean`, for files whose common suffix does not make their names similar."""
    by_stem = {name.lower().removesuffix(suffix): name for name in names}
    near = get_close_matches(path.name.lower().removesuffix(suffix), by_stem, n=1)
    return f"did you mean '{path.with_name(by_stem[near[0]])}'?" if near else ""


def size_text(n_bytes: float) -> str:
    """An amount of memory in words: `3.2 MiB`."""
    unit = 0
    while n_bytes >= 1024 and unit < len(_UNITS) - 1:
        n_bytes, unit = n_bytes / 1024, unit + 1
    return f"{n_bytes:.3g} {_UNITS[unit]}" if unit else f"{n_bytes:.0f} B"
