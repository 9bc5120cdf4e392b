"""The terms of planning: classes, lanes, buckets, the plan of a round, and the names of classes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sweeper.config.model import ModelKind
from sweeper.config.search import SearchEntry
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


# from here on, programs that hardly any trials share are worth a warning
_MANY_PROGRAMS = 8


def hardly_shared(plan: Plan, strategy: str) -> Iterator[str]:
    """A warning if the first round compiles many programs for few trials without being asked to."""
    count = 0 if strategy == "process" else len(plan.classes)
    trials = {number for bucket in plan.buckets for number in bucket.numbers}
    if count >= _MANY_PROGRAMS and count > len(trials) / 2:
        yield (
            f"{count} programs for the {len(trials)} trials of round 1, because they differ in "
            "settings that change the program: search fewer values of these (step, base), or "
            'write execution.strategy = "switch", or "padded" for an MLP'
        )


# a crash that loses more than this is worth a warning, and how long rounds should take then
_LONG_ROUND_S, _SHORTER_ROUND_S = 1200.0, 600.0


def long_round(plan: Plan, places: int | None) -> Iterator[str]:
    """A warning if a crash could lose much, because a first round takes long.

    `places` is how many buckets train at full speed at the same time; None if not known.
    """
    if places is None:
        return
    each_s = [bucket.predicted_train_s or 0.0 for bucket in plan.buckets]
    round_s = max(sum(each_s) / places, max(each_s, default=0.0))
    lanes = [lane for bucket in plan.buckets for lane in bucket.lanes]
    epochs = max((lane.epoch_to - lane.epoch_from for lane in lanes), default=0)
    if round_s > _LONG_ROUND_S and epochs > 1:
        fewer = max(1, int(epochs * _SHORTER_ROUND_S / round_s))
        yield (
            f"round 1 may take {round_s / 60:.0f} minutes, and a crash would lose all of it; write "
            f"schedule.round_epochs = {fewer} to commit about every {_SHORTER_ROUND_S / 60:.0f} "
            "minutes"
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


_LISTED = 4  # a name lists at most this many values of a setting


def class_name(program: ProgramClass, search: Mapping[str, SearchEntry]) -> str:
    """The strategy of a class, and which of the searched settings it compiles in.

    For example `exact depth=2 width=64`, or for a padded class the largest sizes that it holds:
    `padded depth<=4 width<=64`. Two classes with different lanes can have the same name.
    """
    names = {key: entry.column(key) for key, entry in search.items()}
    words: list[str] = [program.strategy]
    branches: list[dict[str, Any]] = [json.loads(program.settings or "{}")]
    if program.strategy == "switch":
        branches = json.loads(program.settings)
        words.append(f"of {len(branches)} structures")
    words += _size_words(program)
    for key, name in names.items():
        # a setting with several values in one branch is passed to the program at run time
        values = [branch[key] for branch in branches if not isinstance(branch.get(key, []), list)]
        words += [f"{name}={_shown(values)}"] if values else []
    return " ".join(words)


def _size_words(program: ProgramClass) -> list[str]:
    """The sizes that a padded class holds; for a model with parts, width by depth of each part."""
    if program.padded_parts:
        return program.padded_parts.replace("=", "<=").split(",")
    if program.padded_width is None:
        return []
    return [f"depth<={program.padded_depth}", f"width<={program.padded_width}"]


def _shown(values: Sequence[Scalar]) -> str:
    """The one value if all are equal, else all different values."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        low, high = min(values), max(values)  # type: ignore[type-var]
        return str(low) if low == high else f"{low}..{high}"
    texts = [str(value) for value in dict.fromkeys(values)]
    return "|".join(texts) if len(texts) <= _LISTED else f"{len(texts)} values"
