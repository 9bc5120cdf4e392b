"""What of its machine each worker gets: a share of the memory, a device, a core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeper.cachedir import CACHE_VARIABLE, cache_root
from sweeper.executors.memory import PREALLOCATE, fraction_variable


def worker_environment(
    index: int, memory_fraction: float, gpus: Sequence[str], parent: Mapping[str, str]
) -> dict[str, str]:
    """What the environment of worker `index` holds, over the `parent`'s, before Python starts."""
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
    """The core of worker `index`, of which they take turns; empty if it may use any.

    That is so beside a GPU, and if a quota grants fewer cores, at `most` these: other containers
    with such a quota would be bound to the same first cores.
    """
    return () if gpus or most < len(cpus) else (cpus[index % len(cpus)],)
