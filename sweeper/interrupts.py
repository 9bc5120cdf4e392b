"""Ctrl-C: once to stop at the end of the round, twice at once."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended


class Left(BaseException):  # SystemExit would be taken for one of the user's own code
    """Ctrl-C, while nothing else is to be done than to end the program."""


def leave_on_interrupt() -> None:
    """Let Ctrl-C raise `Left`, until something else is to be done."""
    signal.signal(signal.SIGINT, _leave)


def ignore_interrupts() -> None:
    """Let Ctrl-C do nothing from now on: the program is at its end, and says how it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise Left


@contextmanager
def interruptible(
    say: Callable[[str], None], leave: Callable[[], None]
) -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second ends the program, after a call of `leave`.

    Once this is over Ctrl-C does nothing: the study has ended, and what is left is to tell of it.

    Python runs signal handlers in its main thread alone, which may be deep in a compiled program
    or hold a lock. So the signal only wakes a thread of its own, which does the rest.
    """
    stop = threading.Event()
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    waiting = threading.Thread(target=_await_signals, args=(woken, stop, say, leave), daemon=True)
    waiting.start()
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    descriptor = signal.set_wakeup_fd(waking.fileno())
    try:
        yield stop
    finally:
        ignore_interrupts()
        signal.set_wakeup_fd(descriptor)
        waking.close()
        waiting.join()  # it may have one to act on that came before


def _await_signals(
    woken: socket.socket,
    stop: threading.Event,
    say: Callable[[str], None],
    leave: Callable[[], None],
) -> None:
    """Act on each Ctrl-C until the other end of `woken` is closed."""
    with woken:
        while received := woken.recv(1):
            if received[0] != signal.SIGINT:
                continue
            if stop.is_set():
                leave()
                if sys.stderr.isatty():
                    os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the live view hid the cursor
                os._exit(INTERRUPTED)
            stop.set()
            say("waiting for the buckets in training, then stopping; Ctrl-C again leaves at once")
