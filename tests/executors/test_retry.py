"""Only the trial that kills workers fails, and every try is counted."""

from __future__ import annotations

import pytest

from sweeper.executors.executor import Outcome, Work
from sweeper.executors.retry import Retrying
from sweeper.executors.simulated import SimulatedExecutor
from sweeper.scheduler.buckets import Bucket, Lane, ProgramClass
from sweeper.trial import Reason, TrialSpec


def work(*numbers: int) -> Work:
    program = ProgramClass("c", "s", "exact", "map", 8, "float32")
    lanes = tuple(Lane(number, 0, 2, "") for number in numbers)
    specs = tuple(TrialSpec(number, {}, {}, 0) for number in numbers)
    return Work(1, Bucket(0, "c", "inline", lanes), program, specs, {})


def train(asked: Work, culprits: set[int], retries: int) -> tuple[Outcome, int]:
    """The outcome, and how often a worker was started on any part of it."""
    executor = SimulatedExecutor(lambda spec, epoch: (1.0,), lambda s: s.number in culprits)
    tries = 0

    def attempt(part: Work) -> Outcome:
        nonlocal tries
        tries += 1
        return executor.attempt(part)

    return Retrying(attempt, retries).train(asked), tries


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("culprits", [set(), {2}, {0, 3}, {0, 1, 2, 3, 4}])
def test_the_culprits_fail_and_every_try_is_counted(culprits: set[int], retries: int) -> None:
    outcome, tries = train(work(0, 1, 2, 3, 4), culprits, retries)

    failed = {lane.number for lane in outcome.lanes if lane.failure is not None}
    assert failed == culprits
    assert [lane.number for lane in outcome.lanes] == [0, 1, 2, 3, 4]
    assert outcome.attempt == tries


def test_a_lane_counts_the_deaths_that_it_was_part_of() -> None:
    outcome, _ = train(work(0, 1, 2, 3), {3}, retries=1)

    # 0 1 2 3 dies, 0 1 trains; 2 3 dies, 2 trains; 3 dies twice alone
    assert [lane.attempts for lane in outcome.lanes] == [2, 2, 3, 4]
    failure = outcome.lanes[3].failure
    assert failure is not None
    assert failure.reason is Reason.WORKER_DIED
