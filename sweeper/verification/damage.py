"""What is damaged in a run directory, and the mends that several files have."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from sweeper.rundir import RunDir


@dataclass(frozen=True, slots=True)
class Damage:
    """Something in `file`, named from the run directory, that is not what it should be.

    `is_view` where the ledger tells all that was in it.
    """

    file: str
    found: str
    mend: str
    is_view: bool = False

    def __str__(self) -> str:
        return f"{self.file}: {self.found}; {self.mend}"


def written_anew(run_dir: RunDir) -> str:
    """The mend of what `repair` writes."""
    return f"write it anew: python -m sweeper verify {quote(str(run_dir.root))} --repair"
