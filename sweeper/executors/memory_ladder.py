"""Trains a bucket whose program is too large for the memory there is: half of the lanes at a time.

The capacity is halved until a program fits, down to that of one trial; a trial fails only where it
does not fit alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from sweeper.executors.branchwise import joined
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.limits import Limit
from sweeper.scheduler.capacity import halved, lowest
from sweeper.trial import Failure


@dataclass(frozen=True, slots=True)
class TooLarge:
    """That a program does not fit: `told` in words, and the `failure` of a trial alone in it.

    `is_foreseen` says that it was never begun; else it may have been others beside it that took
    the memory.
    """

    told: str
    failure: Failure
    is_foreseen: bool


class Attempt(Protocol):
    """Trains lanes that are no more than their program's, `alone` with nothing beside them."""

    def __call__(self, work: Work, *, alone: bool) -> Outcome | TooLarge:
        """What came of them."""
        ...


@dataclass(frozen=True, slots=True)
class _Try:
    work: Work
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Ladder:
    """How the lanes of a bucket are tried, from the largest program that may fit downwards.

    Each trial has `members` lanes. `own` is a trial in a program of its own structure, None where
    it is in such a one; `fail` the outcome of a trial that fits nowhere.
    """

    attempt: Attempt
    own: Callable[[Work], Work | None]
    fail: Callable[[Work, Failure], Outcome]
    members: int
    limit: Limit

    def train(self, work: Work) -> Outcome:
        """The outcome of `work`, in as many parts as it takes."""
        known = (ceiling.capacity for ceiling in work.ceilings if self.limit.was_of(ceiling))
        capacity = min(known, default=work.program.capacity)
        tries = deque(_Try(part) for part in self._parts(work, [work], capacity))
        outcomes: list[Outcome] = []
        told: list[str] = []
        own_programs = 0
        while tries:
            now = tries.popleft()
            found = self.attempt(now.work, alone=now.alone)
            if isinstance(found, Outcome):
                outcomes.append(found)
                continue
            told.append(found.told)
            lower = halved(now.work.program.capacity, self.members)
            if lower is not None:
                capacity, left = lower, [now.work, *(waiting.work for waiting in tries)]
                alone = lower == self.members and not found.is_foreseen
                tries = deque(_Try(part, alone) for part in self._parts(work, left, lower))
            elif not (found.is_foreseen or now.alone):
                tries.appendleft(_Try(now.work, alone=True))
            elif (own := self.own(now.work)) is not None:
                tries.appendleft(_Try(own, now.alone))
                own_programs += 1
            else:
                outcomes.append(self.fail(now.work, found.failure))
        whole = joined(work, outcomes)  # of branches that were tried one by one it knows more
        if capacity < work.program.capacity or told:
            own = self.limit.ceiling(capacity)
            whole = replace(whole, ceiling=lowest([own, whole.ceiling]))
        return replace(
            whole,
            memory_limit_bytes=self.limit.n_bytes,
            own_programs=whole.own_programs + own_programs,
            shortage=told[0] if told else whole.shortage,
        )

    def _parts(self, work: Work, left: Iterable[Work], capacity: int) -> Iterator[Work]:
        """The lanes of `left`, which are of `work`, in parts for a program of this capacity."""
        lanes = [lane for part in left for lane in part.bucket.lanes]
        specs = [spec for part in left for spec in part.specs]
        program, most = replace(work.program, capacity=capacity), capacity // self.members
        for start in range(0, len(lanes), most):
            some = slice(start, start + most)
            bucket = replace(work.bucket, lanes=tuple(lanes[some]))
            yield replace(work, bucket=bucket, program=program, specs=tuple(specs[some]))
