"""Trains fewer lanes at a time when a program does not fit into memory.

The capacity is halved until the program fits. A trial fails only if it does not fit alone.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax

from sweeper.config import StudyConfig
from sweeper.config.user_errors import text_of
from sweeper.errors import counted, size_text
from sweeper.executors.claims import largest_shares, shares_of
from sweeper.executors.executor import Outcome, Work, merge_outcomes
from sweeper.scheduler.capacity import Ceiling, halve, lowest
from sweeper.trial import Failure

# how XLA's message starts if memory ran out; messages of a driver come later in it
_XLA = "RESOURCE_EXHAUSTED"
_DRIVER = "OUT_OF_MEMORY"


class ProgramTooLargeError(Exception):
    """The compiler estimates that a program needs more memory than it may use."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The most bytes that a program may take on a kind of `device`, and how to raise the limit.

    `n_bytes` is None if it is unknown.
    """

    device: str
    n_bytes: int | None
    whose: str = ""
    hint: str = ""

    def ceiling(self, capacity: int) -> Ceiling:
        """A ceiling that says that a class has at most this many lanes under this limit."""
        return Ceiling(self.device, self.n_bytes, capacity)

    def check(self, needed_bytes: int | None, lanes: int) -> None:
        """Refuse a program that is larger by the compiler's estimate.

        Raises:
            ProgramTooLargeError: with both sizes.
        """
        if self.n_bytes is not None and needed_bytes is not None and needed_bytes > self.n_bytes:
            demand = f"its program of {counted(lanes, 'lane')} takes {size_text(needed_bytes)}"
            raise ProgramTooLargeError(f"{demand}, but {self.whose} is {size_text(self.n_bytes)}")


def limit_on(device: Any, config: StudyConfig) -> Limit:
    """The limit on a device: what it grants this process, or the study's limit if lower."""
    smaller = "or a smaller model or train.batch_size"
    limits: list[Limit] = []
    if (asked := config.execution.memory_limit_bytes) is not None:
        hint = f"write a larger execution.memory_limit, {smaller}"
        limits.append(Limit(device.device_kind, asked, "execution.memory_limit", hint))
    if (granted := (device.memory_stats() or {}).get("bytes_limit")) is not None:
        can_grow = largest_shares(config) != shares_of(config)
        larger = "a larger execution.memory_fraction, " if can_grow else ""
        hint = f"write {larger}fewer execution.workers, {smaller}"
        whose = "what the device grants this process"
        limits.append(Limit(device.device_kind, granted, whose, hint))
    hint = f"write fewer execution.threads, {smaller}"
    unlimited = Limit(device.device_kind, None, hint=hint)
    return min(limits, key=lambda limit: limit.n_bytes or 0, default=unlimited)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on this machine or on the device.

    XLA reports this with a general error.
    """
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError | ProgramTooLargeError):
        return True
    text = text_of(error)
    is_driver = isinstance(error, jax.errors.JaxRuntimeError) and (_XLA in text or _DRIVER in text)
    return text.startswith(_XLA) or is_driver


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A program that does not fit: a message, and the `failure` of a single trial in it.

    `is_predicted` says that it was never started; otherwise, other programs may have taken the
    memory.
    """

    message: str
    failure: Failure
    is_predicted: bool


class ProgramAttempt(Protocol):
    """Trains lanes in one program, `alone` if nothing else may use the memory."""

    def __call__(self, work: Work, *, alone: bool) -> Outcome | TooLarge:
        """The outcome, or that the program does not fit."""
        ...


@dataclass(frozen=True, slots=True)
class _Try:
    work: Work
    alone: bool = False


@dataclass(frozen=True, slots=True)
class CapacityFallback:
    """How to try the lanes of a bucket, from the largest program that may fit downwards.

    Each trial has `members` lanes. `own` moves a trial to a program of its own structure, or
    returns None if it is in one; `fail` is the outcome of a trial that fits nowhere.
    """

    attempt: ProgramAttempt
    own: Callable[[Work], Work | None]
    fail: Callable[[Work, Failure], Outcome]
    members: int
    limit: Limit

    def train(self, work: Work) -> Outcome:
        """The outcome of `work`, in as many parts as necessary."""
        under_limit = (one for one in work.ceilings if one == self.limit.ceiling(one.capacity))
        capacity = min((one.capacity for one in under_limit), default=work.program.capacity)
        tries = deque(_Try(part) for part in self._parts(work, [work], capacity))
        outcomes: list[Outcome] = []
        shortages: list[str] = []
        own_programs = 0
        while tries:
            now = tries.popleft()
            found = self.attempt(now.work, alone=now.alone)
            if isinstance(found, Outcome):
                outcomes.append(found)
                continue
            shortages.append(found.message)
            lower = halve(now.work.program.capacity, self.members)
            if lower is not None:
                capacity, left = lower, [now.work, *(waiting.work for waiting in tries)]
                alone = lower == self.members and not found.is_predicted
                tries = deque(_Try(part, alone) for part in self._parts(work, left, lower))
            elif not (found.is_predicted or now.alone):
                tries.appendleft(_Try(now.work, alone=True))
            elif (own := self.own(now.work)) is not None:
                tries.appendleft(_Try(own, now.alone))
                own_programs += 1
            else:
                outcomes.append(self.fail(now.work, found.failure))
        # for branches tried one by one, this is more precise
        whole = merge_outcomes(work, outcomes)
        if capacity < work.program.capacity or shortages:
            own = self.limit.ceiling(capacity)
            whole = replace(whole, ceiling=lowest([own, whole.ceiling]))
        return replace(
            whole,
            memory_limit_bytes=self.limit.n_bytes,
            own_programs=whole.own_programs + own_programs,
            shortage=shortages[0] if shortages else whole.shortage,
        )

    def _parts(self, work: Work, left: Iterable[Work], capacity: int) -> Iterator[Work]:
        """The lanes of `left`, a part of `work`, in parts for a program of this capacity."""
        lanes = [lane for part in left for lane in part.bucket.lanes]
        specs = [spec for part in left for spec in part.specs]
        program, most = replace(work.program, capacity=capacity), capacity // self.members
        for start in range(0, len(lanes), most):
            some = slice(start, start + most)
            bucket = replace(work.bucket, lanes=tuple(lanes[some]))
            yield replace(work, bucket=bucket, program=program, specs=tuple(specs[some]))
