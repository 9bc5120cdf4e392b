"""Switch classes: programs of several structures, of which each lane runs its own as a branch.

Their lanes are distributed over the devices of a process, and run one after the other on each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sweeper.scheduler.capacity import capacity_for
from sweeper.scheduler.classes import Policy, ProgramClass
from sweeper.scheduler.lattice import EXACT
from sweeper.scheduler.signature import Structure, StructureOf, canonical, may_draw
from sweeper.trial import Scalar, TrialSpec

# compiling takes seconds per branch, one after the other: more structures go to more classes
MAX_BRANCHES = 16

_BATCH_SIZE = "train.batch_size"


@dataclass(frozen=True, slots=True)
class Branch:
    """A structure, and the parameters of a trial that has it."""

    structure: Structure
    params: Mapping[str, Scalar]


def switch_classes(
    specs: Iterable[TrialSpec],
    known: Iterable[ProgramClass],
    structure_of: StructureOf,
    policy: Policy,
) -> dict[str, ProgramClass]:
    """The switch class for each structure of the new trials `specs`, by the settings compiled in.

    This is a `known` class that has the structure, else the class of the whole space if that has
    few structures, else a new class of the structures that no class has yet. New classes have no
    capacity yet. Empty if the strategy is not switch.
    """
    if policy.switching is None:
        return {}
    found: dict[str, ProgramClass] = {}
    for program in known:
        if program.strategy == "switch":
            found = dict.fromkeys(branch_settings(program), program) | found
    space = [_branch(params, structure_of) for params in policy.switching.space]
    lacking = [_branch(spec.params, structure_of) for spec in specs]
    lacking = [branch for branch in lacking if branch.structure.program not in found]
    in_space = {branch.structure.program for branch in space}
    wanted = [branch for branch in lacking if branch.structure.program not in in_space]
    made = [_class(group, policy) for group in _groups(wanted)]
    made += [_class(group, policy) for group in _alike(space)]
    for program in made:
        found = dict.fromkeys(branch_settings(program), program) | found
    return found


def branch_settings(program: ProgramClass) -> tuple[str, ...]:
    """What each branch of a switch class compiles in, as in the structures of its trials."""
    return tuple(map(canonical, json.loads(program.settings)))


def branch_classes(program: ProgramClass) -> tuple[ProgramClass, ...]:
    """The branches of a switch class as separate classes; each trains the same, bit for bit."""
    return tuple(
        replace(
            program,
            class_id=f"{program.class_id}-{place}",
            settings=settings,
            strategy="exact",
            branches=(),
        )
        for place, settings in enumerate(branch_settings(program))
    )


def capacity_of(policy: Policy) -> int:
    """The capacity of a switch class: all lanes that train at a time, on any number of devices.

    An empty lane takes no time, and one call distributes its lanes more evenly than several calls.
    """
    assert policy.switching is not None, "called only if the strategy is switch"
    return capacity_for("vmap", policy.switching.lanes)


def spread(work: Sequence[float], devices: int) -> tuple[tuple[int, ...], ...]:
    """The lanes of each device, by index: the longest first, to the device with the least work.

    No device has more lanes than its capacity: an even share, rounded up.
    """
    room = math.ceil(len(work) / devices)
    lanes: list[list[int]] = [[] for _ in range(devices)]
    busy = [0.0] * devices
    for lane in sorted(range(len(work)), key=lambda lane: (-work[lane], lane)):
        free = (device for device in range(devices) if len(lanes[device]) < room)
        device = min(free, key=lambda device: (busy[device], device))
        lanes[device].append(lane)
        busy[device] += work[lane]
    return tuple(map(tuple, lanes))


def longest_s(lane_s: Sequence[float], devices: int) -> float:
    """Seconds until the last device is done with lanes that take this long each."""
    return max(sum(lane_s[lane] for lane in lanes) for lanes in spread(lane_s, devices))


def _branch(params: Mapping[str, Scalar], structure_of: StructureOf) -> Branch:
    return Branch(structure_of(TrialSpec(0, params, {}, 0)), params)


def _groups(branches: Sequence[Branch]) -> Iterator[list[Branch]]:
    """The branches of each new class: those that are alike, few enough to compile in time."""
    for alike in _alike(branches):
        size = math.ceil(len(alike) / math.ceil(len(alike) / MAX_BRANCHES))
        for start in range(0, len(alike), size):
            yield alike[start : start + size]


def _alike(branches: Sequence[Branch]) -> Iterator[list[Branch]]:
    """Each structure once, the largest first, grouped by what the lanes of a program share.

    These are the rows of a step, and how it is compiled, which depends on whether it draws numbers.
    """
    first: dict[str, Branch] = {}
    for branch in branches:
        first.setdefault(branch.structure.program, branch)
    ordered = sorted(first.values(), key=lambda b: (-b.structure.n_parameters, b.structure.program))
    alike: dict[object, list[Branch]] = {}
    for branch in ordered:
        compiled = branch.structure.program
        shared = json.loads(compiled).get(_BATCH_SIZE), may_draw(compiled)
        alike.setdefault(shared, []).append(branch)
    yield from alike.values()


def _class(branches: Sequence[Branch], policy: Policy) -> ProgramClass:
    """A new class of these branches, without name and capacity."""
    structures = [branch.structure for branch in branches]
    compiling = [policy.forecast.compile_s(structure, EXACT) for structure in structures]
    return ProgramClass(
        class_id="",
        settings=f"[{','.join(structure.program for structure in structures)}]",
        strategy="switch",
        lane_loop="map",
        capacity=1,
        precision=policy.precision,
        predicted_compile_s=None if None in compiling else sum(s for s in compiling if s),
        cached_s=policy.forecast.costs.compile_cached_s,
        branches=tuple(branch.params for branch in branches),
    )
