"""A class of several structures on all devices of this process: who trains which lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec
from numpy.typing import NDArray

from sweeper.programs.segment import Lanes, Parts, Segment
from sweeper.programs.switch import DEVICES, Switch
from sweeper.scheduler.switching import spread


def device_mesh(devices: Sequence[Any]) -> Mesh:
    """These devices of this process, in a row."""
    return Mesh(np.array(devices), (DEVICES,))


def on_each(devices: Sequence[Any]) -> NamedSharding:
    """Where the data lie that every one of `devices` reads: on each of them."""
    return NamedSharding(device_mesh(devices), Spec())


def work_of(program: Switch) -> NDArray[np.float64]:
    """About what an epoch of each branch costs: as much as it has parameters."""
    models = (jax.tree.leaves(branch.abstract().model) for branch in program.branches)
    return np.array([sum(leaf.size for leaf in model) for model in models], np.float64)


@dataclass(frozen=True, slots=True)
class Spread:
    """A compiled `switch_segment`, given lanes in any order and any number up to its capacity.

    They are spread over so many `devices`.
    `work[i]` is what an epoch of branch `i` costs, in no unit: it decides who trains a lane, which
    changes no bit of it.
    """

    run: Callable[[Lanes, Parts], Segment]
    work: NDArray[np.float64]
    devices: int

    def __call__(self, lanes: Lanes, parts: Parts) -> Segment:
        """What came of the lanes, in their own order, in NumPy arrays."""
        epochs = np.asarray(lanes.stop) - np.asarray(lanes.start)
        told: Any = lanes.lane  # a `BranchLane`
        work = epochs * self.work[np.asarray(told.branch)]
        room = _room(len(work), self.devices)
        places = _places(spread(work.tolist(), self.devices), room)
        taken = np.maximum(places, 0)
        given = jax.tree.map(lambda leaf: np.asarray(leaf)[taken], lanes)
        stop = np.where(places < 0, given.start, given.stop)
        found = jax.device_get(self.run(replace(given, stop=stop), parts))
        back = np.argsort(places)[np.sum(places < 0) :]
        return jax.tree.map(lambda leaf: leaf[back], found)


def spread_lanes(lanes: Lanes, mesh: Mesh) -> Lanes:
    """Shapes and dtypes of `lanes` with as many for each device, spread over them."""
    sharding = NamedSharding(mesh, Spec(DEVICES))

    def spread_leaf(leaf: Any) -> jax.ShapeDtypeStruct:
        rows = mesh.size * _room(leaf.shape[0], mesh.size)
        return jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype, sharding=sharding)

    return jax.tree.map(spread_leaf, lanes)


def _room(lanes: int, devices: int) -> int:
    """How many lanes each device has room for.

    Two at least: XLA compiles a loop of one turn as if there were none, to other bits.
    """
    return max(2, math.ceil(lanes / devices))


def _places(lanes: Sequence[Sequence[int]], room: int) -> NDArray[np.int64]:
    """The lane at each place of all devices, one device after the other; -1 where none is."""
    filled = [[*some, *[-1] * (room - len(some))] for some in lanes]
    return np.array(filled, np.int64).ravel()
