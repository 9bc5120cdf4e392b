"""Text files that are small by nature: one that has become large, or has no end, is not read."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

_MOST_BYTES = 64_000_000


def holds(path: Path, content: bytes) -> bool:
    """Whether the file at `path` can be read, and has exactly this content."""
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


def read_json(path: Path) -> Any:
    """The value in a small file of JSON.

    Raises:
        OSError: as `read_small`.
        ValueError: it is not JSON, or has too many brackets within each other.
    """
    try:
        return json.loads(read_small(path))
    except RecursionError:
        raise ValueError("too many brackets within each other") from None


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
