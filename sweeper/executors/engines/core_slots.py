"""Assigns the cores of a host to the slots of its workers, which come and go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sweeper.executors.engines.engine import ClusterWorker


@dataclass(frozen=True, slots=True)
class HostShare:
    """Number `turn` of the slots on `host` that see the same `gpus`; `cores` from `first_core`."""

    host: str
    gpus: str
    turn: int
    first_core: int
    cores: int


class CoreSlots:
    """Assigns each slot the first free share, until it is returned.

    A worker that comes back under its name before its old slot was returned keeps the old share.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, HostShare]] = {}

    def take(self, key: str, worker: ClusterWorker, gpus: str) -> HostShare:
        """A share for the slot of a worker with this key, on a host where it sees these `gpus`."""
        _, share = self._held.pop(worker.name, ("", None))
        alike = worker.host, gpus, worker.cores
        if share is None or (share.host, share.gpus, share.cores) != alike:
            share = self._free(worker, gpus)
        self._held[worker.name] = key, share
        return share

    def give_back(self, key: str, worker: ClusterWorker) -> None:
        """Free the share of a slot, unless another slot already has it."""
        holder, _ = self._held.get(worker.name, ("", None))
        if holder == key:
            del self._held[worker.name]

    def _free(self, worker: ClusterWorker, gpus: str) -> HostShare:
        there = [share for _, share in self._held.values() if share.host == worker.host]
        turns = {share.turn for share in there if share.gpus == gpus}
        turn = next(turn for turn in range(len(turns) + 1) if turn not in turns)
        return HostShare(worker.host, gpus, turn, _first_core(there, worker.cores), worker.cores)


def _first_core(taken: Iterable[HostShare], cores: int) -> int:
    """The first core from which enough cores are free."""
    first = 0
    for share in sorted(taken, key=lambda share: share.first_core):
        if share.first_core >= first + cores:
            break
        first = max(first, share.first_core + share.cores)
    return first
