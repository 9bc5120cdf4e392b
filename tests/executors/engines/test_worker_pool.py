"""Workers of a cluster come and go; each bucket trains once, in a present worker."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sweeper.errors import SetupError
from sweeper.executors.engines import worker_pool
from sweeper.executors.engines.engine import (
    BusyError,
    ClusterWorker,
    EngineGoneError,
    GivenUpError,
    LostError,
)
from sweeper.executors.engines.remote_slot import RemoteSlot
from sweeper.executors.engines.remote_worker import Opening
from sweeper.executors.engines.worker_pool import EngineExecutor, WorkerPool
from sweeper.executors.executor import Work
from sweeper.results.events import Event, Warned
from sweeper.scheduler.classes import Bucket
from tests.executors.engines.test_remote_worker import OPENING
from tests.executors.test_retry import work
from tests.simulated import SimulatedExecutor

BUSY_S = 1.0


@dataclass
class Cluster:
    """An engine whose workers are `there`; those in `deaf` lose every request."""

    there: dict[str, ClusterWorker] = field(default_factory=dict)
    deaf: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    cut_off: set[str] = field(default_factory=set)
    trained: list[tuple[str, Bucket]] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    dropping: Callable[[str], None] = lambda _: None
    label: str = "cluster"
    dashboard: str | None = None

    def come(self, *names: str) -> None:
        self.there |= {name: ClusterWorker(name, "host", 1) for name in names}

    def workers(self) -> Mapping[str, ClusterWorker]:
        return dict(self.there)

    def survey(self, key: str, ask: Callable[[], Any], timeout_s: float) -> Any:
        return ask()

    def open(self, key: str, timeout_s: float) -> None:
        pass

    def train(self, key: str, opening: Opening, work: Work) -> object:
        self.marks.append(work.checkpoint_suffix)
        if key in self.given_up:
            raise GivenUpError("was given up")
        if key in self.deaf:
            self.there.pop(key)
            raise LostError("is gone")
        self.trained.append((key, work.bucket))
        outcome = SimulatedExecutor(lambda spec, epoch: (1.0,)).attempt(work)
        if key in self.late:  # the result of an earlier attempt
            self.there.pop(key)
            return replace(outcome, bucket=replace(work.bucket, bucket=99))
        return outcome

    def drop(self, key: str) -> None:
        self.dropping(key)

    def close(self) -> None:
        pass


@dataclass
class SlotFactory:
    """Makes a slot of every worker that is neither refused nor busy."""

    cluster: Cluster
    joined: Counter[str] = field(default_factory=Counter[str])
    together: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))

    def join(self, key: str, worker: ClusterWorker, neighbours: int) -> RemoteSlot:
        if key in self.cluster.refused:
            raise SetupError(f"{key} is not as this side")
        if key in self.cluster.busy:
            time.sleep(BUSY_S)
            raise BusyError
        if key in self.cluster.cut_off:
            raise EngineGoneError("the connection is lost")
        self.together.wait(10)
        self.joined[key] += 1
        return RemoteSlot(self.cluster, key, worker, replace(OPENING, place=worker.name))

    def leave(self, slot: RemoteSlot) -> None:
        self.joined[slot.key] -= 1


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def events() -> list[Event]:
    return []


Open = Callable[..., EngineExecutor]


@pytest.fixture
def opened(cluster: Cluster, events: list[Event]) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_it(most: int | None = None) -> EngineExecutor:
            pool = WorkerPool(
                cluster,
                SlotFactory(cluster),
                lambda told: events.append(Warned(told)),
                most,
                prompt_s=0.1,
            )
            pool.gather()
            executor = EngineExecutor(cluster, pool, 0, events.append)
            stack.callback(executor.close)
            return executor

        yield open_it


def numbered(bucket: int) -> Work:
    asked = work(bucket)
    return replace(asked, bucket=replace(asked.bucket, bucket=bucket))


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_each_bucket_trains_once(cluster: Cluster, opened: Open) -> None:
    cluster.come("a", "b")
    executor = opened()
    futures = [executor.submit(numbered(bucket)) for bucket in range(5)]
    assert [future.result(10).bucket.bucket for future in futures] == [0, 1, 2, 3, 4]
    assert sorted(bucket.bucket for _, bucket in cluster.trained) == [0, 1, 2, 3, 4]


class Queue(threading.Condition):
    """A condition that counts how often a thread has waited for it."""

    n_waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.n_waits += 1
        return super().wait(timeout)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_free_slot_goes_to_a_waiting_bucket_although_the_watch_waits_first(
    is_new: bool, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "_LOOK_S", 60)
    slot_factory = SlotFactory(cluster)
    pool = WorkerPool(cluster, slot_factory, lambda told: None, None)
    slot = slot_factory.join("a", ClusterWorker("a", "host", 1), 1)
    queue = pool._changed = Queue()
    with ThreadPoolExecutor(2) as threads:
        threads.submit(pool._watch)
        until(lambda: queue.n_waits)
        waiting = threads.submit(pool.take)
        until(lambda: queue.n_waits == 2)
        (pool._add if is_new else pool.give_back)(slot)
        try:
            assert waiting.result(10) is slot
        finally:
            pool.close()


def test_the_bucket_of_a_lost_worker_goes_to_a_new_one(cluster: Cluster, opened: Open) -> None:
    cluster.come("a")
    cluster.deaf.add("a")
    executor = opened()
    waiting = executor.submit(numbered(0))
    until(lambda: not cluster.there)
    cluster.come("b")
    assert waiting.result(10).attempt == 2
    assert [name for name, _ in cluster.trained] == ["b"]
    first, second = cluster.marks
    assert first != second, "two tries would write one file"


def test_released_slots_do_not_count_against_a_bucket(
    cluster: Cluster, opened: Open, events: list[Event]
) -> None:
    """As after a short loss of the connection: more losses than attempts for a trial."""
    cluster.come(*"abcdefg")
    executor = opened()
    until(lambda: len(executor._pool._free) == 7)
    cluster.given_up = {*"abcdef"}
    outcome = executor.submit(work(0)).result(timeout=10)

    assert [name for name, _ in cluster.trained] == ["g"]
    assert (outcome.attempt, outcome.lanes[0].attempts) == (1, 1)
    assert not any(isinstance(event, Warned) for event in events)


def test_lost_and_surplus_workers_leave(cluster: Cluster) -> None:
    cluster.come("a", "b")
    slot_factory = SlotFactory(cluster, together=threading.Barrier(2))
    pool = WorkerPool(cluster, slot_factory, lambda told: None, 1, prompt_s=0.0)
    pool.gather()
    until(lambda: len(slot_factory.joined) == 2 and not pool._joining)
    assert +slot_factory.joined == Counter(pool._slots.keys())
    cluster.there.clear()
    until(lambda: not pool._slots)
    pool.close()
    assert not +slot_factory.joined


def test_a_slot_is_dropped_before_its_worker_can_be_taken_up_again(
    cluster: Cluster, opened: Open
) -> None:
    """If it were dropped later, that would be the slot that has the key by then."""
    cluster.come("a")
    executor = opened()
    there: list[bool] = []
    cluster.dropping = lambda key: there.append(key in executor._pool._slots)
    slot = executor._pool.take()
    executor._pool.lose(slot)
    assert there == [True]


def test_a_late_result_of_another_bucket_is_ignored(cluster: Cluster, opened: Open) -> None:
    cluster.come("a")
    cluster.late.add("a")
    waiting = opened().submit(numbered(0))
    until(lambda: not cluster.there)
    cluster.come("b")
    assert waiting.result(10).bucket.bucket == 0


def test_no_more_workers_take_part_than_requested(cluster: Cluster, opened: Open) -> None:
    cluster.come("a", "b", "c")
    executor = opened(1)
    for bucket in range(4):
        executor.submit(numbered(bucket)).result(10)
    assert len({name for name, _ in cluster.trained}) == 1


def test_a_free_worker_takes_the_place_of_a_busy_one(cluster: Cluster, opened: Open) -> None:
    cluster.come("a", "b", "c")
    cluster.busy |= {"a", "b"}
    assert opened(1).submit(numbered(0)).result(10).bucket.bucket == 0
    assert [name for name, _ in cluster.trained] == ["c"]


def test_busy_workers_join_when_they_are_free(cluster: Cluster, opened: Open) -> None:
    cluster.come("a", "b", "c")
    cluster.busy |= {"a", "b"}
    executor = opened(2)
    cluster.busy.clear()
    until(lambda: len(executor._pool._slots) == 2)
    time.sleep(2 * BUSY_S)
    assert len(executor._pool._slots) == 2, "no more than were asked for"


def test_a_cluster_whose_workers_are_all_busy_is_refused(cluster: Cluster, opened: Open) -> None:
    cluster.come("a", "b")
    cluster.busy |= {"a", "b"}
    found = "its workers are busy with other work or lost, and none has answered"
    with pytest.raises(SetupError, match=f"{found}; wait, free one, or start others"):
        opened(1)


def test_a_refused_worker_cancels_pending_work(cluster: Cluster, opened: Open) -> None:
    cluster.come("a", "b")
    cluster.refused.add("b")
    with pytest.raises(SetupError, match="b is not as this side"):
        opened()


def test_a_worker_that_joins_later_is_reported_once(
    cluster: Cluster, opened: Open, events: list[Event]
) -> None:
    cluster.come("a")
    executor = opened()
    cluster.refused.add("b")
    cluster.come("b")
    until(lambda: events)
    threading.Event().wait(1.5)
    assert events == [Warned("b is not as this side; it is not used")]
    assert executor.submit(numbered(0)).result(10).place is not None


def test_a_worker_whose_engine_was_briefly_gone_joins_later(
    cluster: Cluster, opened: Open, events: list[Event]
) -> None:
    cluster.come("a")
    executor = opened()
    cluster.cut_off.add("b")
    cluster.come("b")
    until(lambda: executor._pool._failed_joins["b"])
    cluster.cut_off.clear()
    until(lambda: "b" in executor._pool._slots)
    assert not events


def test_a_cluster_without_workers_is_refused(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "_GATHER_S", 0.5)
    with pytest.raises(SetupError, match="cluster: it has no workers; start some, then try again"):
        opened()
