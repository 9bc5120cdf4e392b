"""A turn alone has the device to itself, and no turn waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sweeper.executors.placement import DeviceLock, device_locks

WAIT_S = 10.0


def test_turns_of_different_devices_run_at_the_same_time() -> None:
    turns, both = DeviceLock(), threading.Barrier(2)

    def run() -> None:
        with turns.turn(alone=False):
            both.wait(WAIT_S)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(run) for _ in range(2)]:
            done.result(WAIT_S)


def test_nothing_runs_during_a_turn_alone() -> None:
    turns, lock = DeviceLock(), threading.Lock()
    running: list[bool] = []

    def run(alone: bool) -> None:
        with turns.turn(alone=alone):
            with lock:
                running.append(alone)
                assert len(running) == 1 or not any(running)
            threading.Event().wait(0.001)
            with lock:
                running.remove(alone)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, n % 5 == 0) for n in range(100)]:
            done.result(WAIT_S)


def test_a_turn_that_fails_lets_the_next_begin() -> None:
    turns = DeviceLock()
    for alone in (True, False, True):
        with pytest.raises(ZeroDivisionError), turns.turn(alone=alone):
            1 / 0  # noqa: B018


def test_devices_that_share_a_memory_share_its_turns() -> None:
    assert len(set(device_locks(["gpu"] * 4))) == 4
    assert len(set(device_locks(["cpu"] * 4))) == 1
