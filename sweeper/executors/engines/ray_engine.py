"""Ray: each slot is an actor that holds one GPU of its node, or one core if there is none.

Ray ends the actors of a program that ends, however it ends, and everything that they started.
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
from sweeper.executors.engines.head_node import knock
from sweeper.executors.engines.remote_worker import FarSlot, Opening
from sweeper.executors.executor import Work

# how often it is looked whether this program has given the slot up
_LOOK_S = 0.5
# Ray's own name for the cluster of this machine; a new one would be forked off a program with JAX
_AUTO = "auto"


class RayEngine:
    """The cluster whose head node is at `address`; that of this process, where it has one.

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

    def members(self) -> Mapping[str, ClusterWorker]:
        """Its slots, by their nodes and numbers there."""
        try:
            nodes: Any = ray.nodes()
        except (RayError, RuntimeError) as error:
            raise gone(self.label, f"it does not answer any more: {error}") from error
        return {
            f"{node['NodeID']}/{index}": ClusterWorker(
                f"ray {node['NodeID'][:8]}/{index}", node["NodeManagerHostname"], cores
            )
            for node in nodes
            if node["Alive"]
            for count, cores in [_slots(node["Resources"])]
            for index in range(count)
        }

    def survey(self, member: str, ask: Callable[[], Any], timeout_s: float) -> Any:
        """What `ask` gives on the node of a slot."""
        node = member.partition("/")[0]
        if node not in self._surveys:
            task: Any = ray.remote(ask)
            with _asking():
                asked = task.options(num_cpus=0, max_retries=0, **_on(node)).remote()
            self._surveys[node] = self._given(asked, timeout_s)
        return self._surveys[node]

    def open(self, member: str, timeout_s: float) -> None:
        """Start the actor of a slot."""
        actor_class: Any = ray.remote(FarActor)
        with _asking():
            node = member.partition("/")[0]
            gpus = _gpus(node)
            actor = actor_class.options(
                num_cpus=0 if gpus else 1,
                num_gpus=1 if gpus else 0,
                max_restarts=0,
                max_task_retries=0,
                **_on(node),
            ).remote()
        self._actors[member] = actor
        self._given(actor.is_there.remote(), timeout_s)

    def train(self, member: str, opening: Opening, work: Work) -> object:
        """What the actor of a slot gives."""
        actor = self._actors.get(member)
        if actor is None:
            raise GivenUpError("was given up")
        with _asking():
            asked = actor.attempt.remote(opening, work)
            while not ray.wait([asked], timeout=_LOOK_S)[0]:
                self._check_open()
        self._check_open()
        return self._given(asked, None)

    def drop(self, member: str) -> None:
        """End the actor of a slot, and what it started."""
        actor = self._actors.pop(member, None)
        if actor is not None:
            with suppress(RayError, RuntimeError):
                ray.kill(actor)

    def close(self) -> None:
        """End every actor, and leave the cluster where this connected to it."""
        if self._given_up.is_set():
            return
        self._given_up.set()
        for member in list(self._actors):
            self.drop(member)
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
            told = f"a worker raised {type(error.cause).__name__}: {error.cause}"
            raise SetupError(Problem(self.label, "", told, "fix that there, then go on")) from error
        except RayActorError as error:
            raise LostError("is gone from the cluster") from error
        except (RayError, RuntimeError, OSError) as error:
            raise LostError(f"gave nothing: {type(error).__name__}") from error


class FarActor:
    """A slot in a process of Ray's."""

    def __init__(self) -> None:
        self._slot: FarSlot | None = None

    def is_there(self) -> bool:
        """It is."""
        return True

    def attempt(self, opening: Opening, work: Work) -> object:
        """What came of a bucket."""
        if self._slot is None:
            self._slot = FarSlot(opening, lambda: True)
        return self._slot.attempt(opening, work)


def _connect(address: str) -> str | None:
    """Connect this process; gives the link to the dashboard. SIGTERM stays with who has it.

    Raises:
        AddressError: no head node answers.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        if address != _AUTO:  # Ray tries for two minutes, then ends the program
            knock(address)
        told: Any = ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError, RayError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise AddressError(said.rstrip(".")) from error
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)
    return f"http://{told.dashboard_url}" if told.dashboard_url else None


@contextmanager
def _asking() -> Generator[None]:
    """What Ray raises where it asks for something is the loss of a slot."""
    try:
        yield
    except (RayError, RuntimeError, OSError) as error:
        raise LostError(f"gave nothing: {type(error).__name__}") from error


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
