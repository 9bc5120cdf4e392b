"""What a program may take of its device's memory, and what tells that it took too much."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

import jax

from sweeper.config import StudyConfig
from sweeper.config.user_code import text_of
from sweeper.naming import counted, size_text
from sweeper.scheduler.capacity import Ceiling

# how XLA begins what it says where memory ran out; a driver's own words stand further in
_XLA = "RESOURCE_EXHAUSTED"
_DRIVER = "OUT_OF_MEMORY"


class ProgramTooLargeError(Exception):
    """A program needs more memory than it may take, as the compiler foresees it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The most bytes that a program may take on a kind of `device`, and how to raise that.

    `n_bytes` is None where nobody tells.
    """

    device: str
    n_bytes: int | None
    whose: str = ""
    mend: str = ""

    def ceiling(self, capacity: int) -> Ceiling:
        """That a class has no more lanes than this where the limit holds."""
        return Ceiling(self.device, self.n_bytes, capacity)

    def was_of(self, ceiling: Ceiling) -> bool:
        """Whether a ceiling was found where this limit held."""
        return ceiling == self.ceiling(ceiling.capacity)

    def check(self, needed_bytes: int | None, lanes: int) -> None:
        """Refuse a program that the compiler foresees to be larger.

        Raises:
            ProgramTooLargeError: with both numbers.
        """
        if self.n_bytes is not None and needed_bytes is not None and needed_bytes > self.n_bytes:
            its = f"its program of {counted(lanes, 'lane')} takes {size_text(needed_bytes)}"
            raise ProgramTooLargeError(f"{its}, and {self.whose} is {size_text(self.n_bytes)}")


def limit_on(device: Any, config: StudyConfig) -> Limit:
    """The limit on a device: what it grants this process, or the study, whichever is less."""
    smaller = "or a smaller model or train.batch_size"
    limits: list[Limit] = []
    if (asked := config.execution.memory_limit_bytes) is not None:
        mend = f"write a larger execution.memory_limit, {smaller}"
        limits.append(Limit(device.device_kind, asked, "execution.memory_limit", mend))
    if (granted := (device.memory_stats() or {}).get("bytes_limit")) is not None:
        mend = f"write a larger execution.memory_fraction, fewer execution.workers, {smaller}"
        whose = "what the device grants this process"
        limits.append(Limit(device.device_kind, granted, whose, mend))
    mend = f"write fewer execution.threads, {smaller}"
    unlimited = Limit(device.device_kind, None, mend=mend)
    return min(limits, key=lambda limit: limit.n_bytes or 0, default=unlimited)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: of this machine or of the device.

    XLA tells so within a general error.
    """
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError | ProgramTooLargeError):
        return True
    told = text_of(error)
    is_driver = isinstance(error, jax.errors.JaxRuntimeError) and (_XLA in told or _DRIVER in told)
    return told.startswith(_XLA) or is_driver
