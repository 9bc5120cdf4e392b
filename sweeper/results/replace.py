"""How a published file changes: whole, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeper.faults import Step, fault_points
from sweeper.links import make_directory, move_inside

STAGED = "new-"
"""What the names of directories begin with in which a file is written before it is renamed."""


@contextmanager
def replacing(target: Path, staging: Path) -> Iterator[Path]:
    """A path below `staging` to write to; the file there becomes `target` when the block ends well.

    `staging` must be on the disk of `target`, directly in the run directory, and none of its
    readers may look there. What was written is removed where it does not end well: a disk that is
    full is not to stay so. A run directory that was removed is not made anew: OSError.
    """
    with _staged(target, staging) as staged:
        try:
            yield staged
            # Without this a power cut may leave the new name on an empty file.
            with fault_points(Step.SYNC_FILE), staged.open("rb+") as file:
                os.fsync(file.fileno())
            if target.parent != staging.parent:
                make_directory(target.parent)
            with fault_points(Step.RENAME_FILE):
                move_inside(staging.parent, staged, target)
        except OSError as error:
            if error.filename is None:
                error.filename = str(target)  # a sync that fails does not say of what
            raise


def swapped(target: Path, staging: Path, content: bytes) -> None:
    """Replace a file that can be written again at any time, and may be lost in a power cut."""
    with _staged(target, staging) as staged:
        staged.write_bytes(content)
        move_inside(staging.parent, staged, target)


@contextmanager
def _staged(target: Path, staging: Path) -> Iterator[Path]:
    """A path that nobody else knows: nobody can place a link there that would be followed."""
    make_directory(staging)
    # from Python 3.12 on the path is absolute, even if that of `staging` is not
    directory = staging / Path(tempfile.mkdtemp(prefix=STAGED, dir=staging)).name
    try:
        yield directory / target.name
    finally:
        shutil.rmtree(directory, ignore_errors=True)
