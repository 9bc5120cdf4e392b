"""Run directories to be damaged, and what `verify` finds in them."""

from __future__ import annotations

import shutil
from pathlib import Path

from sweeper.rundir import RunDir
from sweeper.sweep.verify import verify


def copy_of(run_dir: RunDir, directory: Path) -> RunDir:
    """A copy of a run directory in another place, to be damaged."""
    shutil.copytree(run_dir.root, directory)
    return RunDir(directory)


def damage_in(run_dir: RunDir) -> dict[str, str]:
    """What is damaged, by file."""
    return {damage.file: damage.found for damage in verify(run_dir).damage}
