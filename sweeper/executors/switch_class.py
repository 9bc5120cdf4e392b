"""Trains a class of several structures on all devices of this process.

If it cannot be compiled, its structures are trained one by one, so that only the faulty one fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec
from numpy.typing import NDArray

from sweeper.executors.executor import Work
from sweeper.programs.segment import DeviceData, Lanes, Segment
from sweeper.programs.switch import DEVICES, Switch
from sweeper.scheduler.classes import ProgramClass
from sweeper.scheduler.switching import spread


def device_mesh(devices: Sequence[Any]) -> Mesh:
    """The mesh of these devices of this process, in a row."""
    return Mesh(np.array(devices), (DEVICES,))


def on_each(devices: Sequence[Any]) -> NamedSharding:
    """The sharding of data that every one of `devices` reads: a copy on each."""
    return NamedSharding(device_mesh(devices), Spec())


def work_of(program: Switch) -> NDArray[np.float64]:
    """The approximate cost of an epoch of each branch: its number of parameters."""
    models = (jax.tree.leaves(branch.layout.abstract().model) for branch in program.branches)
    return np.array([sum(leaf.size for leaf in model) for model in models], np.float64)


@dataclass(frozen=True, slots=True)
class SwitchRunner:
    """A compiled `switch_segment` that takes lanes in any order, up to its capacity.

    Lanes are spread over `devices`. `work[i]` is the relative cost of an epoch of branch `i`: it
    decides which device trains a lane, without changing any bit.
    """

    run: Callable[[Lanes, DeviceData], Segment]
    work: NDArray[np.float64]
    devices: int

    def __call__(self, lanes: Lanes, data: DeviceData) -> Segment:
        """The result of the lanes, in their own order, as NumPy arrays."""
        epochs = np.asarray(lanes.stop) - np.asarray(lanes.start)
        branch_lane: Any = lanes.lane  # a `BranchLane`
        work = epochs * self.work[np.asarray(branch_lane.branch)]
        per_device = _lanes_per_device(len(work), self.devices)
        places = _places(spread(work.tolist(), self.devices), per_device)
        taken = np.maximum(places, 0)
        given = jax.tree.map(lambda leaf: np.asarray(leaf)[taken], lanes)
        stop = np.where(places < 0, given.start, given.stop)
        found = jax.device_get(self.run(replace(given, stop=stop), data))
        back = np.argsort(places)[np.sum(places < 0) :]
        return jax.tree.map(lambda leaf: leaf[back], found)


def spread_lanes(lanes: Lanes, mesh: Mesh) -> Lanes:
    """Shapes and dtypes of `lanes`, with equally many for each device."""
    sharding = NamedSharding(mesh, Spec(DEVICES))

    def spread_leaf(leaf: Any) -> jax.ShapeDtypeStruct:
        rows = mesh.size * _lanes_per_device(leaf.shape[0], mesh.size)
        return jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype, sharding=sharding)

    return jax.tree.map(spread_leaf, lanes)


def _lanes_per_device(lanes: int, devices: int) -> int:
    """How many lanes fit on each device.

    At least two, since XLA compiles a loop with one turn as if there were none, with other bits.
    """
    return max(2, math.ceil(lanes / devices))


def _places(lanes: Sequence[Sequence[int]], per_device: int) -> NDArray[np.int64]:
    """The lane at each place of all devices, one device after the other; -1 for empty ones."""
    filled = [[*some, *[-1] * (per_device - len(some))] for some in lanes]
    return np.array(filled, np.int64).ravel()


def split_by_class(work: Work, branches: Sequence[ProgramClass]) -> list[Work]:
    """The lanes of each class, in order; `branches[i]` is the class of lane `i`."""
    classes: Mapping[str, ProgramClass] = {branch.class_id: branch for branch in branches}
    return [_part(work, own, branches) for own in classes.values()]


def _part(work: Work, program: ProgramClass, branches: Sequence[ProgramClass]) -> Work:
    part = work.only(place for place, own in enumerate(branches) if own == program)
    bucket = replace(part.bucket, class_id=program.class_id)
    return replace(part, bucket=bucket, program=program)
