"""What a study takes of this machine: threads, workers and memory, in which its data must fit."""

from __future__ import annotations

import os

import jax

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.memory import check_host, check_share, physical_bytes
from sweeper.executors.compiling import configure_jax
from sweeper.executors.devices import visible_gpus
from sweeper.executors.memory import (
    PREALLOCATE,
    UNCLAIMED,
    Shares,
    carried_fraction,
    fraction_variable,
    shares,
)
from sweeper.worker import usable_cpus


def n_threads(config: StudyConfig) -> int:
    """How many threads of this process train; none where trials may have to be ended."""
    if config.execution.trial_timeout is not None:
        return 0
    threads = config.execution.threads
    return len(usable_cpus()) if threads == "auto" else threads


def n_workers(config: StudyConfig) -> int:
    """How many worker processes there may be; they start when they are first needed.

    By default one a core, or one a GPU, whose memory they share with this process.
    """
    workers = config.execution.workers
    if workers != "auto":
        return workers
    return len(visible_gpus(os.environ)) or len(usable_cpus())


def n_devices() -> int:
    """The devices of this process, over which switch classes are spread."""
    return jax.local_device_count()


def shares_of(config: StudyConfig) -> Shares:
    """The memory that this process gets, and that each worker gets."""
    return shares(config.execution.memory_fraction, n_threads(config), n_workers(config))


def claim_device(config: StudyConfig) -> None:
    """Set this process's memory share and JAX's settings; JAX must not have opened a device yet."""
    if n_threads(config):
        memory = shares_of(config)
        os.environ.setdefault(fraction_variable(os.environ), f"{memory.parent:.4f}")
    else:  # this process opens the device to see what it is, and leaves its memory to the workers
        os.environ.setdefault(PREALLOCATE, "false")
    configure_jax(config.execution.precision, config.execution.matmul_precision)


def check_fits(config: StudyConfig, data: Dataset) -> None:
    """Refuse data that are larger than the share of whoever trains on them.

    That of this process is what the device grants it. Where the device does not tell, its memory
    is this machine's, which then holds what was prepared and what the device has of it.

    Raises:
        DataError: with both numbers.
    """
    granted = _granted_bytes()
    if n_threads(config) and granted is None:
        check_host(config, 2 * data.nbytes, "as they were prepared and as they are trained on")
    elif n_threads(config) and granted is not None:
        check_share(config, data.nbytes, granted, "of the device that this process has")
    if config.execution.strategy == "process" or not n_threads(config):
        check_fits_workers(config, data)


def check_fits_workers(config: StudyConfig, data: Dataset) -> None:
    """Refuse data that are larger than the share of each worker.

    Raises:
        DataError: with both numbers.
    """
    granted = _granted_bytes()
    if granted is None:
        device, whole_bytes = "this machine's memory", physical_bytes()
    else:  # the share of this process tells how large the device is
        device = "the device"
        whole_bytes = granted / (carried_fraction(os.environ) or UNCLAIMED)
    if whole_bytes is not None:
        workers = n_workers(config)
        whose = f"of {device} that " + (
            f"each of {workers} workers has" if workers > 1 else "a worker has"
        )
        share_bytes = int(whole_bytes * shares_of(config).worker)
        check_share(
            config, data.nbytes, share_bytes, whose, mends=["write fewer execution.workers"]
        )


def _granted_bytes() -> int | None:
    return (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
