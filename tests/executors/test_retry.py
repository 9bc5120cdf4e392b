"""Only the trial that kills workers fails, and every attempt is counted."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from sweeper.executors.executor import Outcome, Work
from sweeper.executors.retry import Retrying, WorkerDiedError, WorkerLostError
from sweeper.scheduler.classes import Bucket, Lane, ProgramClass
from sweeper.trial import Place, Reason, TrialSpec
from tests.simulated import SimulatedExecutor

PLACE = Place("dask 0", "", "node", None, None, None)


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
def test_culprits_fail_and_every_attempt_is_counted(culprits: set[int], retries: int) -> None:
    outcome, tries = train(work(0, 1, 2, 3, 4), culprits, retries)

    failed = {lane.number for lane in outcome.lanes if lane.failure is not None}
    assert failed == culprits
    assert [lane.number for lane in outcome.lanes] == [0, 1, 2, 3, 4]
    assert outcome.attempt == tries


def test_a_lane_counts_the_worker_deaths_that_it_was_part_of() -> None:
    outcome, _ = train(work(0, 1, 2, 3), {3}, retries=1)

    # 0 1 2 3 dies, 0 1 trains; 2 3 dies, 2 trains; 3 dies twice alone
    assert [lane.attempts for lane in outcome.lanes] == [2, 2, 3, 4]
    failure = outcome.lanes[3].failure
    assert failure is not None
    assert failure.reason is Reason.WORKER_DIED


def test_a_bucket_whose_worker_was_lost_is_retried_unchanged() -> None:
    executor, tries = SimulatedExecutor(lambda spec, epoch: (1.0,)), list[int]()

    def attempt(part: Work) -> Outcome:
        tries.append(len(part.specs))
        if len(tries) <= losses:
            raise WorkerLostError("is gone", PLACE, 0.0)
        return executor.attempt(part)

    losses = 2
    outcome = Retrying(attempt, 0).train(work(0, 1, 2, 3))
    assert tries == [4, 4, 4]
    assert [lane.attempts for lane in outcome.lanes] == [3, 3, 3, 3]
    tries, losses = [], 3
    outcome = Retrying(attempt, 0).train(work(0, 1, 2, 3))
    assert tries == [4, 4, 4, 2, 2]
    assert [lane.failure for lane in outcome.lanes] == [None] * 4


def test_a_trial_that_loses_every_worker_fails_at_the_fourth() -> None:
    """Three losses, and one more attempt, as the guide says."""

    def attempt(part: Work) -> Outcome:
        raise WorkerLostError("is gone", PLACE, 0.0)

    (lane,) = Retrying(attempt, 1).train(work(0)).lanes
    assert lane.attempts == 4
    assert lane.failure is not None
    assert (lane.failure.reason, lane.failure.error_type) == ("worker_died", "WorkerLostError")


def test_the_cause_of_a_workers_death_is_reported_by_another_process() -> None:
    death = WorkerDiedError("was killed", PLACE, 3.0, "the end of its log")
    told = pickle.loads(pickle.dumps(death))
    assert (type(told), str(told), told.place) == (WorkerDiedError, str(death), PLACE)
    assert told.started_at == 3.0


def test_a_split_bucket_has_the_costs_of_all_its_parts() -> None:
    executor = SimulatedExecutor(lambda spec, epoch: (1.0,), lambda spec: spec.number == 3)

    def attempt(part: Work) -> Outcome:
        """Only the first part that trains loads the program."""
        outcome = executor.attempt(part)
        loads = part.specs[0].number == 0
        return replace(
            outcome,
            compile_s=0.5 if loads else 0.0,
            cache_hit=loads,
            memory_predicted_bytes=900 if loads else 800,
            finished_at=20.0,
        )

    outcome = Retrying(attempt, 0).train(work(0, 1, 2, 3))

    assert (outcome.compile_s, outcome.cache_hit) == (0.5, True)
    assert (outcome.memory_predicted_bytes, outcome.finished_at) == (900, 20.0)


@pytest.mark.parametrize("culprit", [0, 3])
def test_a_split_bucket_ran_where_its_last_part_trained(culprit: int) -> None:
    executor = SimulatedExecutor(lambda spec, epoch: (1.0,), lambda spec: spec.number == culprit)
    place = replace(PLACE, device="cuda:0")

    def attempt(part: Work) -> Outcome:
        return replace(executor.attempt(part), place=place)

    assert Retrying(attempt, 0).train(work(0, 1, 2, 3)).place == place
