"""Writes what scripts measured into the guides, each between two comments of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

GUIDES = Path(__file__).resolve().parents[2] / "sweeper" / "guide"
_WIDTH = 140  # of prose in the guides


def write_guide(part: str, script: str, lines: Iterable[str], guide: str = "benchmarks") -> None:
    """Replace the lines of a part of a guide, which begin at a comment that names the script."""
    path = GUIDES / f"{guide}.md"
    begin, end = f"<!-- {part}: written by scripts/{script} -->\n", f"<!-- {part} end -->\n"
    head, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, closed, tail = rest.partition(end)
    assert found and closed, f"{path.name} has no part {part!r}"
    path.write_text(f"{head}{begin}{text_of(lines)}{end}{tail}", encoding="utf-8")


def text_of(lines: Iterable[str]) -> str:
    """The lines as the guide has them."""
    return "".join(f"{_wrapped(line)}\n" for line in lines)


def _wrapped(line: str) -> str:
    """A line of prose as a paragraph; rows of tables stay as they are."""
    if line.startswith("|") or len(line) <= _WIDTH:
        return line
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
