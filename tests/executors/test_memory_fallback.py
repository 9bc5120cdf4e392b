"""The number of lanes is halved until they fit; only a trial that does not fit alone fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from sweeper.executors.executor import Outcome, Work, merge_outcomes
from sweeper.executors.memory_fallback import CapacityFallback, Limit, TooLarge
from sweeper.executors.retry import failed_outcome
from sweeper.executors.switch_class import split_by_class
from sweeper.scheduler.capacity import Ceiling, halve
from sweeper.scheduler.classes import Bucket, Lane, ProgramClass
from sweeper.trial import Failure, Place, Reason, TrialSpec
from tests.simulated import SimulatedExecutor

LIMIT = Limit("cpu", 1000)
PLACE = Place("here", "cpu:0", "host", 1, None, None)
TRAINED = SimulatedExecutor(lambda spec, epoch: (float(spec.number),))


@dataclass
class Tries:
    """Trains what `fits` allows, and records attempts: numbers, capacity, alone."""

    fits: Callable[[Work, bool], bool]
    foreseen: bool = True
    own: Callable[[Work], Work | None] = lambda work: None
    members: int = 1
    done: list[tuple[tuple[int, ...], int, bool]] = field(default_factory=list)

    def attempt(self, work: Work, *, alone: bool) -> Outcome | TooLarge:
        self.done.append((work.bucket.numbers, work.program.capacity, alone))
        if self.fits(work, alone):
            return TRAINED.attempt(work)
        told = f"{work.program.capacity} lanes"
        return TooLarge(told, Failure(Reason.OOM, "TooLarge", told), self.foreseen)

    def train(self, work: Work) -> Outcome:
        def fail(work: Work, failure: Failure) -> Outcome:
            return failed_outcome(work, failure, PLACE, 0.0)

        return CapacityFallback(self.attempt, self.own, fail, self.members, LIMIT).train(work)


def work(n_lanes: int, capacity: int, *ceilings: Ceiling) -> Work:
    lanes = tuple(Lane(n, 0, 1, "") for n in range(n_lanes))
    program = ProgramClass("a", "{}", "padded", "vmap", capacity, "float32")
    specs = tuple(TrialSpec(n, {}, {}, 0) for n in range(n_lanes))
    return Work(1, Bucket(3, "a", "inline", lanes), program, specs, {}, ceilings)


def up_to(capacity: int) -> Callable[[Work, bool], bool]:
    return lambda work, alone: work.program.capacity <= capacity


def reasons(outcome: Outcome) -> list[Reason | None]:
    return [lane.failure and lane.failure.reason for lane in outcome.lanes]


@pytest.mark.parametrize(
    ("capacity", "members", "expected"),
    [(8, 1, 4), (2, 1, 1), (1, 1, None), (8, 5, 5), (5, 5, None)],
)
def test_a_capacity_is_halved_down_to_one_trial(
    capacity: int, members: int, expected: int | None
) -> None:
    assert halve(capacity, members) == expected


def test_buckets_that_fit_train_as_planned() -> None:
    tries = Tries(up_to(8))
    outcome = tries.train(work(6, 8))
    assert tries.done == [((0, 1, 2, 3, 4, 5), 8, False)]
    assert (outcome.ceiling, outcome.shortage, outcome.memory_limit_bytes) == (None, "", 1000)


def test_capacity_is_halved_until_the_program_fits() -> None:
    tries = Tries(up_to(2))
    outcome = tries.train(work(5, 8))
    assert [capacity for _, capacity, _ in tries.done] == [8, 4, 2, 2, 2]
    assert [numbers for numbers, _, _ in tries.done[2:]] == [(0, 1), (2, 3), (4,)]
    assert [lane.number for lane in outcome.lanes] == [0, 1, 2, 3, 4]
    assert reasons(outcome) == [None] * 5
    assert outcome.bucket == work(5, 8).bucket
    assert (outcome.ceiling, outcome.shortage) == (Ceiling("cpu", 1000, 2), "8 lanes")


def test_trials_trained_before_memory_ran_out_are_not_repeated() -> None:
    tries = Tries(
        lambda work, alone: work.program.capacity <= (1 if 3 in work.bucket.numbers else 2)
    )
    outcome = tries.train(work(5, 4))
    assert [numbers for numbers, _, _ in tries.done] == [
        (0, 1, 2, 3),
        (0, 1),
        (2, 3),
        (2,),
        (3,),
        (4,),
    ]
    assert reasons(outcome) == [None] * 5


def test_a_trial_fails_only_if_it_does_not_fit_alone() -> None:
    tries = Tries(lambda work, alone: work.program.capacity == 1 and 1 not in work.bucket.numbers)
    outcome = tries.train(work(4, 4))
    assert reasons(outcome) == [None, Reason.OOM, None, None]
    assert outcome.ceiling == Ceiling("cpu", 1000, 1)


def test_after_memory_ran_out_the_last_attempt_runs_alone_on_the_device() -> None:
    tries = Tries(lambda work, alone: alone, foreseen=False)
    outcome = tries.train(work(2, 2))
    assert tries.done == [((0, 1), 2, False), ((0,), 1, True), ((1,), 1, True)]
    assert reasons(outcome) == [None, None]

    tries = Tries(lambda work, alone: alone, foreseen=False)
    outcome = tries.train(work(1, 1))
    assert tries.done == [((0,), 1, False), ((0,), 1, True)]
    assert reasons(outcome) == [None]


def test_a_single_trial_in_a_program_of_several_structures_gets_its_own_program() -> None:
    def own(work: Work) -> Work | None:
        if work.program.strategy == "exact":
            return None
        return replace(work, program=replace(work.program, class_id="own", strategy="exact"))

    tries = Tries(
        lambda work, alone: work.program.class_id == "own" and 1 not in work.bucket.numbers, own=own
    )
    outcome = tries.train(work(3, 2))
    assert reasons(outcome) == [None, Reason.OOM, None]
    assert outcome.own_programs == 3


def test_the_members_of_a_trial_stay_together() -> None:
    tries = Tries(up_to(3), members=3)
    outcome = tries.train(work(2, 8))
    assert tries.done == [((0, 1), 8, False), ((0,), 4, False), ((0,), 3, False), ((1,), 3, False)]
    assert outcome.ceiling == Ceiling("cpu", 1000, 3)


def test_the_parts_of_a_bucket_keep_the_lowest_of_their_ceilings() -> None:
    whole = work(3, 4)
    branches = [replace(whole.program, class_id=name) for name in ("a", "b", "a")]

    def attempt(work: Work, *, alone: bool) -> Outcome:
        first, second = (TRAINED.attempt(part) for part in split_by_class(work, branches))
        first = replace(
            first,
            ceiling=Ceiling("cpu", 1000, 1),
            own_programs=2,
            shortage="4 lanes",
            memory_predicted_bytes=900,
        )
        second = replace(second, ceiling=Ceiling("cpu", 1000, 2), memory_predicted_bytes=800)
        return merge_outcomes(work, [first, second])

    def fail(work: Work, failure: Failure) -> Outcome:
        return failed_outcome(work, failure, PLACE, 0.0)

    outcome = CapacityFallback(attempt, lambda work: None, fail, 1, LIMIT).train(whole)

    assert outcome.ceiling == Ceiling("cpu", 1000, 1)
    assert (outcome.own_programs, outcome.shortage) == (2, "4 lanes")
    assert outcome.memory_predicted_bytes == 900
    assert [lane.number for lane in outcome.lanes] == [0, 1, 2]


def test_a_ceiling_applies_only_where_it_was_found() -> None:
    elsewhere = Ceiling("gpu", 1000, 1), Ceiling("cpu", 2000, 1), Ceiling("cpu", None, 1)
    tries = Tries(up_to(4))
    outcome = tries.train(work(4, 8, *elsewhere, Ceiling("cpu", 1000, 4), Ceiling("cpu", 1000, 2)))
    assert tries.done == [((0, 1), 2, False), ((2, 3), 2, False)]
    assert (outcome.ceiling, outcome.shortage) == (Ceiling("cpu", 1000, 2), "")
