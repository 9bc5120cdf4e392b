"""How many lanes a class has, and how many of them if memory is short."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

LaneLoop = Literal["map", "vmap"]

# Lanes of a `map` loop run one after the other: more of them make buckets coarser, fewer add calls.
# So a class has few, and more only if there are so many trials that the calls add up.
_MAP_CAPACITIES = (4, 8, 16)
_MAP_BUCKETS = 32
_CAPACITIES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def capacity_for(lane_loop: LaneLoop, lanes: int, devices: int = 1) -> int:
    """The capacity of a new class that `lanes` trials join at first, on each of `devices`.

    There are only a few capacities, so that programs are reused as the number of trials goes up and
    down. They never depend on threads or workers.
    """
    if lane_loop == "map":
        fitting = (capacity for capacity in _MAP_CAPACITIES if capacity * _MAP_BUCKETS >= lanes)
        return next(fitting, _MAP_CAPACITIES[-1])
    each = math.ceil(lanes / devices)
    return next((capacity for capacity in _CAPACITIES if capacity >= each), _CAPACITIES[-1])


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The largest capacity of a class that fits on this kind of device with this much memory.

    `limit_bytes` is the memory that a program may use there; None if it is not known.
    """

    device: str
    limit_bytes: int | None
    capacity: int


def lowest(ceilings: Iterable[Ceiling | None]) -> Ceiling | None:
    """The ceiling with the smallest capacity, which is valid for all; None if there are none."""
    found = [ceiling for ceiling in ceilings if ceiling is not None]
    return min(found, key=lambda ceiling: ceiling.capacity, default=None)


def halve(capacity: int, members: int) -> int | None:
    """The next smaller capacity, at least one trial's `members`; None if it cannot be smaller."""
    return max(members, capacity // 2) if capacity > members else None
