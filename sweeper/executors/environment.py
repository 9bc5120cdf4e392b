"""What the bits of a result depend on, apart from the study: libraries, device, threads, flags."""

from __future__ import annotations

import os
from collections.abc import Iterator

import jax

from sweeper.executors.compile_cache import processor
from sweeper.executors.open_devices import own_xla_threads
from sweeper.process import LIBRARIES, installed_versions
from sweeper.scheduler.signature import short_hash

# variables read by JAX and its backends that change results
FLAGS = (
    "XLA_FLAGS",
    "LIBTPU_INIT_ARGS",
    "NVIDIA_TF32_OVERRIDE",
    "JAX_THREEFRY_PARTITIONABLE",
    "JAX_RANDOM_SEED_OFFSET",
    "JAX_SOFTMAX_CUSTOM_JVP",
)
# XLA flags about the number of devices and about compiler logs, which do not change results
_FREE = ("--xla_force_host_platform_device_count", "--xla_dump")


def environment() -> dict[str, str]:
    """These facts by name; missing ones are empty."""
    return {
        **dict.fromkeys(LIBRARIES, ""),
        **installed_versions(LIBRARIES),
        "device": _device(),
        "xla_threads": str(own_xla_threads() or "") if jax.default_backend() == "cpu" else "",
        **{name: " ".join(_set(name)) for name in FLAGS},
    }


def _device() -> str:
    device = jax.devices()[0]
    if device.platform != "cpu":
        return device.device_kind
    # XLA compiles for the instructions of the processor
    said = processor()
    names = [line.partition(":")[2].strip() for line in said.splitlines() if "model name" in line]
    return " ".join(["cpu", *names, f"({short_hash(said)})"])


def _set(name: str) -> Iterator[str]:
    flags = sorted(os.environ.get(name, "").split())
    return (flag for flag in flags if not flag.startswith(_FREE))
