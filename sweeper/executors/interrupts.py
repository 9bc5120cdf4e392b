"""Keeps signals from workers: the program that runs the study answers them."""

from __future__ import annotations

import signal
from multiprocessing import resource_tracker

from sweeper.interrupts import TERMINATING


def block_interrupts() -> None:
    """Block Ctrl-C, SIGTERM and SIGHUP in workers that this thread starts, from their start on.

    Terminals and service managers send them to every process; a child inherits what its starting
    thread has blocked. Python unblocks all but SIGHUP when it starts its resource tracker, so that
    has to run first.
    """
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATING)
    resource_tracker.ensure_running()
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *TERMINATING})
