"""Decides which device trains which bucket, and which programs run on a device at a time.

A bucket goes where it is predicted to finish first. A device that lacks the bucket's program
compiles it first, so a class stays on the devices that have it until waiting for them takes longer
than another compilation.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from sweeper.executors.executor import Work
from sweeper.scheduler.classes import ProgramClass

# seconds, assumed without a prediction: they only weigh devices against each other
_EPOCH_S = 1e-3
_COMPILE_S = 1.0


class DeviceQueues:
    """Predicted seconds of what each of `devices` still has to compile and train.

    If buckets come longest first, as in plans, no device has more left than another by more than
    one bucket and twice the time to compile for it: Graham's list scheduling (SIAM J. Appl. Math.
    17, 1969). With `is_shared`, a device loads from the compile cache what another has compiled.
    """

    def __init__(self, devices: int, *, is_shared: bool = False) -> None:
        self._seconds = [0.0] * devices
        self._compile_s: dict[str, dict[int, float]] = {}
        self._is_shared = is_shared

    def place_class(self, program: ProgramClass) -> int:
        """The device that compiles a class that no bucket needs yet."""
        return self._place(program, 0.0)

    def place(self, work: Work) -> int:
        """The device for another bucket, which is added to its load."""
        return self._place(work.program, _train_s(work))

    def end_compiling(self, program: ProgramClass, device: int) -> None:
        """Note that it has compiled a class that was placed there."""
        self._seconds[device] -= self._compile_s[program.class_id][device]
        self._compile_s[program.class_id][device] = 0.0

    def end_training(self, work: Work, device: int) -> None:
        """Note that it has trained a bucket that was placed there."""
        self._seconds[device] -= _train_s(work)

    def _place(self, program: ProgramClass, train_s: float) -> int:
        has = self._compile_s.setdefault(program.class_id, {})
        known = program.cached_s if has and self._is_shared else program.predicted_compile_s
        compile_s = _COMPILE_S if known is None else known

        def done_s(at: int) -> float:
            # twice: a class is only compiled again if that gains at least as much as it costs
            return self._seconds[at] + (0.0 if at in has else 2 * compile_s)

        device = min(range(len(self._seconds)), key=done_s)
        self._seconds[device] += train_s + (0.0 if device in has else compile_s)
        has.setdefault(device, compile_s)
        return device


def _train_s(work: Work) -> float:
    known = work.bucket.predicted_train_s
    epochs = sum(lane.epoch_to - lane.epoch_from for lane in work.bucket.lanes)
    return _EPOCH_S * epochs if known is None else known


class DeviceLock:
    """Turns for the memory of a device, taken by several threads.

    An exclusive turn waits for those in progress, and lets no other start.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._wanted_alone = 0

    @contextmanager
    def turn(self, *, alone: bool) -> Generator[None]:
        """Take a turn for the block."""
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


def device_locks(platforms: Sequence[str]) -> list[DeviceLock]:
    """One lock per device, but a common one for CPU devices, which share their memory."""
    shared = DeviceLock()
    return [shared if platform == "cpu" else DeviceLock() for platform in platforms]
