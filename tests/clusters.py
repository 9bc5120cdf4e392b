"""Clusters on this machine, each in a process of its own, for as long as a test needs it.

    python -m tests.clusters dask 2

starts one of two workers, prints its address, and ends it when its standard input ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent


@contextmanager
def dask_cluster(workers: int = 2) -> Iterator[str]:
    """The address of the scheduler of a new cluster of worker processes, one core each."""
    with _running("dask", workers) as address:
        yield address


def engine_setting(name: str, address: str) -> str:
    """What to `--set` for a study to train on a cluster."""
    return f"execution.engine={{name='{name}', address='{address}'}}"


@contextmanager
def _running(engine: str, workers: int) -> Iterator[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.clusters", engine, str(workers)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.communicate(timeout=60)


def _serve_dask(workers: int) -> None:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        sys.stdout.write(f"{cluster.scheduler_address}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    {"dask": _serve_dask}[sys.argv[1]](int(sys.argv[2]))
