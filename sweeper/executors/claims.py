"""What a study takes of this machine: devices, threads, workers, and memory for its data."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import jax

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.memory import check_host, check_share
from sweeper.errors import SetupError
from sweeper.executors.devices import (
    MAX,
    PREALLOCATE,
    UNCLAIMED,
    XLA_THREADS,
    Shares,
    fraction_variable,
    shares,
    visible_gpus,
)
from sweeper.executors.jax_setup import configure_for, open_devices, own_fraction
from sweeper.process import physical_bytes, usable_cores


def n_threads(config: StudyConfig) -> int:
    """How many threads of this process train; none for an engine, or where trials may be ended."""
    if config.execution.trial_timeout is not None or config.execution.engine is not None:
        return 0
    threads = config.execution.threads
    if threads != "auto":
        return threads
    return max(usable_cores(), len(gpus(config)))


def n_workers(config: StudyConfig) -> int:
    """How many worker processes there may be; they start when they are first needed.

    By default one a core, or one a GPU, whose memory they share with this process. How many an
    engine has is not known before it is asked: one at least.
    """
    workers = config.execution.workers
    if workers != "auto":
        return workers
    if config.execution.engine is not None:
        return 1
    return len(gpus(config)) or usable_cores()


def gpus(config: StudyConfig) -> tuple[str, ...]:
    """The GPUs that a study may use, as CUDA_VISIBLE_DEVICES names them."""
    return visible_gpus(os.environ)[: _most(config)]


def devices_of(config: StudyConfig) -> list[Any]:
    """The devices of this process that a study trains on: of one kind, at most those asked for."""
    return _of_one_kind(jax.local_devices())[0][: _most(config)]


def left_out(config: StudyConfig, devices: Sequence[Any]) -> str | None:
    """That some of `devices` are of another kind and do not train; None where that is not so."""
    alike, others = _of_one_kind(devices)
    if not others or len(alike) >= (_most(config) or len(devices)):
        return None
    named = ", ".join(f"{device} ({device.device_kind})" for device in others)
    kind = devices[0].device_kind
    return (
        f"{named} left out: all that train are of the kind of the first, {kind}, for on others "
        "values would differ in their last digits; to train on those name them alone in "
        "CUDA_VISIBLE_DEVICES"
    )


def _of_one_kind(devices: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Those of the kind of the first, and all others.

    Which device a bucket meets changes from run to run, and must change no bit.
    """
    kind = devices[0].device_kind
    alike = [device for device in devices if device.device_kind == kind]
    return alike, [device for device in devices if device.device_kind != kind]


def _most(config: StudyConfig) -> int | None:
    asked = config.execution.devices
    return None if asked == "auto" else asked


def n_devices(config: StudyConfig) -> int:
    """The devices among which lanes side by side are parted.

    Of a cluster as many as may take part: who comes and goes there must not change a program.
    """
    execution = config.execution
    if execution.engine is None:
        return len(devices_of(config))
    return 1 if execution.workers == "auto" else max(execution.workers, 1)


def shares_of(config: StudyConfig) -> Shares:
    """The memory of a device that this process gets, and that each worker on it gets."""
    workers = math.ceil(n_workers(config) / max(len(gpus(config)), 1))
    return shares(config.execution.memory_fraction, n_threads(config), workers)


def claim_devices(config: StudyConfig, xla_threads: int | None = None) -> None:
    """Set JAX up, and open this process's devices with its share of their memory.

    Of `xla_threads` there are as many as cores that it may use, unless told otherwise. Both are
    settled by the first study of a process.

    Raises:
        SetupError: the share that the environment sets for this process leaves workers too little.
    """
    if (mine := gpus(config)) != visible_gpus(os.environ):
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
    if mine and n_threads(config):
        check_shares(config, own_fraction())
    configure_for(config)
    variables = {XLA_THREADS: str(xla_threads or usable_cores())}
    if n_threads(config):
        variables[fraction_variable(os.environ)] = f"{shares_of(config).parent:.4f}"
    else:  # this process looks what the device is, and leaves its memory to the workers
        variables[PREALLOCATE] = "false"
    open_devices(variables)
    names = of_the_first_kind(mine, jax.local_devices())
    if names != mine:  # so workers see no others, either
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names)


def of_the_first_kind(gpus: tuple[str, ...], devices: Sequence[Any]) -> tuple[str, ...]:
    """The names of those `devices` that train; `gpus` are the names of all.

    Or of fewer, which an earlier study of this process has left.
    """
    if len(gpus) != len(devices):
        return gpus
    kind = devices[0].device_kind
    return tuple(name for name, one in zip(gpus, devices, strict=True) if one.device_kind == kind)


def check_shares(config: StudyConfig, carried: float | None) -> None:
    """Refuse shares of a GPU that are more than it has in all, if this process has `carried`.

    Raises:
        SetupError: with both.
    """
    memory = shares_of(config)
    workers = math.ceil(n_workers(config) / len(gpus(config))) if memory.worker else 0
    if carried is None or not workers or carried + workers * memory.worker <= MAX:
        return
    variable = fraction_variable(os.environ)
    its, hint = f"{variable}={carried:g} of this process", f"unset {variable}"
    if variable not in os.environ:
        its = f"{carried:g} that this process has since an earlier study"
        hint = "run it in a process of its own"
    told = (
        f"{workers} workers of {memory.worker:.2f} each, beside {its}, "
        f"are more than the {MAX:g} of a GPU that can be shared"
    )
    hint = f"{hint}, or write a smaller memory_fraction or fewer workers"
    raise SetupError(config.problem("execution.memory_fraction", told, hint))


def check_fits(config: StudyConfig, data: Dataset) -> None:
    """Refuse data that are larger than the share of whoever trains on them.

    That of this process is what the device grants it. Where the device does not tell, its memory
    is this machine's, which then holds what was prepared and what the device has of it.

    What the machines of an engine have is asked of them when they are taken up.

    Raises:
        DataError: with both numbers.
    """
    if config.execution.engine is not None:
        return
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
        whole_bytes = granted / (own_fraction() or UNCLAIMED)
    if whole_bytes is not None:
        workers = n_workers(config)
        whose = f"of {device} that " + (
            f"each of {workers} workers has" if workers > 1 else "a worker has"
        )
        share_bytes = int(whole_bytes * shares_of(config).worker)
        check_share(
            config, data.nbytes, share_bytes, whose, hints=["write fewer execution.workers"]
        )


def _granted_bytes() -> int | None:
    return (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
