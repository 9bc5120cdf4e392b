"""The terms of planning: classes, lanes, buckets, and the plan of a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sweeper.config.model import ModelKind
from sweeper.config.trial import ClassTable
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.forecast import Forecast
from sweeper.scheduler.lattice import EXACT, PaddedSize, plain_size, sizes_in
from sweeper.trial import Scalar, TrialSpec

Strategy = Literal["exact", "padded", "switch", "process"]


@dataclass(frozen=True, slots=True)
class ProgramClass:
    """A compiled program that trials share; it never changes after it is first planned."""

    class_id: str
    settings: str
    """The structural hyperparameters compiled into it, as JSON. Those of a padded class leave out
    width and depth, which are its own; those of a switch class are an array with those of each
    branch."""
    strategy: Strategy
    lane_loop: LaneLoop
    capacity: int
    precision: str
    padded_width: int | None = None
    """For a model with parts, the width of the widest."""
    padded_depth: int | None = None
    """For a model with parts, the depth of the deepest."""
    run_widths: tuple[int, ...] = ()
    """If there are several, each lane runs at the smallest of them that holds it."""
    padded_parts: str = ""
    """The size of each part of a model with parts."""
    predicted_compile_s: float | None = None
    cached_s: float | None = None
    """The predicted time to load it from the compile cache, instead of `predicted_compile_s`."""
    branches: tuple[Mapping[str, Scalar], ...] = ()
    """The parameters, by column, of one trial per branch of a switch class."""

    @property
    def padded_size(self) -> PaddedSize:
        """The size that it is padded to."""
        if self.padded_width is None or self.padded_depth is None:
            return EXACT
        sizes = sizes_in(self.padded_parts) or plain_size(self.padded_width, self.padded_depth)
        return PaddedSize(sizes, self.run_widths)


@dataclass(frozen=True, slots=True)
class LiveTrial:
    """A trial in training: its progress, the place of its state, and its class.

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
    """Trials that one compiled program trains together in one round.

    `lanes[i]` is the lane of trial `i`, or the lanes of all its members side by side.

    `waste_fraction` is the part of its work that is spent on padding and empty lanes. Both
    predictions are None if the cost of such models is not known.
    """

    bucket: int
    class_id: str
    side: Literal["inline", "process"]
    lanes: tuple[Lane, ...]
    predicted_train_s: float | None = None
    waste_fraction: float | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The trials, in lane order."""
        return tuple(lane.number for lane in self.lanes)


@dataclass(frozen=True, slots=True)
class Plan:
    """One round: the classes that it adds, and its buckets, the longest first."""

    classes: tuple[ProgramClass, ...] = ()
    buckets: tuple[Bucket, ...] = ()

    def in_workers(self) -> Plan:
        """The same plan with every bucket in a worker, which gives the same results as a thread."""
        return replace(self, buckets=tuple(replace(b, side="process") for b in self.buckets))

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-able values; `from_dict` reads it back."""
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Plan:
        """The plan that `as_dict` wrote."""
        return Plan(
            tuple(_program_class(**entry) for entry in values["classes"]),
            tuple(_bucket(**entry) for entry in values["buckets"]),
        )


def _program_class(
    *,
    branches: Iterable[Mapping[str, Scalar]] = (),
    run_widths: Iterable[int] = (),
    **entry: Any,
) -> ProgramClass:
    return ProgramClass(branches=tuple(branches), run_widths=tuple(run_widths), **entry)


def _bucket(*, lanes: Iterable[Mapping[str, Any]], **entry: Any) -> Bucket:
    return Bucket(lanes=tuple(Lane(**lane) for lane in lanes), **entry)


@dataclass(frozen=True, slots=True)
class Switching:
    """What the study and the machine determine about switch classes.

    `space` has the parameters of one trial of each structure; it is empty if the space has too many
    structures for one class. At most `lanes` train at a time, on `devices`, which only affect
    predictions.
    """

    space: tuple[Mapping[str, Scalar], ...]
    lanes: int
    devices: int = 1


@dataclass(frozen=True, slots=True)
class Policy:
    """What the study and the backend of the machine determine about planning.

    `trials_a_structure` is how many trials of one structure the whole study can expect, by kind of
    model; `stops` are the epochs, ascending, at which a round may end. A trial takes `members`
    lanes of one bucket; `given` is the class of all trials, if the study file names it; `switching`
    is set if the strategy is switch.
    """

    strategy: Literal["auto", "exact", "padded", "switch", "process"]
    lane_loop: LaneLoop
    precision: str
    trials_a_structure: Mapping[ModelKind, float]
    forecast: Forecast
    stops: tuple[int, ...] = field(default=())
    members: int = 1
    given: ClassTable | None = None
    switching: Switching | None = None

    def next_stop(self, trial: LiveTrial) -> int:
        """The epoch to which `trial` trains in the next round."""
        ahead = (stop for stop in self.stops if trial.epochs_done < stop < trial.epochs)
        return next(ahead, trial.epochs)
