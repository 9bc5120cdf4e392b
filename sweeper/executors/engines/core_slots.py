"""Assigns the cores of a host to the slots of its workers, which come and go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sweeper.executors.engines.engine import ClusterWorker


@dataclass(frozen=True, slots=True)
class Seat:
    """Number `turn` of the slots on `host` that see the same `gpus`; `cores` from `first_core`."""

    host: str
    gpus: str
    turn: int
    first_core: int
    cores: int


class CoreSlots:
    """Assigns each slot the first free seat, until it is returned.

    A worker that comes back under its name before its old slot was returned keeps the old seat.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, Seat]] = {}

    def take(self, key: str, worker: ClusterWorker, gpus: str) -> Seat:
        """A seat for the slot of a worker with this key, on a host where it sees these `gpus`."""
        _, seat = self._held.pop(worker.name, ("", None))
        alike = worker.host, gpus, worker.cores
        if seat is None or (seat.host, seat.gpus, seat.cores) != alike:
            seat = self._free(worker, gpus)
        self._held[worker.name] = key, seat
        return seat

    def give_back(self, key: str, worker: ClusterWorker) -> None:
        """Free the seat of a slot, unless another slot already has it."""
        holder, _ = self._held.get(worker.name, ("", None))
        if holder == key:
            del self._held[worker.name]

    def _free(self, worker: ClusterWorker, gpus: str) -> Seat:
        there = [seat for _, seat in self._held.values() if seat.host == worker.host]
        turns = {seat.turn for seat in there if seat.gpus == gpus}
        turn = next(turn for turn in range(len(turns) + 1) if turn not in turns)
        return Seat(worker.host, gpus, turn, _first_core(there, worker.cores), worker.cores)


def _first_core(taken: Iterable[Seat], cores: int) -> int:
    """The first core from which enough cores are free."""
    first = 0
    for seat in sorted(taken, key=lambda seat: seat.first_core):
        if seat.first_core >= first + cores:
            break
        first = max(first, seat.first_core + seat.cores)
    return first
