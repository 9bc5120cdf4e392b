"""Files of a run directory, written and removed without following a link.

The run directory itself may be a link, or lie behind one. Inside it every link is refused: whoever
placed one there could have sweeper write to, or remove, what it points to. Each function takes the
`root` of the run directory and opens the directories below it one by one, so that a link is refused
even if it took the place of a directory a moment ago.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sweeper.errors import Problem, SetupError
from sweeper.rundir import RunDir

MEND = "remove or rename it, then go on"
_FOUND = "it is a link, and sweeper follows no link inside a run directory"
# other systems than POSIX name files by their paths alone
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


def links_in(run_dir: RunDir) -> Iterator[tuple[Path, str]]:
    """The links among the files and directories of a study, each with what to say about it."""
    for path in run_dir.names():
        if path.is_symlink():
            yield path, _FOUND
    for directory in run_dir.directories():
        if directory.is_dir() and not directory.is_symlink():
            yield from ((path, _FOUND) for path in sorted(directory.iterdir()) if path.is_symlink())


def refuse_links(run_dir: RunDir) -> None:
    """Refuse to read a run directory that has a link inside.

    Raises:
        SetupError: with each of them.
    """
    if found := [*links_in(run_dir)]:
        raise SetupError(Problem(str(path), "", what, MEND) for path, what in found)


def open_inside(root: Path, path: Path, mode: str, **options: Any) -> Any:
    """Open a file below `root` as `open` does.

    Raises:
        OSError: as `open`; the file, or a directory on the way to it, is a link.
    """

    def opener(_: str, flags: int) -> int:
        with _reached(root, path) as (name, directory):
            try:
                return os.open(name, flags | _NOFOLLOW, 0o666, dir_fd=directory)
            except OSError as error:
                raise _explained(error, path) from error

    return open(path, mode, opener=opener, **options)


def remove_inside(root: Path, path: Path) -> None:
    """Remove a file below `root`, or the link in its place; nothing happens if there is none.

    Raises:
        OSError: it cannot be removed; a directory on the way to it is a link.
    """
    with suppress(FileNotFoundError), _reached(root, path) as (name, directory):
        os.unlink(name, dir_fd=directory)


def remove_tree_inside(root: Path, path: Path) -> None:
    """Remove a directory below `root` with all that is in it; links in it are removed themselves.

    Raises:
        OSError: as `remove_inside`.
    """
    with _reached(root, path) as (name, directory):
        shutil.rmtree(name, dir_fd=directory)


def move_inside(root: Path, source: Path, target: Path) -> None:
    """Rename a file below `root`, over what is at `target`, below it as well.

    Raises:
        OSError: as `os.replace`; a directory on the way to either is a link.
    """
    with _reached(root, source) as (old, from_fd), _reached(root, target) as (new, to_fd):
        os.replace(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def make_directory(path: Path) -> None:
    """Make a directory unless it is there.

    Raises:
        OSError: it cannot be made, or is a link.
    """
    path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, _FOUND, str(path))


@contextmanager
def _reached(root: Path, path: Path) -> Iterator[tuple[str, int | None]]:
    """The name of a file below `root`, and the descriptor of the directory that it is in."""
    if not _HAS_DESCRIPTORS:
        for directory in path.relative_to(root).parents:
            if directory.name and (root / directory).is_symlink():
                raise OSError(errno.ELOOP, _FOUND, str(root / directory))
        yield str(path), None
        return
    place = root
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.relative_to(root).parts[:-1]:
            place /= part
            inner = _opened(part, descriptor, place)
            os.close(descriptor)
            descriptor = inner
        yield path.name, descriptor
    finally:
        os.close(descriptor)


def _opened(name: str, descriptor: int, place: Path) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW, dir_fd=descriptor)
    except OSError as error:
        raise _explained(error, place) from error


def _explained(error: OSError, path: Path) -> OSError:
    """The error, which says so if a link caused it, and of which path it is."""
    is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink()
    number, said = (errno.ELOOP, _FOUND) if is_link else (error.errno or 0, error.strerror)
    return OSError(number, said, str(path))
