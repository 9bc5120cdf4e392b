"""Damage in a run directory, and how to repair it."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from sweeper.rundir import RunDir


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage to `file`, named relative to the run directory."""

    file: str
    found: str
    hint: str

    def __str__(self) -> str:
        return f"{self.file}: {self.found}; {self.hint}"


def repair_hint(run_dir: RunDir) -> str:
    """How to fix what `repair` rewrites."""
    return f"rewrite it with: python -m sweeper verify {quote(str(run_dir.root))} --repair"
