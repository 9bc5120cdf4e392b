"""Checks that a study's data fits in the memory of every process that trains on it."""

from __future__ import annotations

import jax

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.memory import check_host, check_share
from sweeper.data.order import INDEX_BYTES
from sweeper.errors import listed
from sweeper.executors.claims import largest_shares, n_threads, n_workers, shares_of
from sweeper.executors.devices import UNCLAIMED
from sweeper.executors.open_devices import own_fraction
from sweeper.process import physical_bytes


def trained_bytes(config: StudyConfig, data: Dataset) -> int:
    """The size of the data as trained on: rows, and their order in all epochs, by batch size."""
    batch_sizes = config.drawn_values("train.batch_size") or (1,)
    rows = sum(len(data.training_rows(member.fold)) for member in config.members)
    return data.nbytes + INDEX_BYTES * rows * config.max_epochs * len(batch_sizes)


def check_fits(config: StudyConfig, data: Dataset) -> None:
    """Refuse data that is larger than the memory share of the processes that train on it.

    The share of this process is what the device grants it. If the device does not say, it uses this
    machine's memory, which then holds both the prepared data and the device's copy.

    For an engine, its machines are asked when they join.

    Raises:
        DataError: with both sizes.
    """
    if config.execution.engine is not None:
        return
    granted = _granted_bytes()
    if n_threads(config) and granted is None:
        both = data.nbytes + trained_bytes(config, data)
        check_host(config, both, "as prepared and as trained on", _hints(config, data))
    elif n_threads(config) and granted is not None:
        whose = "of the device for this process"
        largest = int(granted / shares_of(config).parent * largest_shares(config).parent)
        needed, hints = trained_bytes(config, data), _hints(config, data)
        check_share(config, needed, granted, largest, whose, hints=hints)
    if config.execution.strategy == "process" or not n_threads(config):
        check_fits_workers(config, data)


def check_fits_workers(config: StudyConfig, data: Dataset) -> None:
    """Refuse data that is larger than the share of each worker.

    Raises:
        DataError: with both sizes.
    """
    granted = _granted_bytes()
    if granted is None:
        device, whole_bytes = "this machine's memory", physical_bytes()
    else:  # the share of this process determines the size of the device
        device = "the device"
        whole_bytes = granted / (own_fraction() or UNCLAIMED)
    if whole_bytes is not None:
        workers = n_workers(config)
        whose = f"of {device} that " + (
            f"each of {workers} workers has" if workers > 1 else "a worker has"
        )
        share, largest = (
            int(whole_bytes * shares.worker)
            for shares in (shares_of(config), largest_shares(config))
        )
        hints = ["write fewer execution.workers", *_hints(config, data)]
        check_share(config, trained_bytes(config, data), share, largest, whose, hints=hints)


def _hints(config: StudyConfig, data: Dataset) -> list[str]:
    """How to train on less memory if most of it is the order of rows."""
    if trained_bytes(config, data) <= 2 * data.nbytes:
        return []
    members = {"study.replicates": config.study.replicates, "study.folds": config.study.folds or 1}
    several = [key for key, count in members.items() if count > 1]
    return [f"write fewer {listed(['train.epochs', *several, 'batch sizes'], 'or')}"]


def _granted_bytes() -> int | None:
    return (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
