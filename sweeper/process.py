"""This process: its streams, its limits, its parent, and how it ends.

A command skips Python's teardown if that loses nothing. Python would collect garbage several times
over the hundreds of thousands of objects that JAX has made, and unload every module: 0.2 to 0.4 s
of the 3.5 s of a small study. With user-defined code loaded, the teardown is needed: a file that a
module leaves open is only written when the module is collected.
"""

from __future__ import annotations

import atexit
import codecs
import ctypes
import io
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
# this module is among the first that the program imports
_imported_at = time.time()
_program_start: float | None = None


def note_foreign_code() -> None:
    """Note that a user-defined module is about to be loaded."""
    _has_foreign_code.set()


def as_program(command: Callable[[], NoReturn]) -> NoReturn:
    """Run `command` as the only purpose of this process, which then ends without teardown.

    Other exit handlers still run: Python calls the last registered one first, so if some are
    already registered, the normal teardown takes place.
    """
    global _code, _program_start
    _program_start = _imported_at
    # Python has no public way to count them
    if not atexit._ncallbacks():  # pyright: ignore[reportAttributeAccessIssue]
        atexit.register(_leave)
    try:
        command()
    except SystemExit as end:
        _code = end.code if isinstance(end.code, int) else None
        raise


def take_program_start() -> float | None:
    """When this program began, in seconds since 1970; None if it is not running just one command.

    Only the first caller gets it: what a command does later did not begin at that time.
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
    except (OSError, ValueError):  # full or closed: Python handles that
        return
    os._exit(_code)


_PR_SET_PDEATHSIG = 1
_WATCH_S = 0.2


def die_with(parent: int) -> None:
    """End this process when its parent ends, whatever it is doing at that time."""
    if sys.platform == "linux":
        # the kernel also ends a child inside a native call that holds the interpreter
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    """End with the parent on systems without a death signal, or if it has already ended."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)


_STDERR = 2  # its descriptor, the last of the three


def open_streams() -> None:
    """Replace missing standard streams: output is discarded, and input is empty.

    This also takes their descriptors: otherwise a ledger could be opened as one of them, and native
    code would write its messages into it. A stream that is not UTF-8 gets an escape, such as
    `\\u2265`, for a character that its encoding lacks.
    """
    free: set[int] = set()
    while (nowhere := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(nowhere, True)  # or workers would get other files as streams
        free.add(nowhere)
    os.close(nowhere)
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # a file of the caller may have taken the descriptor of the stream
            place = descriptor if descriptor in free else os.devnull
            setattr(sys, name, open(place, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif mode == "w" and isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            escape_unencodable(stream)


def escape_unencodable(stream: io.TextIOWrapper) -> None:
    """Write an escape for a character that the encoding of `stream` lacks, not an error."""
    is_utf = codecs.lookup(stream.encoding).name.startswith("utf")
    if not is_utf and stream.errors in ("strict", "surrogateescape"):
        stream.reconfigure(errors="backslashreplace")


PROC = Path("/proc")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
# version 2, which slows a process down above `high`, and version 1
_MEMORY_FILES = ("memory.max", "memory.high", "memory.limit_in_bytes")


@dataclass(frozen=True, slots=True)
class Limits:
    """What the control groups allow: a share of cores and bytes of memory; None for no limit."""

    cores: float | None = None
    memory_bytes: int | None = None


def limits(proc: Path = PROC, root: Path = CONTROL_GROUPS) -> Limits:
    """The lowest limits of the control groups of this process and those above it; v1 or v2.

    Files that are missing or cannot be parsed impose no limit.
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
    """How many cores this process can keep busy: a quota of 1.5 counts as two."""
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
    """The free memory that this process may use; None if the system does not say."""
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
    """The number in a file; ValueError for `max` or -1, which mean no limit."""
    if (number := int(text)) > 0:
        return number
    raise ValueError(text)


def _groups(proc: Path, root: Path, controller: str) -> Iterator[Path]:
    """The directories of the control groups of this process and of all groups around them.

    In a container the path may be one of the host that is not visible; then the root is used.
    """
    paths = _paths(proc)
    mounts = [(root, ""), (root / "unified", "")]
    if not (root / "cgroup.controllers").exists():  # otherwise the groups are of version 2
        with suppress(OSError):
            names = [path.name for path in root.iterdir()]
            version_1 = [name for name in names if controller in name.split(",")]
            mounts += [(root / name, controller) for name in version_1]
    for mount, key in mounts:
        path = paths.get(key, Path())
        yield from (mount / group for group in (path, *path.parents))


def _paths(proc: Path) -> dict[str, Path]:
    """The group of this process by controller; the key of version 2 is empty."""
    paths: dict[str, Path] = {}
    with suppress(OSError, ValueError):
        for line in (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            inside = Path(*(part for part in path.split("/") if part not in ("", "..")))
            paths |= dict.fromkeys(controllers.split(","), inside)
    return paths


# The distribution that installs this package: `sweeper` there is another project. In everything
# recorded, its version is that of "sweeper".
DISTRIBUTION = "sweeper-jax"

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
            found[package] = version(DISTRIBUTION if package == "sweeper" else package)
    return found


def package_version() -> str:
    """The version of this package; "unknown" if it runs from a checkout that is not installed."""
    return installed_versions(("sweeper",)).get("sweeper", "unknown")
