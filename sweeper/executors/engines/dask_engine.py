"""Dask: a bucket is a task that is bound to one worker of the cluster.

The result of the survey stays in that worker's memory as long as this program needs it. A slot
there ends as soon as it is gone: when this program closes its client, or when the scheduler has
lost it.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from distributed import Client, Future, Security, Status, get_worker
from distributed.client import ClosedClientError
from distributed.comm.core import connect
from distributed.scheduler import KilledWorker

from sweeper.errors import Problem, SetupError
from sweeper.executors.engines.engine import (
    AddressError,
    BusyError,
    ClusterWorker,
    EngineGoneError,
    GivenUpError,
    LostError,
    gone,
)
from sweeper.executors.engines.remote_worker import Opening, WorkerSlot
from sweeper.executors.executor import Work
from sweeper.executors.process_executor import ClosedError

_CONNECT_S = 5.0
# how often to check whether a silent worker still exists
_LOOK_S = 0.5
# time limits for an answer of the scheduler, and for a worker's result
_ANSWER_S = 10.0
_RESULT_S = 60.0
_ALIVE = (Status.running, Status.paused)
_ALIVE_NAMES = tuple(status.name for status in _ALIVE)

_client_log = logging.getLogger("distributed.client")


class DaskEngine:
    """The cluster of the scheduler at `address`.

    Raises:
        AddressError: no scheduler answers there.
    """

    def __init__(self, address: str) -> None:
        self.label = f"dask at {address}"
        # independent of any event loop of this thread
        with ThreadPoolExecutor(1) as apart:
            apart.submit(asyncio.run, _greet(address)).result()
        try:
            self._client = Client(address, timeout=_CONNECT_S, set_as_default=False, name="sweeper")
        except (OSError, TimeoutError) as error:
            raise AddressError(str(error)) from error
        self._log_level = _client_log.level
        _client_log.setLevel(logging.CRITICAL)  # it logs the loss of a scheduler at length
        self.dashboard: str | None = self._client.dashboard_link
        self._present: frozenset[str] = frozenset()
        self._kept: dict[str, Future[Any]] = {}
        self._is_closed = False

    def workers(self) -> Mapping[str, ClusterWorker]:
        """Its workers, by address."""
        try:
            found = self._ask(self._scheduler.identity, n_workers=-1)["workers"]
        except (OSError, TimeoutError, RuntimeError, CancelledError) as error:
            raise self._gone(f"{type(error).__name__}: {error}") from error
        there = {address: one for address, one in found.items() if one["status"] in _ALIVE_NAMES}
        self._present = frozenset(there)
        return {
            address: ClusterWorker(f"dask {one['name']}", one["host"], one["nthreads"])
            for address, one in there.items()
        }

    def survey(self, key: str, ask: Callable[[], Any], timeout_s: float) -> Any:
        """The result of `ask` in a worker; for another Python version, only that version."""
        python = self._answer(self._submit(platform.python_version, key, "python"), timeout_s)
        if _minor(python) != _minor(platform.python_version()):
            return {"python": _minor(python)}  # it could not read a function from this version
        asked = self._submit(ask, key, "slot")
        self._kept[key] = asked
        return self._answer(asked, timeout_s)

    def open(self, key: str, timeout_s: float) -> None:
        """Nothing to do: the worker holds the result of its survey."""

    def train(self, key: str, opening: Opening, work: Work) -> object:
        """The result of `attempt` in a worker."""
        kept = self._kept.get(key)
        if kept is None:
            raise GivenUpError("was given up")
        self._check(key)
        asked = self._submit(attempt, key, "bucket", _Task(str(kept.key), opening, work))
        ended = _ended(asked)
        try:
            while not ended.wait(_LOOK_S):
                self._check(key)
            return result_of(asked, self.label)
        finally:
            asked.release()

    def drop(self, key: str) -> None:
        """Release what the worker holds, which ends its slot."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            kept.release()

    def close(self) -> None:
        """Leave the cluster, which cancels every task and ends every slot."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(OSError, TimeoutError):
                self._client.close(timeout=_ANSWER_S)
            _client_log.setLevel(self._log_level)

    @property
    def _scheduler(self) -> Any:
        if self._client.status != "running":
            raise self._gone("the connection is lost")
        return self._client.scheduler

    def _ask(self, question: Callable[..., Any], **given: Any) -> Any:
        return self._client.sync(question, callback_timeout=_ANSWER_S, **given)

    def _answer(self, asked: Future[Any], timeout_s: float) -> Any:
        ended, until = _ended(asked), time.monotonic() + timeout_s
        while not ended.wait(_LOOK_S):
            if self._is_closed:
                raise GivenUpError("was given up")
            if time.monotonic() > until:
                raise BusyError
        return result_of(asked, self.label)

    def _submit(
        self, function: Callable[..., Any], key: str, what: str, *given: Any
    ) -> Future[Any]:
        try:
            return self._client.submit(
                function,
                *given,
                key=f"sweeper-{what}-{uuid4().hex}",
                workers=[key],
                allow_other_workers=False,
                pure=False,
                retries=0,
            )
        except ClosedClientError as error:
            raise self._gone("the connection is lost") from error

    def _check(self, key: str) -> None:
        if self._is_closed:
            raise GivenUpError("was given up")
        if self._client.status != "running":
            raise self._gone("the connection is lost")
        if key not in self._present:
            raise LostError("is gone from the cluster")

    def _gone(self, how: str) -> EngineGoneError:
        return gone(self.label, f"the scheduler no longer answers: {how}")


def result_of(asked: Future[Any], label: str) -> Any:
    """The result of a finished future of a worker of `label`.

    Raises:
        LostError: it was lost, with its worker or on its way here.
        SetupError: the worker raised an error.
    """
    try:
        if asked.status == "finished":
            return asked.result(timeout=_RESULT_S)
        raised = asked.exception(timeout=_ANSWER_S) if asked.status == "error" else None
    except Exception as error:  # there are many kinds if the client loses what a worker has
        raise LostError(f"returned nothing: {type(error).__name__}") from error
    if raised is None:
        raise LostError("has lost its task")
    if isinstance(raised, KilledWorker):
        raise LostError("is gone from the cluster")
    found = f"a worker raised {type(raised).__name__}: {raised}"
    raise SetupError(Problem(label, "", found, "fix it there, then try again"))


async def _greet(address: str) -> None:
    """Check who answers, since a client that cannot connect takes long to give up and to end.

    Raises:
        AddressError: it is not a scheduler.
    """
    security = Security().get_connection_args("client")
    try:
        async with asyncio.timeout(_CONNECT_S):
            comm = await connect(address, timeout=_CONNECT_S, **security)
            await comm.write({"op": "identity", "reply": True, "n_workers": 0})
            answer: Any = await comm.read()
            await comm.close()
    except Exception as error:  # other programs' answers are read as if they were Dask's
        raise AddressError(str(error) or f"nothing in {_CONNECT_S:g} s") from error
    kind = answer.get("type") if isinstance(answer, dict) else None
    if kind != "Scheduler":
        raise AddressError(f"{f'a {kind}' if kind else 'something else'} answers, not a scheduler")


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _ended(asked: Future[Any]) -> threading.Event:
    """An event that is set when a future has finished in any way."""
    ended = threading.Event()
    asked.add_done_callback(lambda _: ended.set())
    return ended


@dataclass(frozen=True, slots=True)
class _Task:
    """A task for a worker; `slot` is the key of the result that opened its slot."""

    slot: str
    opening: Opening
    work: Work


_slots: dict[str, WorkerSlot] = {}
_opening = threading.Lock()


def attempt(task: _Task) -> object:
    """Train a bucket in the slot of this Dask worker."""
    is_wanted = partial(_is_wanted, get_worker(), task.slot)
    with _opening:
        if not is_wanted():
            return ClosedError()
        if task.slot not in _slots:
            _slots[task.slot] = WorkerSlot(task.opening, is_wanted)
        slot = _slots[task.slot]
    return slot.attempt(task.opening, task.work)


def _is_wanted(worker: Any, slot: str) -> bool:
    if worker.status in _ALIVE and slot in worker.data:
        return True
    _slots.pop(slot, None)
    return False
