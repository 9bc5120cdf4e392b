"""How a command ends: at once, where nothing is lost by that.

As it tears down, Python looks several times through all objects for garbage, of which JAX has made
hundreds of thousands by then, and takes every module apart: of 3.5 s of a small study that is 0.2
to 0.4. Where code of the user's own was loaded it has to: a file that a module leaves open is
written out when the module is found to be garbage.

Binds the life of a child process to that of its parent.

Standard streams, in a program that was started without them.

Refuses a limit on address space (ulimit -v) with which libraries would crash as they load.

The cores and the memory that this process may use, by the limits of its control groups.

Where things are kept that make the next start faster, and that may be deleted at any time.

The directory that `SWEEPER_CACHE_DIR` names may hold other files. Only those in the directories
that `own_directory` returns, with names that sweeper gives them, are ever replaced or removed.
The state directory, for what is not made again by itself, is apart from it.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import math
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

from platformdirs import user_cache_path, user_state_path

from sweeper.errors import Problem, SetupError, size_text

_has_foreign_code = threading.Event()
_code: int | None = None
# this is among the first modules that the program imports
_imported_at = time.time()
_program_start: float | None = None


def note_foreign_code() -> None:
    """Say that a module of the user's own is about to be loaded."""
    _has_foreign_code.set()


def as_program(command: Callable[[], NoReturn]) -> NoReturn:
    """Run `command` as all that this process is for: it ends at once after what ends it.

    What else is registered for the end of the process is called before. Python calls the last that
    was registered first: where there is one already, nothing ends at once.
    """
    global _code, _program_start
    _program_start = _imported_at
    # nothing public says how many there are
    if not atexit._ncallbacks():  # pyright: ignore[reportAttributeAccessIssue]
        atexit.register(_leave)
    try:
        command()
    except SystemExit as end:
        _code = end.code if isinstance(end.code, int) else None
        raise


def take_program_start() -> float | None:
    """When this program began, in seconds since 1970; None if it is not only here for a command.

    Only the first caller gets it: what a command does next has not gone on since then.
    """
    global _program_start
    taken, _program_start = _program_start, None
    return taken


def _leave() -> None:
    if _code is None or _has_foreign_code.is_set():
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # full, or closed: Python knows what to do about it
        return
    os._exit(_code)


_PR_SET_PDEATHSIG = 1
_WATCH_S = 0.2


def die_with(parent: int) -> None:
    """End this process when its parent ends, whatever it is doing then."""
    if sys.platform == "linux":
        # the kernel ends a child even inside a native call that holds the interpreter
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    """For systems without a death signal, and for a parent that died before it was asked for."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)


_STDERR = 2  # its descriptor, the last of the three


def open_streams() -> None:
    """Let what is said go nowhere where the program was started without standard streams.

    Their descriptors are taken, too: else a ledger would be opened as one of them, and whatever
    native code says would be written into it.
    """
    free: set[int] = set()
    while (nowhere := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(nowhere, True)  # or workers would take other files for their streams
        free.add(nowhere)
    os.close(nowhere)
    for descriptor, name in enumerate(("stdout", "stderr"), 1):
        if getattr(sys, name) is None:
            # a file of the caller's may have taken the place of the stream
            place = descriptor if descriptor in free else os.devnull
            setattr(sys, name, open(place, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


# measured: the libraries with a small study, on a CPU
_LEAST_BYTES = 2304 << 20
# the stack of a thread of XLA's, and the room that malloc reserves for it
_BYTES_PER_CPU = 72 << 20


def check_address_space() -> None:
    """Refuse a limit that is too small before anything large is imported.

    Raises:
        SetupError: with the limit, and how much is needed.
    """
    limit = _limit()
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    needed = _LEAST_BYTES + _BYTES_PER_CPU * cpus
    if limit is not None and limit < needed:
        found = f"the address space is limited to {size_text(limit)}, too little for the libraries"
        fix = (
            f"allow at least {size_text(needed)}: ulimit -v {needed >> 10}, or ulimit -v unlimited"
        )
        raise SetupError(Problem("RLIMIT_AS", "", found, fix))


def _limit() -> int | None:
    """The limit of this process; None if there is none."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


PROC = Path("/proc")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
# of version 2, which slows a process down beyond `high`, and of version 1
_MEMORY_FILES = ("memory.max", "memory.high", "memory.limit_in_bytes")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the control groups grant: a share of cores and bytes of memory; None for no limit."""

    cores: float | None = None
    memory_bytes: int | None = None


def limits(proc: Path = PROC, root: Path = CONTROL_GROUPS) -> Limits:
    """The least that a control group of this process, or one around it, grants; v1 or v2.

    Files that are missing or cannot be understood limit nothing.
    """
    return Limits(
        min(_cores(proc, root), default=None),
        min(_memory(proc, root), default=None),
    )


def usable_cpus() -> Sequence[int]:
    """The numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return range(os.cpu_count() or 1)


def usable_cores(granted: Limits | None = None) -> int:
    """How many cores this process can keep busy: a quota of one and a half counts as two."""
    cores, quota = len(usable_cpus()), (granted or limits()).cores
    return cores if quota is None else min(cores, max(1, math.ceil(quota)))


def installed_bytes() -> int | None:
    """The memory of this machine; None if the system does not say."""
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def physical_bytes(granted: Limits | None = None) -> int | None:
    """The memory that this process may use; None if the system does not say."""
    known = (installed_bytes(), (granted or limits()).memory_bytes)
    return min((size for size in known if size is not None), default=None)


def available_bytes(proc: Path = PROC) -> int | None:
    """The memory that this process may use and that is free now, if the system says."""
    known = [physical_bytes()]
    with suppress(OSError, ValueError, KeyError):
        lines = (proc / "meminfo").read_text(encoding="utf-8").splitlines()
        found = dict(line.split(":", 1) for line in lines)
        known.append(int(found["MemAvailable"].removesuffix("kB")) * 1024)
    return min((size for size in known if size is not None), default=None)


def _cores(proc: Path, root: Path) -> Iterator[float]:
    for group in _groups(proc, root, "cpu"):
        with suppress(OSError, ValueError):
            yield _quotient(*(group / "cpu.max").read_text(encoding="utf-8").split())
        with suppress(OSError, ValueError):
            files = (group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us")
            yield _quotient(*(file.read_text(encoding="utf-8") for file in files))


def _memory(proc: Path, root: Path) -> Iterator[int]:
    for group in _groups(proc, root, "memory"):
        for name in _MEMORY_FILES:
            with suppress(OSError, ValueError):
                yield _positive((group / name).read_text(encoding="utf-8"))


def _quotient(quota: str, period: str = "100000") -> float:
    return _positive(quota) / _positive(period)


def _positive(text: str) -> int:
    """The number that a file holds; ValueError for `max`, or -1, which limit nothing."""
    if (number := int(text)) > 0:
        return number
    raise ValueError(text)


def _groups(proc: Path, root: Path, controller: str) -> Iterator[Path]:
    """The directories of the control groups of this process and of all groups around them.

    In a container the path may be one of the host that is not visible; then the root is its own.
    """
    paths = _paths(proc)
    mounts = [(root, ""), (root / "unified", "")]
    if not (root / "cgroup.controllers").exists():  # else these are groups of version 2
        with suppress(OSError):
            names = [path.name for path in root.iterdir()]
            version_1 = [name for name in names if controller in name.split(",")]
            mounts += [(root / name, controller) for name in version_1]
    for mount, key in mounts:
        path = paths.get(key, Path())
        yield from (mount / group for group in (path, *path.parents))


def _paths(proc: Path) -> dict[str, Path]:
    """The group of this process by controller; that of version 2 has no name."""
    paths: dict[str, Path] = {}
    with suppress(OSError, ValueError):
        for line in (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            inside = Path(*(part for part in path.split("/") if part not in ("", "..")))
            paths |= dict.fromkeys(controllers.split(","), inside)
    return paths


CACHE_VARIABLE = "SWEEPER_CACHE_DIR"

_PRIVATE = 0o700
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_log = logging.getLogger("sweeper")


class _UnusableError(Exception):
    """Why a directory cannot be used as a cache."""


def cache_root() -> Path | None:
    """`SWEEPER_CACHE_DIR`, or else the user's cache directory; None without a home directory."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).absolute()
    path = user_cache_path("sweeper")
    return path if path.is_absolute() else None  # otherwise "~" was not replaced


def own_directory(name: str) -> Path | None:
    """The private directory `name` of the cache, made if missing.

    None, with one warning, if it cannot be used: the study goes on without a cache.
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
        told = error.strerror if isinstance(error, OSError) else error
        place = path or "the cache directory"
        hint = f"let {CACHE_VARIABLE} name a directory of your own"
        _log.warning("%s cannot be used: %s; the study goes on without (%s)", place, told, hint)
        return None


def _make_private(path: Path) -> None:
    """Keep others out of a directory: compiled programs in it are run as they are.

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
        except OSError as error:  # a read-only disk, or a directory of root's
            if found.st_mode & _WRITABLE_BY_OTHERS:
                raise _UnusableError("other users may write to it") from error
    os.scandir(path).close()


def state_root() -> Path | None:
    """The user's state directory, None without a home directory; no command clears it."""
    path = user_state_path("sweeper")
    return path if path.is_absolute() else None


def package_version() -> str:
    """The version of this package; "unknown" if it runs from a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("sweeper")
    except PackageNotFoundError:
        return "unknown"
