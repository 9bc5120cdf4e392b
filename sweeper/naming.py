"""How messages write names, counts and amounts of memory."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

_MOST_LISTED = 20
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def listed(names: Sequence[str], last: str = "and") -> str:
    """The names as a sentence has them: "a, b and c"; of very many the first."""
    if len(names) > _MOST_LISTED:
        names = [*names[:_MOST_LISTED], f"{len(names) - _MOST_LISTED} more"]
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
