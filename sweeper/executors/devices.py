"""Which GPUs this process may use, found out without starting JAX.

JAX reads its share of the memory when it starts its client, so the shares have to be known before.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from sweeper.config.kinds import MOST_XLA_THREADS
from sweeper.errors import Problem, SetupError

# XLA reads it as it opens a CPU
XLA_THREADS = "PJRT_NPROC"
DRIVER = Path("/proc/driver/nvidia/gpus")
_MPS = "/tmp/nvidia-mps"


def visible_gpus(
    environment: Mapping[str, str], *, driver: Path = DRIVER, plugin: bool | None = None
) -> tuple[str, ...]:
    """The GPUs as CUDA_VISIBLE_DEVICES names them; none where JAX will run on the CPU.

    `driver` has one entry a GPU of the machine, `plugin` says whether JAX can use them. As to CUDA
    those that follow one that there is not, such as -1, are hidden.
    """
    platforms = environment.get("JAX_PLATFORMS", "")
    can_use = _has_plugin() if plugin is None else plugin
    if not can_use or (platforms and not {"cuda", "gpu"} & set(platforms.split(","))):
        return ()
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        names = (name.strip() for name in chosen.split(","))
        return tuple(takewhile(lambda name: name and not name.startswith("-"), names))
    return tuple(str(index) for index in range(gpus_of_machine(driver)))


def gpus_of_machine(driver: Path = DRIVER) -> int:
    """How many GPUs of NVIDIA there are, whether or not JAX can use them."""
    return len(list(driver.iterdir())) if driver.is_dir() else 0


def mps_pipes(environment: Mapping[str, str]) -> Path | None:
    """Where CUDA's Multi-Process Service is reached; None where it does not run.

    With it, kernels of several processes run side by side on a GPU; without, they take turns.
    """
    pipes = Path(environment.get("CUDA_MPS_PIPE_DIRECTORY", _MPS))
    return pipes if (pipes / "control").exists() else None


def check_xla_threads(environment: Mapping[str, str]) -> None:
    """Refuse what XLA would pass over, or die of, where a user has set how many threads it has.

    Raises:
        SetupError: it is no number, or none that XLA takes.
    """
    told = environment.get(XLA_THREADS, "1")
    if not (told.isdecimal() and 1 <= int(told) <= MOST_XLA_THREADS):
        mend = f"set it to 1 to {MOST_XLA_THREADS}, or unset it"
        raise SetupError(Problem(XLA_THREADS, "", f"{told!r} threads of XLA", mend))


def _has_plugin() -> bool:
    """Whether CUDA's plugin lies where JAX looks for it; to ask all packages for it takes long."""
    found = find_spec("jax_plugins")
    places = () if found is None else found.submodule_search_locations or ()
    return any(any(Path(place).glob("xla_cuda*")) for place in places)
