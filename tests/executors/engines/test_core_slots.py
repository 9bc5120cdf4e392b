"""How workers of a host share its resources while they come and go."""

from __future__ import annotations

from sweeper.executors.engines.core_slots import CoreSlots
from sweeper.executors.engines.engine import ClusterWorker


def worker(name: str, host: str = "host", cores: int = 1) -> ClusterWorker:
    return ClusterWorker(name, host, cores)


def turns(slots: CoreSlots, *names: str, gpus: str = "") -> list[int]:
    return [slots.take(name, worker(name), gpus).turn for name in names]


def test_a_turn_that_was_given_back_can_be_taken() -> None:
    """This keeps two slots from sharing a GPU while another is idle."""
    slots = CoreSlots()
    assert turns(slots, "a", "b", "c", "d") == [0, 1, 2, 3]
    for name in ("b", "c"):
        slots.give_back(name, worker(name))
    assert turns(slots, "e", "f", "g") == [1, 2, 4]


def test_turns_belong_to_a_host_and_its_visible_gpus() -> None:
    slots = CoreSlots()
    assert turns(slots, "a", "b", gpus="0,1") == [0, 1]
    assert turns(slots, "c", gpus="2,3") == [0]
    assert slots.take("d", worker("d", "other"), "0,1").turn == 0


def test_cores_that_were_given_back_can_be_taken() -> None:
    slots = CoreSlots()
    wide = [slots.take(str(one), worker(str(one), cores=2), "") for one in range(3)]
    assert [share.first_core for share in wide] == [0, 2, 4]
    slots.give_back("1", worker("1"))
    assert slots.take("four", worker("four", cores=4), "").first_core == 6
    assert slots.take("one", worker("one"), "").first_core == 2
    assert slots.take("two", worker("two", cores=2), "").first_core == 10
    assert slots.take("last", worker("last"), "").first_core == 3


def test_a_worker_that_returns_before_its_slot_is_free_keeps_it() -> None:
    slots = CoreSlots()
    first = slots.take("old", worker("a"), "")
    assert turns(slots, "b") == [1]
    assert slots.take("new", worker("a"), "") == first
    slots.give_back("old", worker("a"))
    assert turns(slots, "c") == [2]
    slots.give_back("new", worker("a"))
    assert turns(slots, "d") == [0]
