"""Opens the devices of this process, with its share of their memory and its threads of XLA.

For a program on a CPU XLA has a thread for each core that its process may use, and parts sums over
many rows among them: the norm of a large gradient, products over large batches. So the last bits of
a result depend on how many there are, and all processes of a study have as many, however many cores
each may use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import jax
from jax._src import xla_bridge  # nothing public says whether JAX has opened its devices

from sweeper.errors import Problem, SetupError
from sweeper.executors.devices import XLA_THREADS, check_xla_threads
from sweeper.executors.memory import carried_fraction
from sweeper.resources import usable_cpus

_PLATFORMS = "JAX_PLATFORMS"
_XLA_THREAD = "tf_XLAEigen"  # as XLA calls each of those that run parts of a program
_opening = threading.Lock()
_is_open = False
_fraction: float | None = None
_threads: int | None = None


def open_devices(variables: Mapping[str, str]) -> None:
    """Open them where that was not done yet; what the user's environment sets comes first.

    JAX reads `variables` once, when it opens them. So they are set for no longer: they are neither
    of another study in this process, nor of other programs that it starts.

    Raises:
        SetupError: there is none that can be opened, or what is set for threads is no number.
    """
    global _is_open, _fraction, _threads
    with _opening:
        if _is_open:
            return
        check_xla_threads(os.environ)
        is_the_callers = xla_bridge.backends_are_initialized()
        missing = {name: value for name, value in variables.items() if name not in os.environ}
        os.environ.update(missing)
        try:
            jax.local_devices()
            _is_open, _fraction = True, carried_fraction(os.environ)
            _threads = _carried_threads(os.environ)
            if is_the_callers:  # as many as XLA was told then, or cores that there were
                _threads = _threads_there() or len(usable_cpus())
        except Exception as error:  # a bare AssertionError even
            said = str(error).strip().splitlines() or ["there is none"]
            told = f"no device can be opened: {said[0]}"
            mend = f"unset or change {_PLATFORMS}, or ask python -m sweeper doctor"
            raise SetupError(Problem("JAX", "", told, mend)) from error
        finally:
            for name in missing:
                del os.environ[name]


def own_fraction() -> float | None:
    """What the environment carried when the devices were opened; until then, what it carries."""
    return _fraction if _is_open else carried_fraction(os.environ)


def own_xla_threads() -> int | None:
    """How many threads XLA has for a program on a CPU; None where nobody has said."""
    return _threads if _is_open else _carried_threads(os.environ)


def _carried_threads(environment: Mapping[str, str]) -> int | None:
    told = environment.get(XLA_THREADS)
    return None if told is None else int(told)


def _threads_there() -> int | None:
    """How many XLA has started for programs on a CPU, where the system lists threads by name."""
    names: list[str] = []
    for thread in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # one that has just ended
            names.append(thread.read_text().strip())
    return names.count(_XLA_THREAD) or None
