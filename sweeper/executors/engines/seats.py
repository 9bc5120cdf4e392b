"""What each slot has of its host: a turn at its GPUs, and cores of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sweeper.executors.engines.engine import Member


@dataclass(frozen=True, slots=True)
class Seat:
    """Of those on a `host` that see the same `gpus` number `turn`; `cores` from `first_core` on."""

    host: str
    gpus: str
    turn: int
    first_core: int
    cores: int


class Seats:
    """Gives each slot the first seat that is free, until it is given back.

    Who comes back under its name before its old slot was given back goes on in the old seat.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, Seat]] = {}

    def take(self, key: str, member: Member, gpus: str) -> Seat:
        """A seat for the slot of a member with this key, on a host where it sees these `gpus`."""
        _, seat = self._held.pop(member.name, ("", None))
        alike = member.host, gpus, member.cores
        if seat is None or (seat.host, seat.gpus, seat.cores) != alike:
            seat = self._free(member, gpus)
        self._held[member.name] = key, seat
        return seat

    def give_back(self, key: str, member: Member) -> None:
        """Have the seat of a slot free, unless another has it by now."""
        holder, _ = self._held.get(member.name, ("", None))
        if holder == key:
            del self._held[member.name]

    def _free(self, member: Member, gpus: str) -> Seat:
        there = [seat for _, seat in self._held.values() if seat.host == member.host]
        turns = {seat.turn for seat in there if seat.gpus == gpus}
        turn = next(turn for turn in range(len(turns) + 1) if turn not in turns)
        return Seat(member.host, gpus, turn, _first_core(there, member.cores), member.cores)


def _first_core(taken: Iterable[Seat], cores: int) -> int:
    """The first core from which on so many are free."""
    first = 0
    for seat in sorted(taken, key=lambda seat: seat.first_core):
        if seat.first_core >= first + cores:
            break
        first = max(first, seat.first_core + seat.cores)
    return first
