"""Refuse a limit on address space (ulimit -v) under which libraries would crash on import."""

from __future__ import annotations

import os
import sys

from sweeper.errors import Problem, SetupError, size_text

# measured: the address space of the libraries with a small study, on a CPU
_LEAST_BYTES = 2304 << 20
# the stack of one XLA thread, and what malloc reserves for it
_BYTES_PER_CPU = 72 << 20


def check_address_space() -> None:
    """Refuse a limit that is too small, before anything large is imported.

    Raises:
        SetupError: with the limit and what is needed.
    """
    limit = _limit()
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    needed = _LEAST_BYTES + _BYTES_PER_CPU * cpus
    if limit is not None and limit < needed:
        found = f"the address space is limited to {size_text(limit)}, too little for the libraries"
        fix = (
            f"allow at least {size_text(needed)}: ulimit -v {needed >> 10}, or ulimit -v unlimited"
        )
        raise SetupError(Problem("RLIMIT_AS", "", found, fix))


def _limit() -> int | None:
    """The limit of this process, or None."""
    if sys.platform == "win32":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft
