"""The directories of the user that outlive studies: the cache, and the state directory.

The cache directory, named by `SWEEPER_CACHE_DIR`, may contain other files. Only files with names
that sweeper gives, in the directories that `own_directory` returns, are replaced or removed. Files
that cannot be made again are in the state directory.
"""

from __future__ import annotations

import logging
import os
import stat
from functools import cache
from pathlib import Path

CACHE_VARIABLE = "SWEEPER_CACHE_DIR"

_PRIVATE = 0o700
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_log = logging.getLogger("sweeper")


class _UnusableError(Exception):
    """Why a directory cannot be used as a cache."""


def cache_root() -> Path | None:
    """`SWEEPER_CACHE_DIR`, or the user's cache directory; None without a home directory."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).absolute()
    from platformdirs import user_cache_path  # slow to import, and few commands need it

    path = user_cache_path("sweeper")
    return path if path.is_absolute() else None  # otherwise "~" was not replaced


def state_root() -> Path | None:
    """The user's state directory, which no command clears; None without a home directory."""
    from platformdirs import user_state_path

    path = user_state_path("sweeper")
    return path if path.is_absolute() else None


def own_directory(name: str) -> Path | None:
    """The private directory `name` in the cache, made if missing.

    None, with one warning, if it cannot be used: the study then runs without a cache.
    """
    root = cache_root()
    return _own_directory(root, root / name if root else None)


@cache
def _own_directory(root: Path | None, path: Path | None) -> Path | None:
    try:
        if root is None or path is None:
            raise _UnusableError("this user has no home directory")
        root.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        path.mkdir(mode=_PRIVATE, exist_ok=True)
        _make_private(path)
        return path
    except (_UnusableError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        place = path or "the cache directory"
        hint = f"set {CACHE_VARIABLE} to a directory of your own"
        _log.warning("%s cannot be used: %s; running without a cache (%s)", place, reason, hint)
        return None


def _make_private(path: Path) -> None:
    """Make a directory private: compiled programs in it are run without further checks.

    Raises:
        _UnusableError: it is a link, or others could write to it.
        OSError: it cannot be read.
    """
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise _UnusableError("it is a link")
    if hasattr(os, "getuid") and found.st_uid not in (os.getuid(), 0):
        raise _UnusableError("it belongs to another user")
    if found.st_mode & ~_PRIVATE & 0o777:
        try:
            path.chmod(_PRIVATE)
        except OSError as error:  # a read-only disk, or a directory that root owns
            if found.st_mode & _WRITABLE_BY_OTHERS:
                raise _UnusableError("other users may write to it") from error
    os.scandir(path).close()
