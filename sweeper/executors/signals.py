"""Signals that ask the program to stop: Ctrl-C, SIGTERM and SIGHUP.

The first one stops a study after the current round, a second one ends the program at once. SIGTERM
comes from batch systems and containers, which kill the program soon afterwards, and SIGHUP from a
terminal that was closed: after either, a round only has the grace period left.
"""

from __future__ import annotations

import builtins
import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import NoReturn

INTERRUPTED = 128 + signal.SIGINT  # the exit code for Ctrl-C in shells
# sent by a scheduler, a service manager or a closed terminal; Windows has no SIGHUP
TERMINATING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)
# `timeout`, shells and service managers send SIGTERM or SIGHUP twice within microseconds
_SAME_REQUEST_S = 0.1
# how long to wait for a message before the program ends: the terminal may be stopped or gone
_LAST_WORDS_S = 1.0
# by then, the callback that dropped an exception has returned
_AGAIN_S = 0.05

_wakeup: int | None = None
_forking = threading.local()


class SignalExit(BaseException):  # SystemExit would be attributed to user code
    """A signal arrived that ends the program, and nothing has to be committed first."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.exit_code = 128 + number


def leave_on_signals() -> None:
    """Let Ctrl-C, SIGTERM and SIGHUP raise `SignalExit`.

    A program started under `nohup` continues to ignore SIGHUP.
    """
    for number in (signal.SIGINT, *not_ignored(TERMINATING)):
        signal.signal(number, _leave)
    sys.unraisablehook = partial(_send_again, sys.unraisablehook)


def ignore_interrupts() -> None:
    """Ignore Ctrl-C from now on: the program is about to end and only reports its result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ignore_terminating_signals() -> None:
    """Ignore SIGTERM and SIGHUP in this process, but not in the programs that it starts."""
    for number in TERMINATING:
        signal.signal(number, _ignore)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, TERMINATING)


def signals_without_handler(numbers: Sequence[int]) -> tuple[int, ...]:
    """The signals that may be handled here without taking them from the host program.

    Only the main thread may handle signals, and only those that nothing else handles or watches.
    """
    if not _may_handle_signals():
        return ()
    watching = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(watching)
    if watching != -1:
        return ()
    return tuple(number for number in numbers if signal.getsignal(number) is signal.SIG_DFL)


def _may_handle_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


@dataclass(slots=True)
class Stopping:
    """`stop` is set by the first signal, whose `number` is then known."""

    stop: threading.Event = field(default_factory=threading.Event)
    number: int | None = None


@contextmanager
def stopping_on(
    numbers: Sequence[int],
    say: Callable[[str], None],
    leave: Callable[[str], str],
    grace_s: float,
    stop: threading.Event | None = None,
) -> Iterator[Stopping]:
    """Handle these signals during the block: the first sets `stop`, the second ends the program.

    In other threads than the main one, which may not handle signals, it handles none.

    SIGTERM and SIGHUP end it after `grace_s` seconds even without a second signal. `leave` is
    called with the reason before the program ends, and returns the message to show. Afterwards,
    signals are handled as before, but Ctrl-C is ignored if it ended the program before.

    Python runs signal handlers only in its main thread, which may be deep in a compiled program or
    hold a lock. So a signal only wakes a thread, which does the rest.
    """
    global _wakeup
    stopping = Stopping(stop or threading.Event())
    if not _may_handle_signals():
        yield stopping
        return
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    watch = _Watch(woken, frozenset(numbers), stopping, say, leave, grace_s)
    thread = threading.Thread(target=watch.run, name="signals", daemon=True)
    thread.start()
    before = {number: signal.signal(number, _ignore) for number in numbers}
    _wakeup = waking.fileno()
    descriptor = signal.set_wakeup_fd(_wakeup)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            # a program that Ctrl-C ends only has to report what it did
            is_over = number == signal.SIGINT and handler is _leave
            signal.signal(number, signal.SIG_IGN if is_over else handler)
        signal.set_wakeup_fd(descriptor)
        _wakeup = None
        waking.close()
        thread.join()  # it may still have to handle an earlier signal


@dataclass(slots=True)
class _Watch:
    """Handles each signal until the other end of `woken` is closed."""

    woken: socket.socket
    numbers: frozenset[int]
    stopping: Stopping
    say: Callable[[str], None]
    leave: Callable[[str], str]
    grace_s: float
    _asked_at: float | None = None
    _deadline: float | None = None
    _saying: threading.Thread | None = None

    def run(self) -> None:
        with self.woken:
            while (number := self._next()) is not None:
                if number in TERMINATING:
                    _drop_closed_terminals()
                if self._asked_at is None:
                    self._first(number)
                elif number == signal.SIGINT or time.monotonic() - self._asked_at > _SAME_REQUEST_S:
                    self._end(number, f"received a second signal, {signal.Signals(number).name}")
        if self._saying is not None:
            self._saying.join(_LAST_WORDS_S)

    def _next(self) -> int | None:
        """The next signal; None at the end. Does not return after the grace period."""
        while True:
            left_s = None if self._deadline is None else self._deadline - time.monotonic()
            self.woken.settimeout(None if left_s is None else max(left_s, 1e-3))
            try:
                received = self.woken.recv(1)
            except TimeoutError:
                assert self.stopping.number is not None, "a signal began the grace period"
                name = signal.Signals(self.stopping.number).name
                over = (
                    f"{name} was received {self.grace_s:g} s ago, the limit set by execution.grace"
                )
                self._end(self.stopping.number, over)
            if not received:
                return None
            if received[0] in self.numbers:
                return received[0]

    def _first(self, number: int) -> None:
        self._asked_at = time.monotonic()
        waiting = (
            "waiting for the current buckets, then stopping; press Ctrl-C again to stop at once"
        )
        if number in TERMINATING:
            self._deadline = self._asked_at + self.grace_s
            waiting = (
                f"{signal.Signals(number).name}: waiting up to {self.grace_s:g} s for the current "
                "buckets, then stopping; a second signal stops at once"
            )
        self.stopping.number = number
        self.stopping.stop.set()
        # the same request may arrive again meanwhile, and only its time tells it from a second one
        self._saying = _attempt(lambda: self.say(waiting))

    def _end(self, number: int, reason: str) -> NoReturn:
        def last_words() -> None:
            message = self.leave(reason)
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the live view hid the cursor
            logging.getLogger("sweeper").warning("%s", message)
            logging.shutdown()

        _briefly(last_words)
        os._exit(128 + number)


def _briefly(action: Callable[[], None]) -> None:
    """Run the action, but do not wait long: writing to a stopped terminal does not return."""
    _attempt(action).join(_LAST_WORDS_S)


def _attempt(action: Callable[[], None]) -> threading.Thread:
    """A thread that runs the action."""

    def attempt() -> None:
        with suppress(OSError, ValueError):  # a closed or missing stream
            action()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    return thread


def _drop_closed_terminals() -> None:
    """Redirect the streams of a closed terminal to nowhere, so that writing does not fail."""
    if sys.platform == "win32":
        return
    import termios

    for descriptor in range(3):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)


def not_ignored(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)


def end_program(number: int) -> NoReturn:
    """End this program because of a signal that nothing else handles.

    IPython and Jupyter catch `SystemExit` and continue, so there the signal itself ends the
    program.

    Raises:
        SystemExit: with the exit code of the signal in shells.
    """
    if hasattr(builtins, "__IPYTHON__"):
        sys.stdout.flush()
        signal.raise_signal(number)
    raise SystemExit(128 + number)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the program at once
    raise SignalExit(number)


def _send_again(
    report: Callable[[sys.UnraisableHookArgs], object], dropped: sys.UnraisableHookArgs
) -> None:
    """Repeat a signal if Python drops `SignalExit`, as it does in callbacks such as those of gc."""
    if not isinstance(dropped.exc_value, SignalExit):
        report(dropped)
        return
    number = dropped.exc_value.number
    signal.signal(number, _leave)
    again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass


def _block_for_fork() -> None:
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATING)


def _unblock_after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _forget_in_child() -> None:
    """Let a forked process end normally, without reporting its signals to this one's thread.

    `multiprocessing` ends its processes with SIGTERM, some of them right after their start.
    """
    if _wakeup is not None:
        signal.set_wakeup_fd(-1)
    for number in TERMINATING:
        if signal.getsignal(number) in (_leave, _ignore):
            signal.signal(number, signal.SIG_DFL)
    _unblock_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_block_for_fork,
        after_in_parent=_unblock_after_fork,
        after_in_child=_forget_in_child,
    )
