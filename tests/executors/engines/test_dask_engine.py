"""An error of Dask's client becomes a message of one line, or the loss of a slot."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from distributed.client import FutureCancelledError
from distributed.comm.core import listen
from distributed.scheduler import KilledWorker

from sweeper.errors import SetupError
from sweeper.executors.engines.dask_engine import DaskEngine, result_of
from sweeper.executors.engines.engine import AddressError, LostError


@dataclass
class Ended:
    """A future that is done."""

    status: str
    error: Exception

    def result(self, timeout: float) -> Any:
        raise self.error

    def exception(self, timeout: float) -> Any:
        if isinstance(self.error, TimeoutError):
            raise self.error
        return self.error


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (
            Ended("finished", FutureCancelledError("key", "lost")),
            "returned nothing: FutureCancelled",
        ),
        (Ended("finished", OSError("gone")), "returned nothing: OSError"),
        (Ended("error", TimeoutError()), "returned nothing: TimeoutError"),
        (Ended("error", KilledWorker("key", None, 1)), "is gone from the cluster"),
        (Ended("cancelled", FutureCancelledError("key", "lost")), "has lost its task"),
    ],
)
def test_errors_of_a_client_count_as_a_lost_slot(ended: Any, told: str) -> None:
    with pytest.raises(LostError, match=told):
        result_of(ended, "dask")


def test_errors_of_a_worker_are_reported_with_its_cluster() -> None:
    ended: Any = Ended("error", ValueError("no such path"))
    with pytest.raises(SetupError, match="dask: a worker raised ValueError: no such path; fix"):
        result_of(ended, "dask")


@contextmanager
def answering(answer: object) -> Iterator[str]:
    """The address of a server with the protocol of Dask that gives this answer."""
    loop, addresses = asyncio.new_event_loop(), list[str]()
    is_there = threading.Event()

    async def answer_it(comm: Any) -> None:
        await comm.read()
        await comm.write(answer)

    async def serve() -> None:
        async with listen("tcp://127.0.0.1:0", answer_it) as listener:
            addresses.append(listener.contact_address)
            is_there.set()
            await ended.wait()

    ended = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert is_there.wait(10)
    try:
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"type": "Worker"}, "a Worker answers, not a scheduler"),
        ({}, "something else answers, not a scheduler"),
        ("who is there?", "something else answers, not a scheduler"),
    ],
)
def test_an_answer_not_from_a_scheduler_is_refused(answer: object, told: str) -> None:
    with answering(answer) as address, pytest.raises(AddressError, match=told):
        DaskEngine(address)
