"""Runs a whole process and measures its time, memory and use of the CPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parent.parent.parent


class FailedError(Exception):
    """A run without a result; its message says why."""


class Timed(NamedTuple):
    """What a whole process took, its children included, and its output."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    out: str


def timed(
    command: list[str],
    environment: Mapping[str, str] | None = None,
    limit_s: float | None = None,
) -> Timed:
    """Run a whole process.

    Raises:
        FailedError: it failed, or took longer than `limit_s`.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        before = time.perf_counter()
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdout=out,
            stderr=errors,
            start_new_session=limit_s is not None,
        )
        limit = Timer(limit_s or 0.0, os.killpg, (child.pid, signal.SIGKILL))
        if limit_s is not None:
            limit.start()
        # unlike subprocess, tells the memory; of this process or the largest of its workers
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - before
        limit.cancel()
        if limit_s is not None and wall_s >= limit_s:
            raise FailedError(f"not finished in {limit_s:.0f} s")
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), errors.seek(0)
        if child.returncode:
            said = errors.read().strip().splitlines()
            raise FailedError(f"exit {child.returncode}: {said[-1] if said else 'no word'}")
        unit = 1 if sys.platform == "darwin" else 1024
        cpu_s = usage.ru_utime + usage.ru_stime
        return Timed(wall_s, cpu_s, usage.ru_maxrss * unit, out.read())


def cpu_curve(command: list[str], environment: Mapping[str, str]) -> np.ndarray:
    """The CPU seconds that a process and its children had used at times since 1970, a row each."""
    rows: list[tuple[float, float]] = []
    child = psutil.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while child.poll() is None:
        used_s = sum(map(_cpu_s, (child, *child.children(recursive=True))))
        rows.append((time.time(), used_s))
        time.sleep(0.05)
    if child.returncode:
        raise FailedError(f"exit {child.returncode}")
    return np.array(rows)


def _cpu_s(process: psutil.Process) -> float:
    """CPU seconds of a process, and of its children that have ended."""
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return times.user + times.system + times.children_user + times.children_system
    return 0.0
