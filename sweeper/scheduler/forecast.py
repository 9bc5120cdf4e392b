"""What a study is predicted to cost, and which classes are cheapest for it: its lattice.

A forecast is made once, from the search space, the number of trials and the cost model, and is
recorded. It assumes that trials are drawn at random, without knowledge of results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sweeper.config import Settings, StudyConfig
from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import CoupledTable
from sweeper.config.model import MlpTable, PartsTable, RowModelTable, TabMTable
from sweeper.config.rules import sizes_of_parts
from sweeper.config.search import CategoricalSearch
from sweeper.scheduler.capacity import LaneLoop, capacity_for
from sweeper.scheduler.cost import CostModel, Workload
from sweeper.scheduler.lattice import (
    Cell,
    LatticeClass,
    PaddedSize,
    PartSize,
    Sizes,
    lattice,
    ordered_lattice,
    plain_size,
)
from sweeper.scheduler.population import cells_by_family, chances
from sweeper.scheduler.signature import Structure, canonical, short_hash
from sweeper.scheduler.width_lattice import Prices, width_lattice
from sweeper.trial import Scalar

REST = "other contents"
"""The name of `digest_of_rest` among the digests of a plan file."""


@dataclass(frozen=True, slots=True)
class DataSizes:
    """The properties of the data that affect the cost of a trial.

    `encoded` are the sizes of inputs whose numbers are encoded, by the name of their bins;
    `n_numbers` counts the numbers if networks embed them.
    """

    in_size: int
    out_size: int
    train_rows: int
    val_rows: int
    encoded: Mapping[str, int] = field(default_factory=dict[str, int])
    n_numbers: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """How a machine runs the lanes of a class, `capacity` of them together, and what that costs."""

    costs: CostModel
    lane_loop: LaneLoop
    capacity: int

    def lane_s(self, width: int, padded_depth: int, depth: int, work: Workload) -> float:
        """Seconds to train a lane of this depth in a class of this width and padded depth."""
        return self.costs.lane_s(width, padded_depth, depth, work, self.lane_loop, self.capacity)


@dataclass(frozen=True, slots=True)
class Family:
    """Trials that can share a padded class: what each lane does, and the best classes for them.

    `workloads` is what a lane does in each part. `phases` are compiled into one program; a step
    belongs to one of them. `trials` is how many of them the study is expected to have, and
    `example` has the parameters of one, by column.
    """

    workloads: Mapping[str, Workload]
    phases: int
    trials: float
    example: Mapping[str, Scalar]
    classes: tuple[LatticeClass, ...] = ()

    @property
    def plain(self) -> Workload | None:
        """What a lane of models without parts does; None if they have several parts."""
        return self.workloads.get("")

    @property
    def epochs(self) -> float:
        """The mean number of epochs of a trial."""
        return next(iter(self.workloads.values())).epochs

    def compile_s(self, size: PaddedSize, costs: CostModel) -> float:
        """Seconds to compile a class; every phase has its own backward pass."""
        seconds = [
            costs.compile_s(part.depth, self.workloads[part.name], len(size.run_widths) or 1)
            for part in size.sizes
        ]
        if self.plain is not None:
            return seconds[0]
        base_s = costs.compile_base_s
        return (base_s + sum(each_s - base_s for each_s in seconds)) * (1 + self.phases) / 2

    def lane_s(self, size: PaddedSize, own: Sizes, machine: Machine) -> float:
        """Seconds to train a lane of its `own` sizes, for all its epochs, in a class of this size.

        Counts every MLP with hidden layers in every step, although each phase trains only some of
        them. The costs of other parts are not known.
        """

        def part_s(padded: PartSize, its: PartSize) -> float:
            run_width = next((run for run in size.run_widths if its.width <= run), padded.width)
            work = self.workloads[padded.name]
            return machine.lane_s(run_width, padded.depth, its.depth, work)

        seconds = sum(map(part_s, size.sizes, own))
        if self.plain is None or machine.lane_loop == "vmap":
            return seconds
        (padded,) = size.sizes
        return seconds + machine.costs.carry_s(padded.width, padded.depth, self.plain)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The predicted costs of a study and the lattice of each family, by the family's name.

    `capacity` is the number of lanes that a class is assumed to have, on each of this many
    `devices`: those available when it was made, whatever is available later.
    """

    costs: CostModel
    lane_loop: LaneLoop
    capacity: int
    families: Mapping[str, Family]
    devices: int = 1

    def best_class(self, structure: Structure) -> LatticeClass | None:
        """The class that trains such a trial in the least time; None if padding does not help."""
        family = self._family(structure)
        if family is None:
            return None
        machine = Machine(self.costs, self.lane_loop, self.capacity)
        return min(
            (known for known in family.classes if known.holds(structure.sizes)),
            key=lambda known: family.lane_s(known.padded_size, structure.sizes, machine),
            default=None,
        )

    def epoch_s(self, structure: Structure, size: PaddedSize, capacity: int) -> float | None:
        """Seconds that a trial trains for one epoch in a class of this size, or of its own.

        Under `vmap` it shares the work that is done once for all `capacity` lanes. None if the cost
        of such trials is not known.
        """
        family = self._family(structure)
        if family is None:
            return None
        machine = Machine(self.costs, self.lane_loop, capacity)
        lane_s = family.lane_s(_size_or_own(structure, size), structure.sizes, machine)
        return lane_s / family.epochs

    def compile_s(self, structure: Structure, size: PaddedSize) -> float | None:
        """Seconds to compile the class of such a trial, with an empty compile cache."""
        family = self._family(structure)
        if family is None:
            return None
        return family.compile_s(_size_or_own(structure, size), self.costs)

    def _family(self, structure: Structure) -> Family | None:
        return self.families.get(structure.family or "")

    def train_s(self, n_trials: int) -> float | None:
        """Seconds to train this many trials, drawn like all others; None if that is not known."""
        families = self.families.values()
        trials = sum(family.trials for family in families)
        seconds = sum(known.train_s for family in families for known in family.classes)
        return seconds * n_trials / trials if trials else None

    def as_dict(self) -> dict[str, Any]:
        """The forecast as values for JSON; `from_dict` reads it."""
        plain, of_parts = (
            {
                name: _recorded(family)
                for name, family in self.families.items()
                if (family.plain is not None) == is_plain
            }
            for is_plain in (True, False)
        )
        return {
            "costs": self.costs.as_dict(),
            "lane_loop": self.lane_loop,
            "capacity": self.capacity,
            "families": plain,
            "parts": of_parts,
            "devices": self.devices,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Forecast:
        """The forecast that `as_dict` wrote."""
        families = {**values["families"], **values.get("parts", {})}
        return Forecast(
            CostModel.from_dict(values["costs"]),
            values["lane_loop"],
            values["capacity"],
            {name: _read_family(**family) for name, family in families.items()},
            values.get("devices", 1),
        )


def digest_of_rest(plan: Mapping[str, Any]) -> str:
    """The digest of everything in a plan except its forecast and its digests."""
    rest = {name: value for name, value in plan.items() if name not in ("forecast", "digests")}
    return short_hash(canonical(json.loads(json.dumps(rest, default=str))))


def _size_or_own(structure: Structure, size: PaddedSize) -> PaddedSize:
    """The size of the class of such a trial: `size`, or its own size if the class is exact."""
    return size if size.sizes else PaddedSize(structure.sizes)


# what is recorded of each class: of every model, of one without parts, and of one with parts
_PREDICTED = ("trials", "compile_s", "train_s", "exact_train_s", "structures")
_OF_PLAIN = ("width", "depth", "widths", "depths", *_PREDICTED, "run_widths")
_OF_PARTS = ("sizes", *_PREDICTED, "example")


def _recorded(family: Family) -> dict[str, Any]:
    """The family as recorded in plans and ledgers, where models with parts have other fields."""
    names = _OF_PARTS if family.plain is None else _OF_PLAIN
    classes = tuple({name: getattr(known, name) for name in names} for known in family.classes)
    if family.plain is None:
        works = {name: asdict(work) for name, work in family.workloads.items()}
        of_all = {"workloads": works, "phases": family.phases, "trials": family.trials}
        return {**of_all, "classes": classes}
    of_one = {"workload": asdict(family.plain), "trials": family.trials}
    return {**of_one, "example": family.example, "classes": classes}


def _read_family(
    *,
    workload: Mapping[str, Any] | None = None,
    workloads: Mapping[str, Mapping[str, Any]] | None = None,
    phases: int = 1,
    trials: float,
    example: Mapping[str, Scalar] | None = None,
    classes: Iterable[Mapping[str, Any]],
) -> Family:
    every: Mapping[str, Any] = workloads or {"": workload}
    works = {name: _read_workload(**work) for name, work in every.items()}
    return Family(
        works, phases, trials, example or {}, tuple(_read_class(**one) for one in classes)
    )


def _read_workload(*, embedding: Iterable[int] = (0, 0, 0), **entry: Any) -> Workload:
    return Workload(**entry, embedding=tuple(embedding))


def _read_class(
    *, width: int = 0, depth: int = 0, sizes: Iterable[Iterable[Any]] = (), **entry: Any
) -> LatticeClass:
    padded = tuple(PartSize(*size) for size in sizes) or plain_size(width, depth)
    spans = {name: tuple(entry.pop(name, ())) for name in ("widths", "depths", "run_widths")}
    return LatticeClass(sizes=padded, **spans, **entry)


def forecast(
    config: StudyConfig,
    data: DataSizes,
    costs: CostModel,
    lane_loop: LaneLoop,
    traced: Mapping[str, Sequence[Scalar]],
    n_trials: int,
    devices: int = 1,
) -> Forecast:
    """The forecast of a study of `n_trials` trials on `data`, on this many `devices`.

    `traced` are structural settings that are passed to programs at run time.
    """
    at_once = min(n_trials, config.parallel) * len(config.members)
    machine = Machine(costs, lane_loop, capacity_for(lane_loop, at_once, devices))
    families: dict[str, Family] = {}
    for name, cells in cells_by_family(config, traced, n_trials).items():
        settings = config.settings_of(cells[0].example)
        works = _workloads(config, settings, data, traced)
        trials = sum(cell.trials for cell in cells)
        example = cells[0].example if "" in works else dict[str, Scalar]()
        family = Family(works, _phases(settings), trials, example)
        families[name] = replace(family, classes=_lattice(cells, family, machine))
    return Forecast(costs, lane_loop, machine.capacity, families, devices)


def _lattice(cells: Sequence[Cell], family: Family, machine: Machine) -> tuple[LatticeClass, ...]:
    """The best classes for these cells on this machine."""
    work, costs = family.plain, machine.costs
    if work is None:
        return ordered_lattice(
            cells,
            lambda sizes: family.compile_s(PaddedSize(sizes), costs),
            lambda sizes, own: family.lane_s(PaddedSize(sizes), own, machine),
        )

    def lane_s(width: int, padded_depth: int, depth: int) -> float:
        return machine.lane_s(width, padded_depth, depth, work)

    if machine.lane_loop == "vmap":  # each lane would compute all widths
        return lattice(cells, lambda _, depth: costs.compile_s(depth, work), lane_s)
    prices = Prices(
        compile_s=lambda depth, widths: costs.compile_s(depth, work, widths),
        lane_s=lambda width, depth: lane_s(width, depth, depth),
        carry_s=lambda width, depth: costs.carry_s(width, depth, work),
    )
    return width_lattice(cells, prices)


def _workloads(
    config: StudyConfig,
    settings: Settings,
    data: DataSizes,
    traced: Mapping[str, Sequence[Scalar]],
) -> dict[str, Workload]:
    """What a lane does in each part of the model of a trial with `settings`."""
    model, train = settings.model, settings.train
    if not isinstance(model, PartsTable):
        return {"": workload_of(config, settings, data, traced)}
    assert isinstance(train, AlternatingTable | CoupledTable)
    whole = workload_of(config, settings, data, traced)
    found: dict[str, Workload] = {}
    sizes = sizes_of_parts(model, train, data.in_size, data.out_size)
    for name, (in_size, out_size) in sizes.items():
        its, part = settings.of_part(name), model.parts[name]
        runs = train.runs_of(name) if isinstance(train, CoupledTable) else 1
        found[name] = replace(
            whole,
            in_size=in_size,
            out_size=out_size,
            batch_size=runs * whole.batch_size,
            layer_norm=isinstance(part, MlpTable) and part.layer_norm,
            dropout=its.has("model.dropout"),
            optimizer_slots=its.sole_optimizer.slots + _kept_weights(settings),
        )
    return found


def _phases(settings: Settings) -> int:
    train = settings.train
    return len(train.by_phase) if isinstance(train, AlternatingTable) else 1


def traced_structure(config: StudyConfig, lane_loop: LaneLoop) -> dict[str, Sequence[Scalar]]:
    """Structural settings that are passed to this study's programs at run time, with all values.

    Under `map` a lane runs one branch; under `vmap` every lane would compute all of them.
    """
    if config.trial is not None:
        return dict(config.trial.program.traced)
    if lane_loop != "map":
        return {}
    keys = [key for key in _lengths(config) if config.entry(key) is not None]
    activation = config.entry("model.activation")
    is_traced = config.train.is_padded and config.has_plain_mlps
    if isinstance(activation, CategoricalSearch) and is_traced:
        keys.append("model.activation")
    return {key: config.drawn_values(key) or () for key in keys}


def _lengths(config: StudyConfig) -> Iterator[str]:
    """The settings that determine how long phases are."""
    if isinstance(config.train, AlternatingTable):
        yield from (f"train.{key}" for key in config.train.lengths)


def workload_of(
    config: StudyConfig,
    settings: Settings,
    data: DataSizes,
    traced: Mapping[str, Sequence[Scalar]],
) -> Workload:
    """What a lane of a trial with `settings` does, if its model has no parts."""
    train, model = settings.train, settings.model
    epochs = config.entry("train.epochs")
    mean = train.epochs
    if epochs is not None:
        mean = sum(float(value) * chance for value, chance in chances(epochs).items())
    in_size, embedding = data.in_size, (0, 0, 0)
    if isinstance(model, RowModelTable) and model.numbers == "plr":
        embedding = data.n_numbers, model.n_frequencies, model.embedding_size
        in_size += data.n_numbers * (model.embedding_size - 1)
    elif isinstance(model, RowModelTable) and model.encoded_by is not None:
        in_size = data.encoded[model.encoded_by]
    return Workload(
        in_size=in_size,
        out_size=data.out_size,
        batch_size=train.batch_size,
        steps=max(1, data.train_rows // train.batch_size),
        epochs=float(mean) * len(config.members),
        val_rows=data.val_rows,
        layer_norm=isinstance(model, MlpTable) and model.layer_norm,
        dropout=settings.has("model.dropout"),
        n_activations=len(traced.get("model.activation", ("",))),
        optimizer_slots=settings.optimizer.slots + _kept_weights(settings),
        bytes_per_number=8 if config.execution.precision == "float64" else 4,
        ensemble_size=model.ensemble_size if isinstance(model, TabMTable) else 0,
        embedding=embedding,
    )


def _kept_weights(settings: Settings) -> int:
    """How many copies of the weights a lane has besides those in training: averaged, and best."""
    return settings.has("train.ema") + (settings.keeps is not None)
