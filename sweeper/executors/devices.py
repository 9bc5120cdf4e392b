"""The GPUs, memory shares and cores of this process and its workers, found without JAX.

JAX reads its memory share when it starts its client, so shares must be known before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from math import inf
from pathlib import Path

from sweeper.config.kinds import MAX_XLA_THREADS
from sweeper.errors import Problem, SetupError
from sweeper.user_dirs import CACHE_VARIABLE, cache_root

# XLA reads it when it opens a CPU device
XLA_THREADS = "PJRT_NPROC"
DRIVER = Path("/proc/driver/nvidia/gpus")
# JAX runs on the CPU if a machine has none of these; the last one is that of WSL
NVIDIA_DEVICES = Path("/dev/nvidia0"), Path("/dev/nvidiactl"), Path("/dev/dxg")
_MPS = "/tmp/nvidia-mps"


def visible_gpus(
    environment: Mapping[str, str],
    *,
    driver: Path = DRIVER,
    devices: Sequence[Path] = NVIDIA_DEVICES,
    plugin: bool | None = None,
) -> tuple[str, ...]:
    """The GPUs as named in CUDA_VISIBLE_DEVICES; none if JAX will run on the CPU.

    `driver` has one entry per GPU of the machine, at least one of `devices` exists if there is any,
    and `plugin` says whether JAX can use them. As in CUDA, entries after an invalid one, such as
    -1, are hidden.
    """
    platforms = environment.get("JAX_PLATFORMS", "")
    can_use = _has_plugin() if plugin is None else plugin
    if not can_use or (platforms and not {"cuda", "gpu"} & set(platforms.split(","))):
        return ()
    if not any(device.exists() for device in devices):
        return ()
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = (name.strip() for name in chosen.split(","))
        return tuple(takewhile(lambda name: name and not name.startswith("-"), names))
    return tuple(str(index) for index in range(gpus_of_machine(driver, devices)))


def gpus_of_machine(driver: Path = DRIVER, devices: Sequence[Path] = NVIDIA_DEVICES) -> int:
    """How many NVIDIA GPUs there are; 0 if programs here can open none."""
    if not any(device.exists() for device in devices):
        return 0
    return max(1, gpus_of_driver(driver))  # the driver of WSL does not list them


def gpus_of_driver(driver: Path = DRIVER) -> int:
    """How many GPUs the NVIDIA driver lists; in a container, those of its host."""
    return len(list(driver.iterdir())) if driver.is_dir() else 0


def mps_pipes(environment: Mapping[str, str]) -> Path | None:
    """The directory of CUDA's Multi-Process Service; None if it is not running.

    With it, kernels of several processes run in parallel on a GPU; without it, they take turns.
    """
    pipes = Path(environment.get("CUDA_MPS_PIPE_DIRECTORY", _MPS))
    return pipes if (pipes / "control").exists() else None


def check_xla_threads(environment: Mapping[str, str]) -> None:
    """Refuse a number of XLA threads that XLA would ignore, or crash with.

    Raises:
        SetupError: it is not a number that XLA accepts.
    """
    threads = environment.get(XLA_THREADS, "1")
    if not (threads.isdecimal() and 1 <= int(threads) <= MAX_XLA_THREADS):
        hint = f"set it to 1 to {MAX_XLA_THREADS}, or unset it"
        raise SetupError(
            Problem(XLA_THREADS, "", f"{threads!r} is not a number of threads for XLA", hint)
        )


def _has_plugin() -> bool:
    """Whether CUDA's plugin is where JAX looks for it; searching all packages takes long."""
    found = find_spec("jax_plugins")
    places = () if found is None else found.submodule_search_locations or ()
    return any(any(Path(place).glob("xla_cuda*")) for place in places)


# exactly one of the two may be set when JAX starts: both together raise a ValueError
FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
# share of a process without a fraction of its own
UNCLAIMED = 0.75
# share of a device for all processes: contexts and libraries need memory outside of it
MAX_SHARED_FRACTION = 0.90
_NEWER_FRACTION = "XLA_CLIENT_MEM_FRACTION"


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of a device's memory for the parent, and for each worker."""

    parent: float
    worker: float


def shares(memory_fraction: float, threads: int, workers: int) -> Shares:
    """The shares: half to the parent, the rest to the workers in equal parts; nothing to idle ones.

    The sum is `memory_fraction`, but at most `MAX_SHARED_FRACTION` minus 0.02 per process, of which
    at most half is subtracted: a machine with many cores has many workers.
    """
    total = min(
        memory_fraction, max(MAX_SHARED_FRACTION - 0.02 * (workers + 1), MAX_SHARED_FRACTION / 2)
    )
    if workers == 0:
        return Shares(total, 0.0)
    if threads == 0:
        return Shares(0.0, total / workers)
    return Shares(total / 2, total / 2 / workers)


def fraction_variable(environment: Mapping[str, str]) -> str:
    """The variable to set: the newer name if the user has set it, so that only one is set."""
    return _NEWER_FRACTION if _NEWER_FRACTION in environment else FRACTION


def carried_fraction(environment: Mapping[str, str]) -> float | None:
    """The memory fraction in a process's environment; None if it has none that is valid."""
    return _fraction_of(environment.get(fraction_variable(environment), ""))


def invalid_fractions(environment: Mapping[str, str], gpus: Sequence[str]) -> Iterator[Problem]:
    """The memory fractions that JAX could not read; none without `gpus`, since it reads none then.

    `gpus` are those that JAX will use.
    """
    for variable in (FRACTION, _NEWER_FRACTION) if gpus else ():
        value = environment.get(variable, "")
        if value and _fraction_of(value) is None:
            found = f"{value!r} is not a share of a GPU's memory"
            yield Problem(variable, "", found, "set it to a number such as 0.5, or unset it")


def check_fractions(environment: Mapping[str, str], gpus: Sequence[str]) -> None:
    """Refuse memory fractions with which JAX could not open its `gpus`.

    Raises:
        SetupError: one is invalid, or both variables are set.
    """
    problems = [*invalid_fractions(environment, gpus)]
    if gpus and not problems and environment.get(FRACTION) and environment.get(_NEWER_FRACTION):
        found = f"both {FRACTION} and {_NEWER_FRACTION} are set, of which JAX accepts only one"
        problems.append(Problem("environment", "", found, f"unset {FRACTION}"))
    if problems:
        raise SetupError(problems)


def _fraction_of(value: str) -> float | None:
    """The fraction as a positive number; None if it is not one."""
    try:
        fraction = float(value)
    except ValueError:
        return None
    return fraction if 0 < fraction < inf else None


def worker_environment(
    index: int, memory_fraction: float, gpus: Sequence[str], parent: Mapping[str, str]
) -> dict[str, str]:
    """The variables of worker `index` in addition to the `parent`'s, set before Python starts."""
    environment = {
        fraction_variable(parent): f"{memory_fraction:.4f}",
        PREALLOCATE: "true",
    }
    if (root := cache_root()) is not None:
        environment[CACHE_VARIABLE] = str(root)
    if len(gpus) > 1:
        environment["CUDA_VISIBLE_DEVICES"] = gpus[index % len(gpus)]
    return environment


def worker_cpus(index: int, gpus: Sequence[str], cpus: Sequence[int], most: int) -> tuple[int, ...]:
    """The core of worker `index`, assigned in turn; empty if it may use any.

    It may use any core with a GPU, and also if a quota grants only `most` cores: other containers
    with such a quota would be bound to the same first cores.
    """
    return () if gpus or most < len(cpus) else (cpus[index % len(cpus)],)
