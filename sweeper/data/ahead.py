"""Prepares a study's data in a fork of this process, while this one imports JAX.

Libraries that read tables take about as long to import as JAX. Prepared arrays are also kept in the
cache directory, by a key of everything they depend on, so that a later start imports none of them.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable, FunctionTable, NpzTable, ParquetTable
from sweeper.data.dataset import Dataset
from sweeper.data.files import find_file, from_here, parquet_files
from sweeper.data.memory import check_host
from sweeper.data.metric_checks import check_metrics
from sweeper.errors import SetupError, SweeperError
from sweeper.process import die_with, package_version, physical_bytes, usable_cores
from sweeper.user_dirs import own_directory

# what reads, splits and scales rows; other versions may do it differently
_LIBRARIES = ("numpy", "pandas", "pyarrow", "scikit-learn")
# if more prepared arrays than this are cached, those unused the longest are removed
_MAX_CACHED = 32
_MAX_BYTES = 8 << 30
# no process takes this long to write them
_STALE_S = 24 * 3600.0
_UNFINISHED = ".part"
_OWN_NAME = re.compile(r"sweeper-[0-9a-f]{32}(\.npz|-[^.]+\.part)")
_log = logging.getLogger("sweeper")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A dataset in preparation; calling it waits for it. If it `is_cached`, it is only read."""

    config: StudyConfig
    is_cached: bool
    wait: Callable[[], Dataset]

    def __call__(self) -> Dataset:
        """The dataset.

        Raises:
            DataError: as `prepare`; also if cached data is now too large, or a metric has no value
            on the validation rows.
        """
        data = self.wait()
        check_host(self.config, data.nbytes)
        check_metrics(self.config, data)
        return data


@contextmanager
def preparing(config: StudyConfig) -> Iterator[Prepared]:
    """Start to prepare the dataset of a study."""
    cached = _cache_path(config)
    if cached is not None and cached.is_file():
        yield Prepared(config, True, lambda: _load(cached, config))
    elif not _may_fork() or (scratch := _scratch()) is None:
        yield Prepared(config, False, lambda: _prepared_here(config, cached))
    else:
        with scratch as directory:
            staged = Path(directory) / "data.npz"
            child, receiver = _start(config, staged)
            try:
                yield Prepared(
                    config, False, lambda: _await(child, receiver, config, staged, cached)
                )
            finally:
                child.kill()
                child.join()
                receiver.close()


def _may_fork() -> bool:
    """Whether a fork of this process works at all, and would prepare data sooner.

    A fork has none of the other threads, so it would wait forever for locks that they hold: threads
    of JAX, of the caller, and of systems other than Linux. Daemonic processes, as in a
    `multiprocessing.Pool`, may not start others.
    """
    if multiprocessing.current_process().daemon:
        return False
    is_alone = sys.platform == "linux" and threading.active_count() == 1
    is_slow_here = "sklearn" not in sys.modules and "jax" not in sys.modules
    return is_alone and is_slow_here and usable_cores() > 1


def _scratch() -> tempfile.TemporaryDirectory[str] | None:
    """A temporary directory; None if no disk has space for one."""
    try:
        return tempfile.TemporaryDirectory()
    except OSError:
        return None


def _start(config: StudyConfig, path: Path) -> tuple[BaseProcess, Connection]:
    """Start a process that prepares the data into `path`; returns it and a pipe for its errors."""
    # a fork, since a new interpreter would take half a second for the imports so far
    forking = multiprocessing.get_context("fork")
    receiver, sender = forking.Pipe(duplex=False)
    child = forking.Process(target=_prepare_into, args=(path, config, sender, os.getpid()))
    child.start()
    sender.close()  # otherwise the pipe would stay open after the child has ended
    return child, receiver


def _prepare_into(path: Path, config: StudyConfig, sender: Connection, parent: int) -> None:
    """Prepare the data in a forked process, and send any error to the parent."""
    os.setpgid(0, 0)  # a terminal sends Ctrl-C to every process in the parent's group
    die_with(parent)
    # output of user functions, also from native code, must not mix with a command's result
    os.dup2(2, 1)
    from sweeper.data.prepare import prepare

    try:
        prepare(config).save(path)
    except SweeperError as error:
        sender.send(error)
        sys.exit(error.exit_code)
    except OSError:  # no space for the arrays, or unreadable rows; the parent will find the same
        sys.exit(SetupError.exit_code)


def _await(
    child: BaseProcess, receiver: Connection, config: StudyConfig, staged: Path, cached: Path | None
) -> Dataset:
    with suppress(EOFError):  # the child is done, or has died
        raise receiver.recv()
    child.join()
    if child.exitcode:  # it died for another reason; this process will find the same
        return _prepared_here(config, cached)
    data = Dataset.load(staged)
    _store(data, config, cached)
    return data


def _prepared_here(config: StudyConfig, cached: Path | None) -> Dataset:
    from sweeper.data.prepare import prepare

    data = prepare(config)
    _store(data, config, cached)
    return data


def _load(cached: Path, config: StudyConfig) -> Dataset:
    try:
        data = Dataset.load(cached)
    except Exception as error:  # damaged in some way, or just removed
        _log.info("preparing the data again, since the cached data cannot be used: %s", error)
        return _prepared_here(config, cached)
    with suppress(OSError):  # the cache is read-only
        os.utime(cached, follow_symlinks=False)
    return data


def _store(data: Dataset, config: StudyConfig, cached: Path | None) -> None:
    """Cache `data` for the next start, if possible; nothing depends on it.

    Not if a file has changed since `cached` was found: then `data` may be of other rows.
    """
    if cached is None or _cache_path(config) != cached:
        return
    with suppress(OSError):
        # a new file, readable only by this user
        descriptor, name = tempfile.mkstemp(_UNFINISHED, f"{cached.stem}-", cached.parent)
        os.close(descriptor)
        staged = Path(name)
        try:
            data.save(staged)
            staged.replace(cached)
        finally:
            staged.unlink(missing_ok=True)
        _tidy(cached.parent)


def _tidy(directory: Path) -> None:
    """Remove prepared arrays unused the longest, and leftovers of killed processes.

    Only removes files with names that this module gives.
    """
    own = [path for path in directory.iterdir() if _OWN_NAME.fullmatch(path.name)]
    stats = {path: path.lstat() for path in own}
    all_bytes = count = 0
    for path in sorted(stats, key=lambda path: -stats[path].st_mtime_ns):
        if path.suffix == ".npz":
            count, all_bytes = count + 1, all_bytes + stats[path].st_size
            is_old = count > 1 and (count > _MAX_CACHED or all_bytes > _MAX_BYTES)
        else:
            is_old = time.time() - stats[path].st_mtime > _STALE_S
        if is_old:
            path.unlink()


def _cache_path(config: StudyConfig) -> Path | None:
    """The path of a study's cached arrays; None if its rows are missing or too many."""
    if isinstance(config.data, FunctionTable):  # it may read anything
        return None
    settings, rows = config.canonical(), config.rows
    try:
        files = _files(config)
        if sum(path.stat().st_size for path in files) > (physical_bytes() or sys.maxsize):
            return None  # reading them all takes long, and they are refused later
        # directory names of a partitioned table also hold values
        content = [[*(part for part in path.parts if "=" in part), _digest(path)] for path in files]
        # what notes call the rows
        named = [rows.name, *rows.notes] if rows else [str(from_here(path)) for path in files]
    except (SweeperError, OSError):
        return None
    parts = [settings[name] for name in ("data", "train", "search")]
    depends_on: list[Any] = [
        *parts,
        config.edition,
        settings["study"]["seed"],
        settings["study"]["folds"],
        settings["execution"]["precision"],
        config.number_encodings,
        config.used_bins,
        config.repeats_split,
        content,
        named,
        _versions(),
    ]
    name = blake2b(json.dumps(depends_on).encode(), digest_size=16).hexdigest()
    directory = own_directory("data")
    return None if directory is None else directory / f"sweeper-{name}.npz"


def _files(config: StudyConfig) -> list[Path]:
    """The files that contain the study's rows."""
    match config.data:
        case CsvTable(path=path):
            return [find_file(config, path, "data.path", ".csv")]
        case NpzTable(path=path):
            return [find_file(config, path, "data.path", ".npz")]
        case ParquetTable() as data:
            return parquet_files(config, data)
        case _:
            return []


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        digest = blake2b(digest_size=16)
        while block := file.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()


@cache
def _versions() -> list[str]:
    """The versions of the libraries, and a digest of this package's own code for data."""
    code = [_digest(path) for path in sorted(Path(__file__).parent.glob("*.py"))]
    return [*(version(library) for library in _LIBRARIES), package_version(), *code]
