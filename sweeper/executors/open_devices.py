"""Opens the devices of this process, with its share of their memory and its number of threads.

On a CPU, XLA starts one thread per core that the process may use and splits large sums among them:
the norm of a large gradient, or products over large batches. The number of threads therefore
determines the last bits of a result, and all processes of a study use the same number.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import jax

from sweeper.errors import Problem, SetupError
from sweeper.executors.devices import (
    XLA_THREADS,
    carried_fraction,
    check_fractions,
    check_xla_threads,
    visible_gpus,
)
from sweeper.executors.private_apis import count_xla_threads, has_open_devices
from sweeper.process import usable_cpus

_PLATFORMS = "JAX_PLATFORMS"
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Opened:
    """The memory fraction and the number of XLA threads when the devices were opened."""

    fraction: float | None
    xla_threads: int | None


_opened: _Opened | None = None


def open_devices(variables: Mapping[str, str]) -> None:
    """Open the devices if that has not been done; the user's environment takes precedence.

    JAX reads `variables` once, when it opens devices. So they are only set for that time, and
    affect neither another study in this process nor other programs that it starts.

    Raises:
        SetupError: no device can be opened, or a number of threads or of memory is invalid.
    """
    global _opened
    with _lock:
        if _opened is not None:
            return
        check_xla_threads(os.environ)
        is_the_callers = has_open_devices()
        missing = {name: value for name, value in variables.items() if name not in os.environ}
        os.environ.update(missing)
        try:
            check_devices()
            xla_threads = _carried_threads(os.environ)
            # the number that XLA was given, or the number of cores, at that time
            if is_the_callers:
                xla_threads = count_xla_threads() or len(usable_cpus())
            _opened = _Opened(carried_fraction(os.environ), xla_threads)
        finally:
            for name in missing:
                del os.environ[name]


def check_devices() -> None:
    """Open the devices as the environment says, for a use of JAX that is not a study.

    A later study in this process uses them as they are.

    Raises:
        SetupError: no device can be opened, or a number of threads or of memory is invalid.
    """
    if not has_open_devices():
        check_xla_threads(os.environ)
        check_fractions(os.environ, visible_gpus(os.environ))
    try:
        jax.local_devices()
    except Exception as error:  # even a bare AssertionError
        lines = str(error).strip().splitlines() or ["there is none"]
        found = f"no device can be opened: {lines[0]}"
        variables = _PLATFORMS
        if isinstance(error, ValueError) and visible_gpus(os.environ):
            variables = "variables such as XLA_PYTHON_CLIENT_ALLOCATOR"
        hint = f"unset or change {variables}, or run python -m sweeper doctor"
        raise SetupError(Problem("JAX", "", found, hint)) from error


def own_fraction() -> float | None:
    """The memory fraction when the devices were opened, or until then that of the environment."""
    return carried_fraction(os.environ) if _opened is None else _opened.fraction


def own_xla_threads() -> int | None:
    """The number of XLA threads for a program on a CPU; None if it is not set."""
    return _carried_threads(os.environ) if _opened is None else _opened.xla_threads


def _carried_threads(environment: Mapping[str, str]) -> int | None:
    threads = environment.get(XLA_THREADS)
    return None if threads is None else int(threads)
