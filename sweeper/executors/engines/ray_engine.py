"""Ray: each slot is an actor that holds one GPU of its node, or one core if there is none.

When a program ends in any way, Ray ends its actors and everything that they started.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeper.errors import Problem, SetupError
from sweeper.executors.engines.engine import (
    AddressError,
    BusyError,
    ClusterWorker,
    GivenUpError,
    LostError,
    gone,
)
from sweeper.executors.engines.head_node import check_head_node
from sweeper.executors.engines.remote_worker import Opening, WorkerSlot
from sweeper.executors.executor import Work

# how often to check whether this program has given the slot up
_LOOK_S = 0.5
# Ray's name for the cluster of this machine; starting one would fork a program that uses JAX
_AUTO = "auto"


class RayEngine:
    """The cluster of the head node at `address`, or the one this process is connected to.

    Raises:
        AddressError: no head node answers there.
    """

    def __init__(self, address: str) -> None:
        self.label = f"ray at {address}"
        self._is_own = not ray.is_initialized()
        self.dashboard: str | None = _connect(address) if self._is_own else None
        self._surveys: dict[str, Any] = {}
        self._actors: dict[str, Any] = {}
        self._given_up = threading.Event()

    def workers(self) -> Mapping[str, ClusterWorker]:
        """Its slots, by node and number there."""
        try:
            nodes: Any = ray.nodes()
        except (RayError, RuntimeError) as error:
            raise gone(self.label, f"it no longer answers: {error}") from error
        return {
            f"{node['NodeID']}/{index}": ClusterWorker(
                f"ray {node['NodeID'][:8]}/{index}", node["NodeManagerHostname"], cores
            )
            for node in nodes
            if node["Alive"]
            for count, cores in [_slots(node["Resources"])]
            for index in range(count)
        }

    def survey(self, key: str, ask: Callable[[], Any], timeout_s: float) -> Any:
        """The result of `ask` on the node of a slot."""
        node = key.partition("/")[0]
        if node not in self._surveys:
            task: Any = ray.remote(ask)
            with _asking():
                asked = task.options(num_cpus=0, max_retries=0, **_on(node)).remote()
            self._surveys[node] = self._given(asked, timeout_s)
        return self._surveys[node]

    def open(self, key: str, timeout_s: float) -> None:
        """Start the actor of a slot."""
        actor_class: Any = ray.remote(SlotActor)
        with _asking():
            node = key.partition("/")[0]
            gpus = _gpus(node)
            actor = actor_class.options(
                num_cpus=0 if gpus else 1,
                num_gpus=1 if gpus else 0,
                max_restarts=0,
                max_task_retries=0,
                **_on(node),
            ).remote()
        self._actors[key] = actor
        self._given(actor.is_there.remote(), timeout_s)

    def train(self, key: str, opening: Opening, work: Work) -> object:
        """The result of the actor of a slot."""
        actor = self._actors.get(key)
        if actor is None:
            raise GivenUpError("was given up")
        with _asking():
            asked = actor.attempt.remote(opening, work)
            while not ray.wait([asked], timeout=_LOOK_S)[0]:
                self._check_open()
        self._check_open()
        return self._given(asked, None)

    def drop(self, key: str) -> None:
        """End the actor of a slot, and what it started."""
        actor = self._actors.pop(key, None)
        if actor is not None:
            with suppress(RayError, RuntimeError):
                ray.kill(actor)

    def close(self) -> None:
        """End every actor, and leave the cluster if this object connected to it."""
        if self._given_up.is_set():
            return
        self._given_up.set()
        for key in list(self._actors):
            self.drop(key)
        if self._is_own:
            ray.shutdown()

    def _check_open(self) -> None:
        if self._given_up.is_set():
            raise GivenUpError("was given up")

    def _given(self, asked: Any, timeout_s: float | None) -> Any:
        try:
            return ray.get(asked, timeout=timeout_s)
        except GetTimeoutError as error:
            raise BusyError from error
        except RayTaskError as error:
            found = f"a worker raised {type(error.cause).__name__}: {error.cause}"
            raise SetupError(
                Problem(self.label, "", found, "fix it there, then try again")
            ) from error
        except RayActorError as error:
            raise LostError("is gone from the cluster") from error
        except (RayError, RuntimeError, OSError) as error:
            raise LostError(f"returned nothing: {type(error).__name__}") from error


class SlotActor:
    """A slot in a Ray process."""

    def __init__(self) -> None:
        self._slot: WorkerSlot | None = None

    def is_there(self) -> bool:
        """Return True; the call fails if the actor does not exist."""
        return True

    def attempt(self, opening: Opening, work: Work) -> object:
        """Train a bucket."""
        if self._slot is None:
            self._slot = WorkerSlot(opening, lambda: True)
        return self._slot.attempt(opening, work)


def _connect(address: str) -> str | None:
    """Connect this process; returns the dashboard link. Keeps the handler of SIGTERM.

    Raises:
        AddressError: no head node answers.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        if address != _AUTO:  # Ray would try for two minutes, then end the program
            check_head_node(address)
        context: Any = ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError, RayError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise AddressError(said.rstrip(".")) from error
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)
    return f"http://{context.dashboard_url}" if context.dashboard_url else None


@contextmanager
def _asking() -> Generator[None]:
    """Turn errors of Ray into the loss of a slot."""
    try:
        yield
    except (RayError, RuntimeError, OSError) as error:
        raise LostError(f"returned nothing: {type(error).__name__}") from error


def _gpus(node: str) -> int:
    """How many GPUs a node has.

    Raises:
        LostError: it is gone.
    """
    nodes: Any = ray.nodes()
    for one in nodes:
        if one["NodeID"] == node and one["Alive"]:
            return int(one["Resources"].get("GPU", 0))
    raise LostError("is gone from the cluster")


def _slots(resources: Mapping[str, float]) -> tuple[int, int]:
    """How many slots a node has, and how many cores each of them may use."""
    cores, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    return (gpus, max(1, cores // gpus)) if gpus else (cores, 1)


def _on(node: str) -> dict[str, Any]:
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
