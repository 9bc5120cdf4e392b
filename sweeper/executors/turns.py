"""Who computes in the memory of a device: several programs beside each other, or one alone."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager


class Turns:
    """Turns in the memory of a device, from several threads.

    A turn that is to be alone waits for those that run, and lets no other begin.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._wanted_alone = 0

    @contextmanager
    def turn(self, *, alone: bool) -> Generator[None]:
        """A turn, for the block."""
        with self._changed:
            if alone:
                self._wanted_alone += 1
                self._changed.wait_for(lambda: not self._running)
            else:
                self._changed.wait_for(lambda: not self._wanted_alone)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._wanted_alone -= alone
                self._changed.notify_all()


def turns_on(platforms: Sequence[str]) -> list[Turns]:
    """Those of each device: its own, but for devices of a CPU, which have one memory."""
    shared = Turns()
    return [shared if platform == "cpu" else Turns() for platform in platforms]
