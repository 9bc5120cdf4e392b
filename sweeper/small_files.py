"""Text files that are small by nature: one that has become large, or has no end, is not read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_MOST_BYTES = 64_000_000


def read_small(path: Path, encoding: str = "utf-8") -> str:
    """The text of a regular file of at most 64 MB.

    Raises:
        OSError: it cannot be read, is larger, or is a pipe or a device.
        ValueError: it is not text in this encoding.
    """
    there = path.stat()
    if not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if there.st_size > _MOST_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return path.read_text(encoding=encoding)
