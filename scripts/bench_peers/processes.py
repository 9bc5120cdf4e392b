"""Runs a whole process and measures its time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class FailedError(Exception):
    """A run without a result; its message says why."""


def timed(
    command: list[str], environment: Mapping[str, str] | None = None
) -> tuple[float, int, str]:
    """Wall seconds of a whole process, its peak memory, and its output."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        before = time.perf_counter()
        child = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdout=out, stderr=errors
        )
        # unlike subprocess, tells the memory; of this process or the largest of its workers
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.perf_counter() - before
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), errors.seek(0)
        if child.returncode:
            said = errors.read().strip().splitlines()
            raise FailedError(f"exit {child.returncode}: {said[-1] if said else 'no word'}")
        unit = 1 if sys.platform == "darwin" else 1024
        return wall_s, usage.ru_maxrss * unit, out.read()
