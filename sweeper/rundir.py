"""The paths of a run directory, safe reading and writing of its files, and the cache directory.

The run directory itself may be a link or be reached through one. Links inside it are refused,
because a link could make sweeper write or remove files elsewhere. Each function takes the `root` of
the run directory and opens the directories below it one by one, so that a link is refused even if
it replaced a directory a moment ago. Files are replaced as a whole or not at all, and files that
are expected to be small are not read if they are large.

The cache directory, named by `SWEEPER_CACHE_DIR`, may contain other files. Only files with names
that sweeper gives, in the directories that `own_directory` returns, are replaced or removed. Files
that cannot be made again are in the state directory.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sweeper.errors import Problem, SetupError
from sweeper.faults import Step, fault_points

AnyRecord = TypeVar("AnyRecord")

_CHECKPOINT = re.compile(r"r\d+-b\d+.*\.safetensors")
_MODEL = re.compile(r"trial-\d+(-\d+)?\.(eqx|safetensors)")
_LOG = re.compile(r"(worker-\d+|sweeper)\.log|left\.json")
_PART = re.compile(r"part-.*\.parquet")
_REQUEST = re.compile(r"\d+-[0-9a-f]+(\.answer)?\.json")
_LOGS_OF_LEDGERS = ("", "-wal", "-shm", "-journal")  # as SQLite names them


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


@dataclass(frozen=True, slots=True)
class RunDir:
    """Everything of one study, below the directory `root`."""

    root: Path

    @property
    def study_file(self) -> Path:
        """The study file as first run."""
        return self.root / "study.toml"

    @property
    def rows(self) -> Path:
        """The rows of a study that started with them in memory."""
        return self.root / "data.parquet"

    @property
    def ledger(self) -> Path:
        """The SQLite file that is the source of truth of the study."""
        return self.root / "ledger.db"

    @property
    def backup(self) -> Path:
        """A copy of the ledger, at most a few minutes old."""
        return self.root / "ledger.backup.db"

    @property
    def damaged(self) -> Path:
        """A damaged ledger that was replaced by its backup."""
        return self.root / "ledger.damaged.db"

    @property
    def lock(self) -> Path:
        """Held by the one process that runs the study."""
        return self.root / "ledger.lock"

    @property
    def owner(self) -> Path:
        """Which process runs the study, for file systems without locks."""
        return self.root / "ledger.lock.owner"

    @property
    def status(self) -> Path:
        """What `status` shows; replaced atomically."""
        return self.root / "status.json"

    @property
    def stop(self) -> Path:
        """Exists if the study was asked to stop; removed once it has stopped."""
        return self.root / "stop"

    @property
    def requests(self) -> Path:
        """Requests of users to the study, until they are answered, and the answers."""
        return self.root / "requests"

    @property
    def importance(self) -> Path:
        """How much each parameter matters for each objective; replaced atomically."""
        return self.root / "importance.parquet"

    @property
    def baseline(self) -> Path:
        """How good simple models are on the same rows; replaced atomically."""
        return self.root / "baseline.json"

    @property
    def ensemble(self) -> Path:
        """The trials whose predictions are averaged, and what that gains; replaced atomically."""
        return self.root / "ensemble.json"

    @property
    def trackers(self) -> Path:
        """What was logged to experiment trackers; replaced atomically."""
        return self.root / "trackers.json"

    @property
    def confirm(self) -> Path:
        """The run directory in which the best trials are trained again with fresh seeds."""
        return self.root / "confirm"

    @property
    def refit(self) -> Path:
        """The run directories of trials trained again on more rows, one per trial."""
        return self.root / "refit"

    @property
    def schema(self) -> Path:
        """The meaning of the columns of the published tables, for people."""
        return self.root / "SCHEMA.md"

    @property
    def trials(self) -> Path:
        """One row per finished trial; replaced atomically."""
        return self.root / "trials.parquet"

    @property
    def buckets(self) -> Path:
        """One row per bucket and round; replaced atomically."""
        return self.root / "buckets.parquet"

    @property
    def spans(self) -> Path:
        """What the program, its threads and its workers did and when; replaced atomically."""
        return self.root / "spans.parquet"

    @property
    def metrics(self) -> Path:
        """The directory of the parts of metrics; a part is complete and never changed."""
        return self.root / "metrics"

    @property
    def checkpoints(self) -> Path:
        """Training state of unfinished lanes after the last round."""
        return self.root / "checkpoints"

    @property
    def models(self) -> Path:
        """The weights of the best trials."""
        return self.root / "models"

    def model(self, number: int, member: int = 0) -> Path:
        """The weights of one member of trial `number`, if they were kept."""
        which = f"-{member}" if member else ""
        return self.models / f"trial-{number:06d}{which}.eqx"

    def saved(self, number: int, member: int = 0) -> Path:
        """The same weights with a digest, and the optimizer state if it was kept."""
        return self.model(number, member).with_suffix(".safetensors")

    @property
    def started_from(self) -> Path:
        """The saved model that all trials of the study start from, if any."""
        return self.root / "continued_from.safetensors"

    @property
    def preparation(self) -> Path:
        """How the study prepares its data, for exported models."""
        return self.root / "preparation.json"

    @property
    def data(self) -> Path:
        """The prepared data of the study, for workers."""
        return self.staging / "data.npz"

    @property
    def shared_marker(self) -> Path:
        """A random text; workers of a cluster that read the same text see this directory."""
        return self.staging / "meeting"

    @property
    def logs(self) -> Path:
        """What workers wrote to standard output and error, and how the last session ended."""
        return self.root / "logs"

    def worker_log(self, index: int) -> Path:
        """The log of the workers in one slot, one after the other."""
        return self.logs / f"worker-{index}.log"

    @property
    def log(self) -> Path:
        """The log of the program that runs the study."""
        return self.logs / "sweeper.log"

    @property
    def staging(self) -> Path:
        """Half-written files, to be renamed to their final paths."""
        return self.root / ".staging"

    @property
    def exit_note(self) -> Path:
        """Names the process that ended in good order in the middle of a round."""
        return self.logs / "left.json"

    def own_checkpoints(self) -> list[Path]:
        """The checkpoint files; other files in their directory are left alone."""
        return _named(self.checkpoints, _CHECKPOINT)

    def own_models(self) -> list[Path]:
        """The model files; other files in their directory are left alone."""
        return _named(self.models, _MODEL)

    def own_parts(self) -> list[Path]:
        """The part files of metrics/."""
        return _named(self.metrics, _PART)

    def own_requests(self) -> list[Path]:
        """The files of requests/."""
        return _named(self.requests, _REQUEST)

    def own_logs(self) -> list[Path]:
        """The files of logs/."""
        return _named(self.logs, _LOG)

    def nested(self) -> list[Path]:
        """Where run directories may be inside this one, also those that were moved aside."""
        return sorted((*self.root.glob(f"{self.confirm.name}*"), *self.refit.glob("*")))

    def names(self) -> Iterator[Path]:
        """Every path that the study may use directly in the run directory."""
        yield from (*self.files(), self.confirm, self.staging, *self.directories())

    def files(self) -> Iterator[Path]:
        """Every file that the study may write directly into the run directory."""
        ledgers = (self.ledger, self.backup, self.damaged)
        yield from (Path(f"{path}{end}") for path in ledgers for end in _LOGS_OF_LEDGERS)
        yield from (self.lock, self.owner, self.status, self.stop, self.study_file, self.schema)
        yield self.rows
        yield from (self.trials, self.buckets, self.spans, self.importance, self.baseline)
        yield from (self.ensemble, self.trackers)
        yield from (self.preparation, self.started_from)

    def directories(self) -> Iterator[Path]:
        """The directories that contain only files of the study."""
        yield from (self.metrics, self.checkpoints, self.models, self.logs, self.refit)
        yield self.requests

    def make(self) -> None:
        """Create every directory of the run."""
        for path in (self.metrics, self.checkpoints, self.models, self.logs, self.staging):
            path.mkdir(parents=True, exist_ok=True)


def _named(directory: Path, names: re.Pattern[str]) -> list[Path]:
    """The files in a directory whose names match, sorted."""
    return sorted(path for path in directory.glob("*") if names.fullmatch(path.name))


HINT = "remove or rename it, then try again"
_FOUND = "it is a link, and sweeper follows no link inside a run directory"
# systems other than POSIX open files by path only
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


def links_in(run_dir: RunDir) -> Iterator[tuple[Path, str]]:
    """The links among the files and directories of a study, each with what is wrong with it."""
    for path in run_dir.names():
        if path.is_symlink():
            yield path, _FOUND
    for directory in run_dir.directories():
        if directory.is_dir() and not directory.is_symlink():
            yield from ((path, _FOUND) for path in sorted(directory.iterdir()) if path.is_symlink())


def refuse_non_utf8(root: Path, hint: str) -> None:
    """Refuse a directory whose name is not UTF-8, which Arrow needs to open files in it.

    Raises:
        SetupError: its name is not UTF-8; `hint` says what to do.
    """
    try:
        str(root).encode()
    except UnicodeEncodeError:
        found = "Parquet files cannot be read in it, because its name is not UTF-8"
        raise SetupError(Problem(str(root), "", found, hint)) from None


def refuse_links(run_dir: RunDir) -> None:
    """Refuse a run directory that contains a link, or whose name is not UTF-8.

    Raises:
        SetupError: with each link.
    """
    refuse_non_utf8(run_dir.root, "rename the directory")
    if found := [*links_in(run_dir)]:
        raise SetupError(Problem(str(path), "", what, HINT) for path, what in found)


def open_inside(root: Path, path: Path, mode: str, **options: Any) -> Any:
    """Open a file below `root` as `open` does.

    Raises:
        OSError: as `open`, or if the file or a directory on the way to it is a link.
    """

    def opener(_: str, flags: int) -> int:
        with _reached(root, path) as (name, directory):
            try:
                return os.open(name, flags | _NOFOLLOW, 0o666, dir_fd=directory)
            except OSError as error:
                raise _explained(error, path) from error

    return open(path, mode, opener=opener, **options)


def remove_inside(root: Path, path: Path) -> None:
    """Remove a file or link below `root`, if it exists.

    Raises:
        OSError: it cannot be removed, or a directory on the way to it is a link.
    """
    with suppress(FileNotFoundError), _reached(root, path) as (name, directory):
        os.unlink(name, dir_fd=directory)


def remove_tree_inside(root: Path, path: Path) -> None:
    """Remove a directory below `root` with its contents; of links, only the links themselves.

    Raises:
        OSError: as `remove_inside`.
    """
    with _reached(root, path) as (name, directory):
        shutil.rmtree(name, dir_fd=directory)


def move_inside(root: Path, source: Path, target: Path) -> None:
    """Rename a file below `root` to `target`, also below it, and replace what is there.

    Raises:
        OSError: as `os.replace`; a directory on the way to either is a link.
    """
    with _reached(root, source) as (old, from_fd), _reached(root, target) as (new, to_fd):
        os.replace(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)


def make_directory(path: Path) -> None:
    """Make a directory unless it exists.

    Raises:
        OSError: it cannot be made, or is a link.
    """
    path.mkdir(exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, _FOUND, str(path))


@contextmanager
def _reached(root: Path, path: Path) -> Iterator[tuple[str, int | None]]:
    """The name of a file below `root`, and the descriptor of its directory."""
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
    """The error with its path, and with a clear message if a link caused it."""
    is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and path.is_symlink()
    number, said = (errno.ELOOP, _FOUND) if is_link else (error.errno or 0, error.strerror)
    return OSError(number, said, str(path))


_MAX_BYTES = 64_000_000


def holds(path: Path, content: bytes) -> bool:
    """Whether the file at `path` can be read and has exactly this content."""
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


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


STAGED = "new-"
"""The prefix of directories in which a file is written before it is renamed."""


@contextmanager
def replacing(target: Path, staging: Path) -> Iterator[Path]:
    """Write a file atomically: a path below `staging` that replaces `target` after the block.

    `staging` must be on the same disk as `target`, directly in the run directory, and no reader may
    look there. If the block fails, what it wrote is removed, so that it does not keep a disk full.
    A run directory that was removed is not made again: OSError.
    """
    with _staged(target, staging) as staged:
        try:
            yield staged
            # without this, a power failure may leave the new name on an empty file
            with fault_points(Step.SYNC_FILE), staged.open("rb+") as file:
                os.fsync(file.fileno())
            if target.parent != staging.parent:
                make_directory(target.parent)
            with fault_points(Step.RENAME_FILE):
                move_inside(staging.parent, staged, target)
        except OSError as error:
            if error.filename is None:
                error.filename = str(target)  # a failed sync does not name the file
            raise


def swapped(target: Path, staging: Path, content: bytes) -> None:
    """Replace a file that can be written again at any time, and may be lost in a power failure."""
    with _staged(target, staging) as staged:
        staged.write_bytes(content)
        move_inside(staging.parent, staged, target)


def write_record(target: Path, staging: Path, record: Mapping[str, Any]) -> None:
    """Replace a small JSON file, as `swapped` does."""
    swapped(target, staging, f"{json.dumps(record, indent=1, allow_nan=False)}\n".encode())


@contextmanager
def _staged(target: Path, staging: Path) -> Iterator[Path]:
    """A path that nobody else knows, so that nobody can place a link there."""
    make_directory(staging)
    # from Python 3.12 on the path is absolute, even if `staging` is relative
    directory = staging / Path(tempfile.mkdtemp(prefix=STAGED, dir=staging)).name
    try:
        yield directory / target.name
    finally:
        shutil.rmtree(directory, ignore_errors=True)


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


def state_root() -> Path | None:
    """The user's state directory, which no command clears; None without a home directory."""
    from platformdirs import user_state_path

    path = user_state_path("sweeper")
    return path if path.is_absolute() else None
