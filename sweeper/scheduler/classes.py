"""The nouns of planning: classes, lanes, buckets and a round's plan, and the names of classes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
    """A compiled program that trials share, fixed for good when it is first planned.

    `settings` are the structural hyperparameters compiled into it, as JSON; those of a padded
    class leave out width and depth, which are its own: each lane runs at the least of its
    `run_widths` that holds it, where it has several. Of a model of parts `padded_parts` says
    those of each, and width and depth are those of the widest and the deepest. Those of a switch
    class are an array with the ones of each branch; `branches` are parameters, by column, of a
    trial of each. `cached_s` is what loading it from the compile cache is predicted to take,
    instead of `predicted_compile_s`.
    """

    class_id: str
    settings: str
    strategy: Strategy
    lane_loop: LaneLoop
    capacity: int
    precision: str
    padded_width: int | None = None
    padded_depth: int | None = None
    run_widths: tuple[int, ...] = ()
    padded_parts: str = ""
    predicted_compile_s: float | None = None
    cached_s: float | None = None
    branches: tuple[Mapping[str, Scalar], ...] = ()

    @property
    def room(self) -> PaddedSize:
        """What it is padded to."""
        if self.padded_width is None or self.padded_depth is None:
            return EXACT
        sizes = sizes_in(self.padded_parts) or plain_size(self.padded_width, self.padded_depth)
        return PaddedSize(sizes, self.run_widths)


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
    """Trials that one compiled program trains together in one round.

    `lanes[i]` is the lane of the trial, or the lanes of all its members side by side.

    `waste_fraction` is the part of its work that goes into padding and empty lanes; both
    predictions are None where the cost of such models is not known.
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
    """One round: the classes it adds, and its buckets, the longest first."""

    classes: tuple[ProgramClass, ...] = ()
    buckets: tuple[Bucket, ...] = ()

    def in_workers(self) -> Plan:
        """The same plan with every bucket in a worker, which gives what a thread gives."""
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
    """What the study and the machine fix about switch classes.

    `space` are parameters of a trial of each structure, none where the space has too many of them
    for one class. At most `lanes` train at a time, on `devices`, which change what is predicted
    and nothing else.
    """

    space: tuple[Mapping[str, Scalar], ...]
    lanes: int
    devices: int = 1


@dataclass(frozen=True, slots=True)
class Policy:
    """What the study and the machine's backend fix about planning.

    `trials_a_structure` is how many trials of one structure the whole study can expect, by kind of
    model; `stops` are the epochs, ascending, at which a round may end. A trial takes `members`
    lanes of one bucket; `given` is the class of all trials, where the study file says which;
    `switching` is there where the strategy is switch.
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


_LISTED = 4  # values of a setting that a name still has one by one


def class_name(program: ProgramClass, search: Mapping[str, SearchEntry]) -> str:
    """The strategy of a class, and what it compiles in of what its study searches.

    Such as `exact depth=2 width=64`; of a padded class the largest that it holds,
    `padded depth<=4 width<=64`. Two classes can be called the same, their lanes being different.
    """
    names = {key: entry.column(key) for key, entry in search.items()}
    words: list[str] = [program.strategy]
    branches: list[dict[str, Any]] = [json.loads(program.settings or "{}")]
    if program.strategy == "switch":
        branches = json.loads(program.settings)
        words.append(f"of {len(branches)} structures")
    words += _room(program)
    for key, name in names.items():
        # a setting with several values in one branch is told to the program at run time
        values = [branch[key] for branch in branches if not isinstance(branch.get(key, []), list)]
        words += [f"{name}={_shown(values)}"] if values else []
    return " ".join(words)


def _room(program: ProgramClass) -> list[str]:
    """What a padded class has room for, of a model of parts as width by depth of each."""
    if program.padded_parts:
        return program.padded_parts.replace("=", "<=").split(",")
    if program.padded_width is None:
        return []
    return [f"depth<={program.padded_depth}", f"width<={program.padded_width}"]


def _shown(values: Sequence[Scalar]) -> str:
    """The one value that all have, or all that there are."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        low, high = min(values), max(values)  # type: ignore[type-var]
        return str(low) if low == high else f"{low}..{high}"
    told = [str(value) for value in dict.fromkeys(values)]
    return "|".join(told) if len(told) <= _LISTED else f"{len(told)} values"
