"""This process: its streams, its limits, its parent, and how it ends.

A command ends without Python's teardown if nothing is lost by that. Python would search several
times through all objects for garbage, of which JAX has made hundreds of thousands, and take every
module apart: 0.2 to 0.4 s of the 3.5 s of a small study. With user-defined code loaded, the
teardown is needed: a file that a module leaves open is written when the module is collected.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

_has_foreign_code = threading.Event()
_code: int | None = None
# this is among the first modules that the program imports
_imported_at = time.time()
_program_start: float | None = None


def note_foreign_code() -> None:
    """Note that a user-defined module is about to be loaded."""
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


# packages that results depend on
LIBRARIES = (
    "sweeper",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "optuna",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "cmaes",
    "torch",
)


@cache
def installed_versions(packages: tuple[str, ...]) -> dict[str, str]:
    """The version of each of these packages that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def package_version() -> str:
    """The version of this package; "unknown" if it runs from a checkout that is not installed."""
    return installed_versions(("sweeper",)).get("sweeper", "unknown")
