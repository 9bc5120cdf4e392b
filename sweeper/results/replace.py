"""How a published file changes: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeper.faults import Step, fault_points


@contextmanager
def replacing(target: Path, staging: Path) -> Iterator[Path]:
    """A path in `staging` to write to; the file there becomes `target` when the block ends well.

    `staging` must be on the disk of `target`, and none of its readers may look there. What was
    written is removed where it does not end well: a disk that is full is not to stay so. A run
    directory that was removed is not made anew: OSError.
    """
    staging.mkdir(exist_ok=True)
    staged = staging / target.name
    try:
        yield staged
        # Without this a power cut may leave the new name on an empty file.
        with fault_points(Step.SYNC_FILE), staged.open("rb+") as file:
            os.fsync(file.fileno())
        target.parent.mkdir(exist_ok=True)
        with fault_points(Step.RENAME_FILE):
            staged.replace(target)
    except Exception as error:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(target)  # a sync that fails does not say of what
        raise


def swapped(target: Path, staging: Path, content: bytes) -> None:
    """Replace a file that can be written again at any time, and may be lost in a power cut."""
    staging.mkdir(exist_ok=True)
    staged = staging / target.name
    staged.write_bytes(content)
    staged.replace(target)
