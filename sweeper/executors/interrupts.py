"""Keeps Ctrl-C from workers: that is for the program that runs the study to answer."""

from __future__ import annotations

import signal
from multiprocessing import resource_tracker


def block_interrupts() -> None:
    """Keep Ctrl-C from the workers that this thread starts, from their first instruction on.

    A terminal sends it to every process; a child inherits what its starting thread has blocked.
    Python unblocks it when it starts its resource tracker, so that has to run before.
    """
    resource_tracker.ensure_running()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
