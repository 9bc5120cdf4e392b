"""Clusters on this machine, each in a separate process, for as long as a test needs it.

    python -m tests.clusters dask 2
    python -m tests.clusters ray 2

starts a cluster of two workers, prints its address, and ends it when its standard input ends.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.processes import ROOT, command_line, descendants

# Ray asks for a token, which another program could not know
OPEN = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass(frozen=True)
class Cluster:
    """A cluster of an engine, below the process `pid`; connections need its `environment`."""

    engine: str
    address: str
    pid: int
    environment: Mapping[str, str]

    @property
    def setting(self) -> str:
        """The settings with which a study trains on it."""
        return f"execution.engine={{name='{self.engine}', address='{self.address}'}}"

    def trainers(self) -> list[int]:
        """The processes that train, each a child of a process of the engine."""
        return [pid for pid in descendants(self.pid) if "LokyProcess" in command_line(pid)]


@contextmanager
def cluster(engine: str, workers: int = 2, **environment: str) -> Iterator[Cluster]:
    """A new cluster of worker processes, one core each."""
    command = [sys.executable, "-m", "tests.clusters", engine, str(workers)]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), **OPEN, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            yield Cluster(engine, address, process.pid, OPEN)
        finally:
            process.communicate(timeout=60)


def _serve_dask(workers: int) -> None:
    import dask.config
    from distributed import LocalCluster

    # this long after a worker was lost it closes the one that was started in its place
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    size = {"n_workers": workers, "threads_per_worker": 1, "processes": True}
    with patient, LocalCluster(**size, dashboard_address=":0") as running:
        _until_told(running.scheduler_address)


def _serve_ray(workers: int) -> None:
    import ray

    with ray.init(
        address="local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    ) as running:
        _until_told(running.address_info["gcs_address"])


def _until_told(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    {"dask": _serve_dask, "ray": _serve_ray}[sys.argv[1]](int(sys.argv[2]))
