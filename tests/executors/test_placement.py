"""Buckets are distributed evenly over devices, by their predicted times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sweeper.executors.executor import Work
from sweeper.executors.placement import DeviceQueues
from sweeper.scheduler.classes import Bucket, Lane, ProgramClass


def program(name: str, compile_s: float, cached_s: float = 0.0) -> ProgramClass:
    return ProgramClass(
        *(name, "{}", "exact", "map", 4, "float32"),
        predicted_compile_s=compile_s,
        cached_s=cached_s,
    )


def work(number: int, predicted_s: float | None, of: ProgramClass) -> Work:
    bucket = Bucket(number, of.class_id, "inline", (Lane(number, 0, 4, ""),), predicted_s)
    return Work(1, bucket, of, (), {})


@given(
    st.integers(1, 8).flatmap(
        lambda devices: st.tuples(
            st.just(devices),
            st.lists(st.floats(0.5, 1.5), min_size=16 * devices, max_size=20 * devices),
        )
    )
)
def test_sixteen_buckets_per_device_are_balanced_within_a_tenth(
    case: tuple[int, list[float]],
) -> None:
    devices, seconds = case
    queues, taken, compiled = DeviceQueues(devices), [0.0] * devices, program("a", 0.0)
    for number, spent in enumerate(sorted(seconds, reverse=True)):
        taken[queues.place(work(number, spent, compiled))] += spent

    assert max(taken) <= 1.1 * min(taken)


def test_buckets_of_unknown_cost_take_devices_in_turn() -> None:
    queues, compiled = DeviceQueues(3), program("a", 0.0)

    placed = [queues.place(work(number, None, compiled)) for number in range(6)]
    assert placed == [0, 1, 2, 0, 1, 2]


def test_classes_slow_to_compile_stay_on_their_device() -> None:
    queues, classes = DeviceQueues(2), [program(name, 1.0) for name in "ab"]
    works = [work(number, 0.1, classes[number % 2]) for number in range(12)]

    assert [queues.place(one) for one in works] == [0, 1] * 6


def test_a_class_goes_to_the_device_that_has_it_in_the_cache() -> None:
    compiled = program("a", 100.0, 0.1)
    alone, shared = DeviceQueues(2), DeviceQueues(2, is_shared=True)

    assert alone.place_class(compiled) == 0
    alone.end_compiling(compiled, 0)
    assert [alone.place(work(number, 1.0, compiled)) for number in range(4)] == [0] * 4
    assert shared.place_class(compiled) == 0
    assert [shared.place(work(number, 90.0, compiled)) for number in range(3)] == [1, 1, 0]


def test_finished_buckets_no_longer_count() -> None:
    queues, compiled = DeviceQueues(2), program("a", 5.0)
    first = work(0, 5.0, compiled)
    assert queues.place(first) == 0
    queues.end_compiling(compiled, 0)
    assert queues.place(work(1, 6.0, compiled)) == 0  # 5 s to wait there, 5 s to compile elsewhere
    assert queues.place(work(2, 1.0, compiled)) == 1
    queues.end_training(first, 0)
    queues.end_training(work(1, 6.0, compiled), 0)

    assert queues.place(work(3, 1.0, compiled)) == 0
