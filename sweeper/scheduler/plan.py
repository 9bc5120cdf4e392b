"""The plan of one round: which trials train together, in which program, on which side.

`plan` is a pure function of values and gives a value: it can be printed, compared and stored. It
decides *which program* a trial gets; threads and workers only take buckets from it in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sweeper.scheduler.capacity import capacity_for
from sweeper.scheduler.signature import Structure, StructureOf, short_hash
from sweeper.trial import TrialSpec

Strategy = Literal["exact", "process"]
LaneLoop = Literal["map", "vmap"]


@dataclass(frozen=True, slots=True)
class ProgramClass:
    """A compiled program that trials share, fixed for good when it is first planned."""

    class_id: str
    structure_id: str
    settings: str
    strategy: Strategy
    lane_loop: LaneLoop
    capacity: int
    precision: str
    n_parameters: int


@dataclass(frozen=True, slots=True)
class LiveTrial:
    """A trial in training: how far it is, where its state lies, and the class it belongs to.

    `class_id` is empty until the trial is first planned, `checkpoint` until it has trained.
    """

    spec: TrialSpec
    epochs: int
    epochs_done: int = 0
    class_id: str = ""
    checkpoint: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """One trial's part in a bucket: train from the end of `epoch_from` to the end of `epoch_to`."""

    number: int
    epoch_from: int
    epoch_to: int
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """Trials that one compiled program trains together in one round; `lanes[i]` is lane `i`."""

    bucket: int
    class_id: str
    side: Literal["inline", "process"]
    lanes: tuple[Lane, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The trials, in lane order."""
        return tuple(lane.number for lane in self.lanes)


@dataclass(frozen=True, slots=True)
class Plan:
    """One round: the classes it adds, and its buckets, the longest first."""

    classes: tuple[ProgramClass, ...] = ()
    buckets: tuple[Bucket, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-able values; `from_dict` reads it back."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Plan:
        """The plan that `as_dict` wrote."""
        return Plan(
            tuple(ProgramClass(**entry) for entry in values["classes"]),
            tuple(_bucket(**entry) for entry in values["buckets"]),
        )


def _bucket(*, lanes: Iterable[Mapping[str, Any]], **entry: Any) -> Bucket:
    return Bucket(lanes=tuple(Lane(**lane) for lane in lanes), **entry)


@dataclass(frozen=True, slots=True)
class Policy:
    """What the study and the machine's backend fix about planning.

    `trials_a_structure` is how many trials of one structure the whole study can expect; `stops`
    are the epochs, ascending, at which a round may end.
    """

    strategy: Literal["auto", "exact", "process"]
    lane_loop: LaneLoop
    precision: str
    trials_a_structure: float
    stops: tuple[int, ...] = field(default=())

    def next_stop(self, trial: LiveTrial) -> int:
        """The epoch to which `trial` trains in the next round."""
        ahead = (stop for stop in self.stops if trial.epochs_done < stop < trial.epochs)
        return next(ahead, trial.epochs)


def plan(
    live: Sequence[LiveTrial],
    classes: Iterable[ProgramClass],
    structure_of: StructureOf,
    policy: Policy,
) -> Plan:
    """The next round for the trials `live`, of which those with a class keep it."""
    by_id = {known.class_id: known for known in classes}
    placed, added = _classify(live, by_id, structure_of, policy)
    by_id |= {new.class_id: new for new in added}
    buckets = [
        bucket
        for class_id, members in _by_class(placed).items()
        for bucket in _cut(members, by_id[class_id], policy)
    ]
    buckets.sort(key=lambda bucket: (-_work(bucket, by_id[bucket.class_id]), bucket.numbers))
    numbered = (replace(bucket, bucket=index) for index, bucket in enumerate(buckets))
    return Plan(tuple(added), tuple(numbered))


def _classify(
    live: Sequence[LiveTrial],
    by_id: Mapping[str, ProgramClass],
    structure_of: StructureOf,
    policy: Policy,
) -> tuple[list[LiveTrial], list[ProgramClass]]:
    """`live` with a class each, and the classes that had to be made for it."""
    structures = {trial.spec.number: structure_of(trial.spec) for trial in live}
    shared = {(known.structure_id, known.strategy): known for known in by_id.values()}
    company: dict[object, int] = {}
    for structure in structures.values():
        company[structure.signature] = company.get(structure.signature, 0) + 1
    placed: list[LiveTrial] = []
    added: list[ProgramClass] = []
    for trial in live:
        if not trial.class_id:
            structure = structures[trial.spec.number]
            lanes = company[structure.signature]
            strategy = _strategy(structure, lanes, shared, policy)
            key = (structure.structure_id, strategy)
            if key not in shared:
                shared[key] = _new_class(structure, strategy, lanes, policy)
                added.append(shared[key])
            trial = replace(trial, class_id=shared[key].class_id)
        placed.append(trial)
    return placed, added


def _strategy(
    structure: Structure,
    lanes: int,
    shared: Mapping[tuple[str, str], ProgramClass],
    policy: Policy,
) -> Strategy:
    """`auto` shares a program where another trial has, or is likely to have, the structure."""
    if policy.strategy != "auto":
        return policy.strategy
    has_company = lanes > 1 or policy.trials_a_structure >= 2
    return "exact" if has_company or (structure.structure_id, "exact") in shared else "process"


def _new_class(
    structure: Structure, strategy: Strategy, lanes: int, policy: Policy
) -> ProgramClass:
    loop: LaneLoop = "map" if strategy == "process" else policy.lane_loop
    capacity = 1 if strategy == "process" else capacity_for(loop, lanes)
    return ProgramClass(
        class_id=short_hash(structure.settings, strategy, loop, capacity, policy.precision),
        structure_id=structure.structure_id,
        settings=structure.settings,
        strategy=strategy,
        lane_loop=loop,
        capacity=capacity,
        precision=policy.precision,
        n_parameters=structure.n_parameters,
    )


def _by_class(placed: Iterable[LiveTrial]) -> dict[str, list[LiveTrial]]:
    members: dict[str, list[LiveTrial]] = {}
    for trial in placed:
        members.setdefault(trial.class_id, []).append(trial)
    return members


def _cut(members: Sequence[LiveTrial], program: ProgramClass, policy: Policy) -> Iterable[Bucket]:
    """The members of one class in buckets of its capacity, in number order."""
    lanes = [
        Lane(trial.spec.number, trial.epochs_done, policy.next_stop(trial), trial.checkpoint)
        for trial in sorted(members, key=lambda trial: trial.spec.number)
    ]
    side = "process" if program.strategy == "process" else "inline"
    for start in range(0, len(lanes), program.capacity):
        yield Bucket(0, program.class_id, side, tuple(lanes[start : start + program.capacity]))


def _work(bucket: Bucket, program: ProgramClass) -> int:
    """Epochs times parameters: the size of a bucket against others of the same data."""
    epochs = sum(lane.epoch_to - lane.epoch_from for lane in bucket.lanes)
    return epochs * program.n_parameters
