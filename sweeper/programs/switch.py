"""Several programs in one: each lane takes the branch of its own structure, on its own device.

A lane's state is passed as one vector per dtype, as long as in the longest branch. A branch cuts
its own arrays out of it and trains them like its own program would, without masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec
from jaxtyping import Array, Int, PyTree

from sweeper.config import Settings
from sweeper.programs.program import AnyArray, Layout, OfUse, Program, State, whole
from sweeper.programs.segment import DeviceData, Lanes, Segment, train_lane

Vectors = Mapping[str, AnyArray]
"""One vector per dtype, by the name of the dtype."""


@dataclass(frozen=True)
class Packing:
    """The arrays of a PyTree one after the other, padded with zeros to the longest of `trees`.

    `trees` have a shape and a dtype at each leaf; a PyTree to pack must match one of them.
    """

    trees: tuple[PyTree, ...]

    @property
    def abstract(self) -> Vectors:
        """Shapes and dtypes of packed trees."""
        found: dict[str, Any] = {
            dtype: jax.ShapeDtypeStruct((length,), dtype) for dtype, length in self._lengths.items()
        }
        return found

    def pack(self, tree: PyTree) -> Vectors:
        """`tree` as vectors, in NumPy arrays if its leaves are."""
        leaves = jax.tree.leaves(tree)
        xp: Any = jnp if any(isinstance(leaf, jax.Array) for leaf in leaves) else np
        parts: dict[str, list[AnyArray]] = {dtype: [] for dtype in self._lengths}
        for leaf in leaves:
            parts[_dtype(leaf)].append(xp.ravel(leaf))
        return {
            dtype: xp.concatenate([*some, xp.zeros(length - sum(map(len, some)), dtype)])
            for (dtype, length), some in zip(self._lengths.items(), parts.values(), strict=True)
        }

    def unpack(self, vectors: Vectors, which: int) -> PyTree:
        """The PyTree with the structure of `trees[which]` that is packed in `vectors`."""
        like, structure = jax.tree.flatten(self.trees[which])
        starts = dict.fromkeys(self._lengths, 0)
        leaves: list[AnyArray] = []
        for leaf in like:
            start = starts[_dtype(leaf)]
            stop = starts[_dtype(leaf)] = start + math.prod(leaf.shape)
            leaves.append(vectors[_dtype(leaf)][start:stop].reshape(leaf.shape))
        return jax.tree.unflatten(structure, leaves)

    @cached_property
    def _lengths(self) -> Mapping[str, int]:
        longest: dict[str, int] = {}
        for tree in self.trees:
            own: dict[str, int] = {}
            for leaf in jax.tree.leaves(tree):
                own[_dtype(leaf)] = own.get(_dtype(leaf), 0) + math.prod(leaf.shape)
            longest |= {name: max(size, longest.get(name, 0)) for name, size in own.items()}
        return longest


def _dtype(leaf: Any) -> str:
    return np.dtype(leaf.dtype).name


DEVICES = "devices"
"""The mesh axis over which lanes are spread."""


class BranchLane(eqx.Module):
    """A lane and the index of its branch; `own` is the packed lane of the branch."""

    branch: Int[AnyArray, ""]
    own: Vectors


@dataclass(frozen=True)
class Switch:
    """How trials of several programs, the `branches`, become lanes; see `Layout`.

    `settings` are those of a trial of each; `branch_of` returns the index of a trial's branch.
    """

    branches: tuple[Program, ...]
    settings: tuple[Settings, ...]
    branch_of: Callable[[Settings], int]

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.branches[0].layout.metrics

    @property
    def test_metrics(self) -> tuple[str, ...]:
        return self.branches[0].layout.test_metrics

    def abstract(self) -> Vectors:
        return self.states.abstract

    def init(self, number: int, settings: Settings, replicate: int = 0) -> Vectors:
        return self.states.pack(self._layout_of(settings).init(number, settings, replicate))

    def lane(self, number: int, settings: Settings, replicate: int = 0) -> BranchLane:
        own = self._layout_of(settings).lane(number, settings, replicate)
        return BranchLane(np.array(self.branch_of(settings), np.int32), self.lanes.pack(own))

    def exact_abstract(self, settings: Settings) -> State:
        return self._layout_of(settings).exact_abstract(settings)

    def exact(self, state: Vectors, settings: Settings, of_use: OfUse = whole) -> State:
        own = self.states.unpack(state, self.branch_of(settings))
        return self._layout_of(settings).exact(own, settings, of_use)

    def padded(self, state: State, settings: Settings) -> Vectors:
        return self.states.pack(self._layout_of(settings).padded(state, settings))

    @property
    def layout(self) -> Switch:
        return self

    @property
    def phases(self) -> Mapping[str, Switch]:
        every = [branch.phases for branch in self.branches]
        return {
            name: replace(self, branches=tuple(phases[name] for phases in every))
            for name in every[0]
        }

    @cached_property
    def states(self) -> Packing:
        """How states are packed."""
        return Packing(tuple(program.layout.abstract() for program in self.branches))

    @cached_property
    def lanes(self) -> Packing:
        """How the parameters of lanes are packed."""
        pairs = zip(self.branches, self.settings, strict=True)
        return Packing(tuple(program.layout.lane(0, settings) for program, settings in pairs))

    def _layout_of(self, settings: Settings) -> Layout:
        return self.branches[self.branch_of(settings)].layout


def switch_segment(program: Switch, mesh: Mesh) -> Callable[[Lanes, DeviceData], Segment]:
    """The function to compile for a class of several structures, over the devices of `mesh`.

    Each device trains its equal share of lanes one after the other, and for each lane takes the
    branch of its index, which is a scalar there and not a vector, so that XLA only runs one branch.
    """

    def trained(which: int, lane: Lanes, data: DeviceData) -> Segment:
        packed: Any = lane  # its state is `Vectors`, its lane a `BranchLane`
        own = replace(
            lane,
            state=program.states.unpack(packed.state, which),
            lane=program.lanes.unpack(packed.lane.own, which),
        )
        segment = train_lane(program.branches[which], own, data)
        return replace(segment, state=program.states.pack(segment.state))

    branches = [partial(trained, which) for which in range(len(program.branches))]

    def on_device(lanes: Lanes, data: DeviceData) -> Segment:
        packed: Any = lanes

        def one(at: tuple[Int[Array, ""], Lanes]) -> Segment:
            which, lane = at
            return lax.switch(which, branches, lane, data)

        segment = lax.map(one, (packed.lane.branch, lanes))
        return replace(segment, device=jnp.full_like(lanes.start, lax.axis_index(DEVICES)))

    return jax.shard_map(
        on_device,
        mesh=mesh,
        in_specs=(Spec(DEVICES), Spec()),
        out_specs=Spec(DEVICES),
        check_vma=False,  # devices do not communicate
    )
