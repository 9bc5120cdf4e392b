"""Checks what a study needs of this machine, and says how to fix problems."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from shlex import quote
from sysconfig import get_path

from packaging.requirements import Requirement

from sweeper.errors import SetupError, counted, listed
from sweeper.executors.devices import (
    XLA_THREADS,
    check_xla_threads,
    gpus_of_driver,
    gpus_of_machine,
    invalid_fractions,
    mps_pipes,
    visible_gpus,
)
from sweeper.process import (
    DISTRIBUTION,
    Limits,
    installed_bytes,
    limits,
    physical_bytes,
    usable_cores,
    usable_cpus,
)
from sweeper.user_dirs import CACHE_VARIABLE, cache_root

# on these file systems, locks and the order of writes are not as reliable as on a local disk
_REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ceph", "lustre"}
_REMOTE |= {"beegfs", "gpfs", "glusterfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse"}
_LEAST_FREE_BYTES = 2**30
_LEAST_MEMORY_BYTES = 2 * 2**30
_MOUNTS = Path("/proc/self/mounts")
_FRACTIONS = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")
_LANES, _WIDTH = 8, 32
_SLOWEST = ("jax", "optuna", "pandas", "scipy", "sklearn")  # to import


@dataclass(frozen=True, slots=True)
class MachineFinding:
    """A finding about one topic; `hint` says how to fix it, and is empty if nothing is wrong."""

    about: str
    found: str
    hint: str = ""


def diagnose(run_dir: Path, granted: Limits | None = None) -> Iterator[MachineFinding]:
    """Yield each finding as soon as it is known; `run_dir` is where results would be written.

    `granted` are the limits of the control groups of this process.
    """
    granted = granted or limits()
    yield MachineFinding("python", f"{platform.python_version()}, {platform.platform()}")
    yield from _packages()
    yield from _bytecode_finding()
    yield _cores(granted)
    yield _memory(granted)
    yield from _settings()
    yield from _files(run_dir)
    yield from _cache()
    yield from _devices()


def _packages() -> Iterator[MachineFinding]:
    """The versions of the required packages, and whether they are supported."""
    found: list[str] = []
    try:
        lines = requires(DISTRIBUTION) or ()
    except PackageNotFoundError:  # a checkout that is not installed
        yield MachineFinding("sweeper", "not installed", "python -m pip install .")
        return
    for line in lines:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        name = requirement.name
        try:
            here = version(name)
        except PackageNotFoundError:
            yield MachineFinding(name, "not installed", f"python -m pip install '{line}'")
            continue
        found.append(f"{name} {here}")
        if not requirement.specifier.contains(here, prereleases=True):
            yield MachineFinding(
                name, f"{here}, which is not supported", f"python -m pip install '{line}'"
            )
    yield MachineFinding("packages", ", ".join(found))


def _bytecode_finding() -> Iterator[MachineFinding]:
    """Whether Python compiles the source of libraries again whenever it starts."""
    sources = {
        name: Path(spec.origin)
        for name in _SLOWEST
        if (spec := find_spec(name)) and spec.origin and spec.has_location
    }
    again = [
        name
        for name, source in sources.items()
        if not Path(cache_from_source(str(source))).exists()
        and (sys.dont_write_bytecode or not os.access(source.parent, os.W_OK))
    ]
    if again:
        found = f"Python compiles {listed(again)} at each start, since it may not keep the result"
        hint = f"python -m compileall -qq {quote(get_path('purelib'))}"
        yield MachineFinding("imports", found, hint)


def _cores(granted: Limits) -> MachineFinding:
    """How many cores are used, out of how many, and what limits them."""
    count = os.cpu_count() or 1
    allowed, used = len(usable_cpus()), usable_cores(granted)
    found = f"{used} of {count}" if used < count else str(count)
    if granted.cores is not None and granted.cores < allowed:
        found += f" (the CPU quota of the control group is {granted.cores:g})"
    elif allowed < count:
        found += " (the CPU affinity or cpuset of this process)"
    return MachineFinding("cores", found)


def _memory(granted: Limits) -> MachineFinding:
    memory, installed = physical_bytes(granted), installed_bytes()
    if memory is None:
        return MachineFinding("memory", "unknown to the system")
    found = f"{memory / 2**30:.1f} GiB for this process"
    if installed is not None and memory < installed:
        found += f" (the limit of the control group; the machine has {installed / 2**30:.1f} GiB)"
    hint = "" if memory >= _LEAST_MEMORY_BYTES else "allow at least 2 GiB, or set workers = 0"
    return MachineFinding("memory", found, hint)


def _settings() -> Iterator[MachineFinding]:
    """Environment variables that JAX and XLA read."""
    prefixes = "JAX_", "XLA_", XLA_THREADS
    given = {name: os.environ[name] for name in os.environ if name.startswith(prefixes)}
    if given:
        yield MachineFinding(
            "environment", ", ".join(f"{name}={given[name]}" for name in sorted(given))
        )
    if all(name in given for name in _FRACTIONS):
        yield MachineFinding(
            "environment", f"both {' and '.join(_FRACTIONS)}", f"unset {_FRACTIONS[0]}"
        )
    for problem in invalid_fractions(os.environ, visible_gpus(os.environ)):
        yield MachineFinding(problem.where, problem.found, problem.hint)
    try:
        check_xla_threads(os.environ)
    except SetupError as error:
        for problem in error.problems:
            yield MachineFinding(problem.where, problem.found, problem.hint)


def _files(run_dir: Path) -> Iterator[MachineFinding]:
    """The disk of the run directory."""
    place = next(
        path for path in (run_dir.absolute(), *run_dir.absolute().parents) if path.exists()
    )
    kind = file_system(place)
    hint = ""
    if kind in _REMOTE:
        hint = "set results.dir to a local disk: locks of the ledger are not reliable there"
    yield MachineFinding("run directory", f"{run_dir} on {kind or 'an unknown file system'}", hint)
    free = shutil.disk_usage(place).free
    hint = "" if free >= _LEAST_FREE_BYTES else "free some disk space, or name another results.dir"
    yield MachineFinding("free disk space", f"{free / 2**30:.1f} GiB", hint)
    if not os.access(place, os.W_OK | os.X_OK):
        yield MachineFinding(
            "run directory", f"{place} cannot be written", "name another results.dir"
        )


def file_system(place: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of file system that `place` is on; None if the system does not say."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    resolved = place.resolve()
    points = {Path(_unescaped(fields[1])): fields[2] for fields in lines if len(fields) > 2}
    for path in (resolved, *resolved.parents):
        if path in points:
            return points[path]
    return None


def _unescaped(name: str) -> str:
    """The name of a mount point, in which spaces are written as octal numbers."""
    return name.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _cache() -> Iterator[MachineFinding]:
    """The directory of compiled programs."""
    root = cache_root()
    hint = f"set {CACHE_VARIABLE} to a directory that you may write to"
    if root is None:
        yield MachineFinding("compile cache", "this user has no home directory", hint)
        return
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        yield MachineFinding("compile cache", f"{root}: {error.strerror}", hint)
        return
    sizes = [path.stat().st_size for path in root.rglob("*") if path.is_file()]
    yield MachineFinding(
        "compile cache", f"{root}: {len(sizes)} files, {sum(sizes) / 2**20:.0f} MiB"
    )


def _devices() -> Iterator[MachineFinding]:
    """The devices of JAX, and whether parallel lanes give the same results as single ones."""
    try:
        import jax

        devices = jax.devices()
    except Exception as error:  # whatever a driver or a plugin raises
        found = f"JAX does not start: {type(error).__name__}: {error}"
        yield MachineFinding("devices", found, "fix the driver, or set JAX_PLATFORMS=cpu")
        return
    for device in devices:
        limit = (device.memory_stats() or {}).get("bytes_limit")
        size = "" if limit is None else f", {limit / 2**30:.1f} GiB granted"
        yield MachineFinding("device", f"{device}: {device.device_kind}{size}")
    gpus = gpus_of_machine()
    if gpus and gpus_of_driver():  # MPS does not run under WSL
        yield _mps(mps_pipes(os.environ))
    if gpus and devices[0].platform == "cpu":
        hint = "python -m pip install 'jax[cuda13]', or add cuda to JAX_PLATFORMS"
        yield MachineFinding("devices", f"{counted(gpus, 'NVIDIA GPU')}, but JAX uses none", hint)
    if not gpus and (listed_gpus := gpus_of_driver()):
        found = f"the driver lists {counted(listed_gpus, 'NVIDIA GPU')}, but none can be opened"
        hint = "in a container, start it with --gpus all; otherwise run nvidia-smi"
        yield MachineFinding("devices", found, hint)
    yield _probe()


def _mps(pipes: Path | None) -> MachineFinding:
    """Whether programs of several processes run in parallel on a GPU; optional."""
    if pipes is not None:
        return MachineFinding("MPS", f"on, at {pipes}: workers on one GPU run in parallel")
    return MachineFinding(
        "MPS", "off: workers on one GPU take turns; start it with nvidia-cuda-mps-control -d"
    )


def _probe() -> MachineFinding:
    """Run a small program under vmap, and its lanes one by one."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from sweeper.models.keys import fixed_key

    def lane(weight: jax.Array) -> jax.Array:
        return jnp.tanh(weight @ weight.T).sum()

    weights = jax.random.normal(fixed_key(), (_LANES, _WIDTH, _WIDTH)) / _WIDTH
    started = time.perf_counter()
    together = np.asarray(jax.jit(jax.vmap(jax.grad(lane)))(weights))
    took_s = time.perf_counter() - started
    alone = np.stack([np.asarray(jax.jit(jax.grad(lane))(weight)) for weight in weights])
    apart = float(np.max(np.abs(together - alone)))
    found = f"{_LANES} lanes compiled and ran in {took_s:.1f} s, {apart:.1e} apart from single ones"
    wrong = not np.isfinite(together).all() or apart > 1e-4
    return MachineFinding(
        "vmap", found, "try another version of jaxlib or of the driver" if wrong else ""
    )
