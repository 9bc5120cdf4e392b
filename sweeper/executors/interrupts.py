"""Keeps signals, and the current directory, from processes that Python starts here.

Signals are for the program that runs the study to answer.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

from sweeper.executors.signals import TERMINATING
from sweeper.executors.worker import BY_SWEEPER, SAFE_PATH

_starting = threading.Lock()


def safe_path() -> dict[str, str]:
    """The variable that keeps a new Python from importing files in the current directory.

    It imports a part of loky or multiprocessing before it has this process's import path.
    """
    return {SAFE_PATH: os.environ.get(SAFE_PATH) or BY_SWEEPER}


@contextmanager
def safe_import_path() -> Iterator[None]:
    """Set that variable for the processes that watch semaphores, which start in the block."""
    with _starting:
        before = os.environ.get(SAFE_PATH)
        os.environ.update(safe_path())
        try:
            yield
        finally:
            if before is None:
                del os.environ[SAFE_PATH]


def block_interrupts() -> None:
    """Block Ctrl-C, SIGTERM and SIGHUP in workers that this thread starts, from their start on.

    Terminals and service managers send them to every process; a child inherits what its starting
    thread has blocked. Python unblocks all but SIGHUP when it starts its resource tracker, so that
    has to run first.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATING)
    with safe_import_path():
        resource_tracker.ensure_running()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *TERMINATING})
