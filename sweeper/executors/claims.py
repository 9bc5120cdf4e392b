"""What a study uses of this machine: devices, threads, workers, and shares of their memory."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import jax

from sweeper.config import StudyConfig
from sweeper.errors import SetupError
from sweeper.executors.devices import (
    MAX_SHARED_FRACTION,
    PREALLOCATE,
    XLA_THREADS,
    Shares,
    fraction_variable,
    shares,
    visible_gpus,
)
from sweeper.executors.jax_setup import configure_for
from sweeper.executors.open_devices import open_devices, own_fraction
from sweeper.process import usable_cores


def n_threads(config: StudyConfig) -> int:
    """How many threads of this process train; none with an engine, or if trials may be killed."""
    if config.execution.trial_timeout is not None or config.execution.engine is not None:
        return 0
    threads = config.execution.threads
    if threads != "auto":
        return threads
    return max(usable_cores(), len(gpus(config)))


def n_workers(config: StudyConfig) -> int:
    """How many worker processes there may be; they start when they are first needed.

    The default is one per core, or one per GPU, which they share with this process. For an engine
    the number is not known yet: at least one.
    """
    workers = config.execution.workers
    if workers != "auto":
        return workers
    if config.execution.engine is not None:
        return 1
    return len(gpus(config)) or usable_cores()


def n_training_places(config: StudyConfig) -> int | None:
    """How many buckets train at full speed at the same time; None if that is not known yet.

    On a CPU every thread or worker counts. On other devices several buckets share a device, so that
    each is slower.
    """
    execution = config.execution
    if execution.engine is not None:
        return None if execution.workers == "auto" else max(1, execution.workers)
    threads, workers = n_threads(config), n_workers(config)
    busy = workers or threads if execution.strategy == "process" else threads or workers
    if jax.default_backend() != "cpu":
        busy = min(busy, len(devices_of(config)))
    return max(1, busy)


def gpus(config: StudyConfig) -> tuple[str, ...]:
    """The GPUs that a study may use, as named in CUDA_VISIBLE_DEVICES."""
    return visible_gpus(os.environ)[: _most(config)]


def devices_of(config: StudyConfig) -> list[Any]:
    """The devices of this process that a study trains on: of one kind, at most as many as set."""
    return _of_one_kind(jax.local_devices())[0][: _most(config)]


def other_kinds_message(config: StudyConfig, devices: Sequence[Any]) -> str | None:
    """A message about `devices` of another kind, which do not train, or None."""
    alike, others = _of_one_kind(devices)
    if not others or len(alike) >= (_most(config) or len(devices)):
        return None
    named = ", ".join(f"{device} ({device.device_kind})" for device in others)
    kind = devices[0].device_kind
    return (
        f"{named} left out: only devices of the same kind as the first, {kind}, train, since on "
        "others the last digits of values would differ; to train on those instead, list only "
        "them in CUDA_VISIBLE_DEVICES"
    )


def _of_one_kind(devices: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The devices of the same kind as the first, and all others.

    The device of a bucket changes from run to run, and must not change any bit.
    """
    kind = devices[0].device_kind
    alike = [device for device in devices if device.device_kind == kind]
    return alike, [device for device in devices if device.device_kind != kind]


def _most(config: StudyConfig) -> int | None:
    asked = config.execution.devices
    return None if asked == "auto" else asked


def n_devices(config: StudyConfig) -> int:
    """The number of devices among which parallel lanes are divided.

    For a cluster, the maximum number: workers that come and go must not change a program.
    """
    execution = config.execution
    if execution.engine is None:
        return len(devices_of(config))
    return 1 if execution.workers == "auto" else max(execution.workers, 1)


def shares_of(config: StudyConfig) -> Shares:
    """The share of a device's memory for this process, and for each worker on it."""
    return _shares(config, config.execution.memory_fraction)


def largest_shares(config: StudyConfig) -> Shares:
    """The same with the largest execution.memory_fraction, to advise one only if it helps."""
    return _shares(config, 1.0)


def _shares(config: StudyConfig, memory_fraction: float) -> Shares:
    workers = math.ceil(n_workers(config) / max(len(gpus(config)), 1))
    return shares(memory_fraction, n_threads(config), workers)


def claim_devices(config: StudyConfig, xla_threads: int | None = None) -> None:
    """Set up JAX, and open this process's devices with its share of their memory.

    The number of `xla_threads` is that of the usable cores, unless given. Both are fixed by the
    first study of a process.

    Raises:
        SetupError: the environment gives this process so large a share that workers get too little.
    """
    if (mine := gpus(config)) != visible_gpus(os.environ):
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
    if mine and n_threads(config):
        check_shares(config, own_fraction())
    configure_for(config)
    variables = {XLA_THREADS: str(xla_threads or usable_cores())}
    if n_threads(config):
        variables[fraction_variable(os.environ)] = f"{shares_of(config).parent:.4f}"
    else:  # this process only identifies the device, and leaves its memory to the workers
        variables[PREALLOCATE] = "false"
    open_devices(variables)
    names = same_kind_as_first(mine, jax.local_devices())
    if names != mine:  # so that workers do not see others, either
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names)


def same_kind_as_first(gpus: tuple[str, ...], devices: Sequence[Any]) -> tuple[str, ...]:
    """The names of the `devices` of the same kind as the first; `gpus` are the names of all.

    If an earlier study in this process left fewer names, they are returned unchanged.
    """
    if len(gpus) != len(devices):
        return gpus
    kind = devices[0].device_kind
    return tuple(name for name, one in zip(gpus, devices, strict=True) if one.device_kind == kind)


def check_shares(config: StudyConfig, carried: float | None) -> None:
    """Refuse memory shares that exceed a GPU, if this process has the share `carried`.

    Raises:
        SetupError: with both numbers.
    """
    memory = shares_of(config)
    workers = math.ceil(n_workers(config) / len(gpus(config))) if memory.worker else 0
    if carried is None or not workers or carried + workers * memory.worker <= MAX_SHARED_FRACTION:
        return
    variable = fraction_variable(os.environ)
    share, hint = f"{variable}={carried:g} of this process", f"unset {variable}"
    if variable not in os.environ:
        share = f"{carried:g} that this process has from an earlier study"
        hint = "run the study in a separate process"
    found = (
        f"{workers} workers of {memory.worker:.2f} each, next to {share}, "
        f"exceed the {MAX_SHARED_FRACTION:g} of a GPU that can be shared"
    )
    hint = f"{hint}, or write a smaller memory_fraction or fewer workers"
    raise SetupError(config.problem("execution.memory_fraction", found, hint))
