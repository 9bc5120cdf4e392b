"""Reads small files, and opens, replaces and removes files of a run directory safely.

A run directory itself may be a link or be reached through one. Links inside it are refused, because
a link could make sweeper write or remove files elsewhere. Functions with a `root` open the
directories below it one by one, so that a link is refused even if it replaced a directory a moment
ago. Files are written as a whole or not at all. Files that are expected to be small are not read if
they are large.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sweeper.faults import Step, fault_points

AnyRecord = TypeVar("AnyRecord")

NO_LINK = "it is a link, and sweeper follows no link inside a run directory"
STAGED = "new-"
"""The prefix of directories in which a file is written before it is renamed."""
# systems other than POSIX open files by path only
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_MAX_BYTES = 64_000_000


class ScratchDirectory:
    """A temporary directory at `path` that is removed with this object.

    A forked process does not remove it.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="sweeper-"))
        weakref.finalize(self, _remove_own, self.path, os.getpid())


def _remove_own(path: Path, made_by: int) -> None:
    if os.getpid() == made_by:
        shutil.rmtree(path, ignore_errors=True)


def open_inside(root: Path, path: Path, mode: str, **options: Any) -> Any:
    """Open a file below `root` as `open` does.

    Raises:
        OSError: as `open`, or if the file or a directory on the way to it is a link.
    """

    def opener(_: str, flags: int) -> int:
        with _open_parent(root, path) as (name, directory):
            try:
                return os.open(name, flags | _NOFOLLOW, 0o666, dir_fd=directory)
            except OSError as error:
                raise _explain(error, path) from error

    return open(path, mode, opener=opener, **options)


def remove_inside(root: Path, path: Path) -> None:
    """Remove a file or link below `root`, if it exists.

    Raises:
        OSError: it cannot be removed, or a directory on the way to it is a link.
    """
    with suppress(FileNotFoundError), _open_parent(root, path) as (name, directory):
        os.unlink(name, dir_fd=directory)


def remove_tree_inside(root: Path, path: Path) -> None:
    """Remove a directory below `root` with its contents; of links, only the links themselves.

    Raises:
        OSError: as `remove_inside`.
    """
    with _open_parent(root, path) as (name, directory):
        shutil.rmtree(name, dir_fd=directory)


def move_inside(root: Path, source: Path, target: Path) -> None:
    """Rename a file below `root` to `target`, also below it, and replace what is there.

    Raises:
        OSError: as `os.replace`; a directory on the way to either is a link.
    """
    with _open_parent(root, source) as (old, from_fd), _open_parent(root, target) as (new, to_fd):
        os.replace(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def make_directory(path: Path) -> None:
    """Make a directory unless it exists.

    Raises:
        OSError: it cannot be made, or is a link.
    """
    path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, NO_LINK, str(path))


@contextmanager
def _open_parent(root: Path, path: Path) -> Iterator[tuple[str, int | None]]:
    """The name of a file below `root`, and the descriptor of its directory."""
    if not _HAS_DESCRIPTORS:
        for directory in path.relative_to(root).parents:
            if directory.name and (root / directory).is_symlink():
                raise OSError(errno.ELOOP, NO_LINK, str(root / directory))
        yield str(path), None
        return
    place = root
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.relative_to(root).parts[:-1]:
            place /= part
            inner = _open_directory(part, descriptor, place)
            os.close(descriptor)
            descriptor = inner
        yield path.name, descriptor
    finally:
        os.close(descriptor)


def _open_directory(name: str, descriptor: int, place: Path) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW, dir_fd=descriptor)
    except OSError as error:
        raise _explain(error, place) from error


def _explain(error: OSError, path: Path) -> OSError:
    """The error with its path, and with a clear message if a link caused it."""
    is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink()
    number, text = (errno.ELOOP, NO_LINK) if is_link else (error.errno or 0, error.strerror)
    return OSError(number, text, str(path))


def holds(path: Path, content: bytes) -> bool:
    """Whether the file at `path` can be read and has exactly this content."""
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


def read_small(path: Path, encoding: str = "utf-8") -> str:
    """The text of a regular file of at most 64 MB.

    Raises:
        OSError: it cannot be read, is larger, or is a pipe or a device.
        ValueError: it is not text in this encoding.
    """
    there = path.stat()
    if not stat.S_ISREG(there.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if there.st_size > _MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return path.read_text(encoding=encoding)


def read_json(path: Path) -> Any:
    """The value in a small JSON file.

    Raises:
        OSError: as `read_small`.
        ValueError: it is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(read_small(path))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_record(
    path: Path, from_dict: Callable[[Mapping[str, Any]], AnyRecord]
) -> AnyRecord | None:
    """The record in a small JSON file; None if there is none, or it cannot be read."""
    try:
        return from_dict(read_json(path))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


@contextmanager
def replacing(target: Path, staging: Path) -> Iterator[Path]:
    """Write a file atomically: a path below `staging` that replaces `target` after the block.

    `staging` must be on the same disk as `target`, directly in the run directory, and no reader may
    look there. If the block fails, what it wrote is removed, so that it does not keep a disk full.
    A run directory that was removed is not made again: OSError.
    """
    with _stage(target, staging) as path:
        try:
            yield path
            # without this, a power failure may leave the new name on an empty file
            with fault_points(Step.SYNC_FILE), path.open("rb+") as file:
                os.fsync(file.fileno())
            if target.parent != staging.parent:
                make_directory(target.parent)
            with fault_points(Step.RENAME_FILE):
                move_inside(staging.parent, path, target)
        except OSError as error:
            if error.filename is None:
                error.filename = str(target)  # a failed sync does not name the file
            raise


def write_unsynced(target: Path, staging: Path, content: bytes) -> None:
    """Replace a file that can be written again at any time, and may be lost in a power failure."""
    with _stage(target, staging) as path:
        path.write_bytes(content)
        move_inside(staging.parent, path, target)


def write_record(target: Path, staging: Path, record: Mapping[str, Any]) -> None:
    """Replace a small JSON file, as `write_unsynced` does."""
    write_unsynced(target, staging, f"{json.dumps(record, indent=1, allow_nan=False)}\n".encode())


@contextmanager
def _stage(target: Path, staging: Path) -> Iterator[Path]:
    """A path that nobody else knows, so that nobody can place a link there."""
    make_directory(staging)
    # from Python 3.12 on the path is absolute, even if `staging` is relative
    directory = staging / Path(tempfile.mkdtemp(prefix=STAGED, dir=staging)).name
    try:
        yield directory / target.name
    finally:
        shutil.rmtree(directory, ignore_errors=True)
