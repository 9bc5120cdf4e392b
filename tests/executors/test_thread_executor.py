"""Threads compile waiting classes before they train, and never wait for nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import wait
from typing import Any

import pytest

from sweeper.executors.executor import Outcome, Work
from sweeper.executors.thread_executor import ThreadExecutor
from sweeper.results.events import CompileFinished, CompileStarted, Event
from sweeper.scheduler.classes import Bucket, Lane, ProgramClass
from sweeper.trial import TrialSpec
from tests.simulated import SimulatedExecutor


class FakeTrainer:
    """Records its calls; a class in `broken` cannot be compiled."""

    def __init__(self, broken: frozenset[str] = frozenset()) -> None:
        self.done: list[str] = []
        self._broken = broken
        self._lock = threading.Lock()

    def compile(self, program_class: ProgramClass, params: Mapping[str, Any]) -> None:
        with self._lock:
            self.done.append(f"compile {program_class.class_id}")
        if program_class.class_id in self._broken:
            raise ValueError("no such layer")

    def train(self, work: Work, place: str, memory_fraction: float | None) -> Outcome:
        with self._lock:
            self.done.append(f"train {work.program.class_id}")
        return SimulatedExecutor(lambda spec, epoch: (1.0,)).attempt(work)


@pytest.fixture
def trainer() -> FakeTrainer:
    return FakeTrainer()


@pytest.fixture(params=[1, 2])
def executor(request: pytest.FixtureRequest, trainer: FakeTrainer) -> Iterator[ThreadExecutor]:
    built = ThreadExecutor([trainer], request.param, lambda event: None, None)  # type: ignore[arg-type]
    yield built
    built.close()


def work(number: int, class_id: str) -> Work:
    program = ProgramClass(class_id, "{}", "exact", "map", 4, "float32")
    bucket = Bucket(number, class_id, "inline", (Lane(number, 0, 1, ""),))
    return Work(1, bucket, program, (TrialSpec(number, {}, {}, 0),), {})


def test_every_class_is_compiled_once_and_before_its_buckets(
    executor: ThreadExecutor, trainer: FakeTrainer
) -> None:
    futures = [executor.submit(work(n, f"class {n % 3}")) for n in range(12)]

    assert not wait(futures, timeout=10).not_done
    for name in ("class 0", "class 1", "class 2"):
        assert trainer.done.count(f"compile {name}") == 1
        assert trainer.done.index(f"compile {name}") < trainer.done.index(f"train {name}")


def test_a_class_prepared_ahead_is_not_compiled_again(
    executor: ThreadExecutor, trainer: FakeTrainer
) -> None:
    executor.prepare(work(0, "a").program, {})

    executor.submit(work(0, "a")).result(timeout=10)

    assert trainer.done == ["compile a", "train a"]


def test_a_class_that_cannot_be_compiled_fails_its_own_buckets() -> None:
    trainer = FakeTrainer(frozenset({"bad"}))
    executor = ThreadExecutor([trainer], 1, lambda event: None, None)  # type: ignore[arg-type]
    futures = [executor.submit(work(n, name)) for n, name in enumerate(["bad", "good"])]

    assert not wait(futures, timeout=10).not_done
    assert set(trainer.done) == {"compile bad", "train bad", "compile good", "train good"}
    executor.close()


@pytest.mark.parametrize("kind", [CompileStarted, CompileFinished])
def test_an_observer_that_raises_while_a_class_is_compiled_ends_its_buckets(
    kind: type[Event],
) -> None:
    def observe(event: Event) -> None:
        if isinstance(event, kind):
            raise RuntimeError("the observer is broken")

    executor = ThreadExecutor([FakeTrainer()], 1, observe, None)  # type: ignore[arg-type]
    futures = [executor.submit(work(n, "a")) for n in range(2)]

    assert not wait(futures, timeout=10).not_done
    assert {str(future.exception()) for future in futures} == {"the observer is broken"}
    executor.close()


def test_closing_drops_waiting_classes() -> None:
    gate = threading.Event()

    class Slow(FakeTrainer):
        def train(self, *args: Any) -> Outcome:
            gate.wait(10)
            return super().train(*args)

    trainer = Slow()
    executor = ThreadExecutor([trainer], 1, lambda event: None, None)  # type: ignore[arg-type]
    futures = [executor.submit(work(n, "a")) for n in range(5)]
    closing = threading.Thread(target=executor.close)
    closing.start()
    # or the thread would start the waiting bucket before it is told to end
    while not executor._closed:  # pyright: ignore[reportPrivateUsage]
        time.sleep(0.001)
    gate.set()
    closing.join(timeout=10)

    assert not closing.is_alive()
    assert sum(future.done() for future in futures) <= 1
