"""A simulated cluster has its own clock, and its random numbers are reproducible."""

from __future__ import annotations

import pytest

from sweeper.executors.executor import Work
from sweeper.scheduler.classes import Bucket, Lane, ProgramClass
from sweeper.trial import TrialSpec
from tests.simulated import Chances, Simulated, SimulatedCluster

CALM = Chances(spread=0.0, held_up=0.0, lost=0.0)


def works(count: int) -> list[Work]:
    program = ProgramClass("a", "{}", "exact", "map", 1, "float32")
    return [
        Work(
            1,
            Bucket(number, "a", "inline", (Lane(number, 0, 2, ""),)),
            program,
            (TrialSpec(number, {}, {}, 0),),
            {},
        )
        for number in range(count)
    ]


def simulate(devices: int, count: int, chances: Chances) -> tuple[Simulated, list[float]]:
    cluster = SimulatedCluster(devices, 2, lambda work: 3.0, seed=1, chances=chances)
    outcomes = list(cluster.train(works(count)))

    assert sorted(lane.number for outcome in outcomes for lane in outcome.lanes) == [*range(count)]
    return cluster.told, [outcome.finished_at for outcome in outcomes]


def test_buckets_go_to_the_device_that_is_free_first() -> None:
    told, finished = simulate(2, 5, CALM)

    assert finished == [3.0, 3.0, 6.0, 6.0, 9.0]
    assert told.busy_s == 15.0
    assert told.clock_s == pytest.approx(9.0 + told.between_s)
    assert told.simulating_s > 0 and told.simulating_cpu_s > 0


def test_a_bucket_whose_node_is_lost_starts_again() -> None:
    told, finished = simulate(4, 200, Chances(0.0, 0.0, 1.0, lost=0.2, back_s=10.0))

    assert told.lost_buckets > 10
    assert told.busy_s == pytest.approx(200 * 3.0 + told.lost_buckets * 1.5)
    assert max(finished) > 200 * 3.0 / 4


def test_delayed_buckets_take_longer() -> None:
    _, finished = simulate(1, 100, Chances(0.0, 0.1, 5.0, lost=0.0))

    assert 300 + 5 * 12 <= finished[-1] <= 300 + 30 * 12


def test_random_numbers_are_reproducible() -> None:
    some = Chances(0.3, 0.1, 5.0, 0.1, 10.0)

    assert simulate(3, 50, some)[1] == simulate(3, 50, some)[1]
