"""What a study is predicted to cost, and the classes that this makes the best: its lattice.

A forecast is made once, from the search space, the number of trials and the cost model, and is
recorded. Trials are expected where a sampler that knows nothing yet would draw them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sweeper.config import Settings, StudyConfig
from sweeper.config.alternating import AlternatingTable
from sweeper.config.search import CategoricalSearch
from sweeper.scheduler.capacity import LaneLoop, capacity_for
from sweeper.scheduler.cost import CostModel, Workload
from sweeper.scheduler.lattice import Cell, LatticeClass, lattice, place
from sweeper.scheduler.parts_forecast import PartsFamily, parts_families
from sweeper.scheduler.parts_lattice import PaddedSize, PartsClass
from sweeper.scheduler.population import cells_of, chances, families_of, merged
from sweeper.scheduler.signature import Structure, family_of
from sweeper.scheduler.width_lattice import Prices, width_lattice
from sweeper.trial import Scalar


@dataclass(frozen=True, slots=True)
class DataSizes:
    """What the cost of a trial depends on in the data."""

    in_size: int
    out_size: int
    train_rows: int
    val_rows: int


@dataclass(frozen=True, slots=True)
class Family:
    """Trials that padding can bring together: what each lane does, and the best classes for them.

    `trials` are those that the study is expected to have of it, `example` the parameters of one,
    by column.
    """

    workload: Workload
    trials: float
    example: Mapping[str, Scalar]
    classes: tuple[LatticeClass, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The predicted costs of a study and the lattice of each family, by the family's name.

    `parts` are the families of models of several parts. `capacity` is the number of lanes that a
    class is reckoned with, on each of so many `devices`: those that there were when it was made,
    however many there are later.
    """

    costs: CostModel
    lane_loop: LaneLoop
    capacity: int
    families: Mapping[str, Family]
    parts: Mapping[str, PartsFamily] = field(default_factory=dict[str, PartsFamily])
    devices: int = 1

    def best_class(self, structure: Structure) -> LatticeClass | PartsClass | None:
        """The class that trains such a trial in the least time; None where padding is of no use."""
        of_parts = self.parts.get(structure.family or "")
        if of_parts is not None:
            how = self.costs, self.lane_loop, self.capacity
            return of_parts.best_class(structure.sizes, *how)
        family = self.families.get(structure.family or "")
        if family is None or structure.width is None or structure.depth is None:
            return None

        def trial_s(known: LatticeClass, width: int, depth: int) -> float:
            return self._trial_s(family.workload, width, depth, room_in(known), self.capacity)

        return family.classes[place(structure.width, structure.depth, family.classes, trial_s)]

    def epoch_s(self, structure: Structure, room: PaddedSize, capacity: int) -> float | None:
        """Seconds that a trial trains for one epoch in a class with this room, or of its own size.

        Under `vmap` it shares with others what is done once for all lanes, `capacity` of them.
        None where nothing is known of such trials.
        """
        of_parts = self.parts.get(structure.family or "")
        if of_parts is not None and structure.sizes:
            parts, own = room.parts or structure.sizes, structure.sizes
            lane_s = of_parts.lane_s(parts, own, self.costs, self.lane_loop, capacity)
            return lane_s / next(iter(of_parts.workloads.values())).epochs
        family = self.families.get(structure.family or "")
        if family is None or structure.width is None or structure.depth is None:
            return None
        work = family.workload
        trial_s = self._trial_s(work, structure.width, structure.depth, room, capacity)
        return trial_s / work.epochs

    def compile_s(self, structure: Structure, room: PaddedSize) -> float | None:
        """Seconds to compile the class of such a trial, with nothing in the compile cache."""
        of_parts = self.parts.get(structure.family or "")
        if of_parts is not None and structure.sizes:
            return of_parts.compile_s(room.parts or structure.sizes, self.costs)
        family = self.families.get(structure.family or "")
        if family is None or structure.depth is None:
            return None
        depth, widths = room.depth or structure.depth, len(room.run_widths) or 1
        return self.costs.compile_s(depth, family.workload, widths)

    def train_s(self, n_trials: int) -> float | None:
        """Seconds to train so many trials, drawn as all are; None where nothing is known."""
        families = (*self.families.values(), *self.parts.values())
        trials = sum(family.trials for family in families)
        seconds = sum(block.train_s for family in families for block in family.classes)
        return seconds * n_trials / trials if trials else None

    def as_dict(self) -> dict[str, Any]:
        """The forecast as JSON-able values; `from_dict` reads it back."""
        return {
            "costs": self.costs.as_dict(),
            "lane_loop": self.lane_loop,
            "capacity": self.capacity,
            "families": {name: asdict(family) for name, family in self.families.items()},
            "parts": {name: asdict(family) for name, family in self.parts.items()},
            "devices": self.devices,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Forecast:
        """The forecast that `as_dict` wrote."""
        families = {name: _family(**family) for name, family in values["families"].items()}
        costs = CostModel.from_dict(values["costs"])
        parts = {name: _parts_family(**family) for name, family in values.get("parts", {}).items()}
        of_classes = values["lane_loop"], values["capacity"], families, parts
        return Forecast(costs, *of_classes, values.get("devices", 1))

    def _trial_s(
        self, workload: Workload, width: int, depth: int, room: PaddedSize, capacity: int
    ) -> float:
        """Seconds of a trial of this size in a class with such room, or in one of its own."""
        how = workload, self.lane_loop, capacity
        deepest = room.depth or depth
        lane_s = self.costs.lane_s(room.run_width(width), deepest, depth, *how)
        if self.lane_loop == "vmap":
            return lane_s
        return lane_s + self.costs.carry_s(room.width or width, deepest, workload)


def room_in(known: LatticeClass) -> PaddedSize:
    """The room that a class of the lattice has."""
    return PaddedSize(known.width, known.depth, run_widths=known.run_widths)


def _family(
    workload: Mapping[str, Any],
    trials: float,
    example: Mapping[str, Scalar],
    classes: Sequence[Mapping[str, Any]],
) -> Family:
    return Family(Workload(**workload), trials, example, tuple(map(_lattice_class, classes)))


def _parts_family(
    workloads: Mapping[str, Mapping[str, Any]],
    phases: int,
    trials: float,
    classes: Sequence[Mapping[str, Any]],
) -> PartsFamily:
    read = {name: Workload(**workload) for name, workload in workloads.items()}
    return PartsFamily(read, phases, trials, tuple(map(_parts_class, classes)))


def _parts_class(entry: Mapping[str, Any]) -> PartsClass:
    sizes: Any = tuple(tuple(size) for size in entry["sizes"])
    return PartsClass(**{**entry, "sizes": sizes})


def _lattice_class(entry: Mapping[str, Any]) -> LatticeClass:
    spans = ("widths", "depths", "run_widths")
    tuples: dict[str, Any] = {name: tuple(entry.get(name, ())) for name in spans}
    return LatticeClass(**{**entry, **tuples})


def forecast(
    config: StudyConfig,
    data: DataSizes,
    costs: CostModel,
    lane_loop: LaneLoop,
    traced: Mapping[str, Sequence[Scalar]],
    n_trials: int,
    devices: int = 1,
) -> Forecast:
    """The forecast of a study of `n_trials` trials on `data`, on so many `devices`.

    `traced` are structural settings that programs are told at run time.
    """
    at_once = min(n_trials, config.schedule.parallel) * len(config.members)
    capacity = capacity_for(lane_loop, at_once, devices)
    families: dict[str, Family] = {}
    for name, (example, every) in cells_by_family(config, traced, n_trials).items():
        work = workload_of(config, config.filled(example), data, traced)
        cells = list(merged(every))

        classes = _lattice(cells, work, costs, lane_loop, capacity)
        families[name] = Family(work, sum(cell.trials for cell in cells), example, classes)
    parts: dict[str, PartsFamily] = {}
    if "parts" in config.kinds:
        whole = workload_of(config, config.filled({}), data, traced)
        parts = parts_families(config, traced, whole, costs, lane_loop, capacity, n_trials)
    return Forecast(costs, lane_loop, capacity, families, parts, devices)


def _lattice(
    cells: Sequence[Cell], work: Workload, costs: CostModel, lane_loop: LaneLoop, capacity: int
) -> tuple[LatticeClass, ...]:
    """The best classes for these cells, by these costs."""

    def lane_s(width: int, padded: int, depth: int) -> float:
        return costs.lane_s(width, padded, depth, work, lane_loop, capacity)

    if lane_loop == "vmap":  # where each lane would compute all widths
        return lattice(cells, lambda _, depth: costs.compile_s(depth, work), lane_s)
    prices = Prices(
        compile_s=lambda depth, widths: costs.compile_s(depth, work, widths),
        lane_s=lambda width, depth: lane_s(width, depth, depth),
        carry_s=lambda width, depth: costs.carry_s(width, depth, work),
    )
    return width_lattice(cells, prices)


def cells_by_family(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]], n_trials: int
) -> dict[str, tuple[dict[str, Scalar], list[Cell]]]:
    """The trials of each family of MLPs by name: parameters of one of them, and their shapes."""
    population: dict[str, tuple[dict[str, Scalar], list[Cell]]] = {}
    for example, chance in families_of(config, traced):
        name = family_of(config.filled(example), traced)
        if name is not None:
            _, cells = population.setdefault(name, (example, []))
            cells += cells_of(config, traced, example, n_trials * chance)
    return population


def traced_structure(config: StudyConfig, lane_loop: LaneLoop) -> dict[str, Sequence[Scalar]]:
    """Structural settings that programs of this study are told at run time, with all values.

    Under `map` a lane takes one branch; under `vmap` every lane would compute all of them.
    """
    if config.trial is not None:
        return dict(config.trial.program.traced)
    if lane_loop != "map":
        return {}
    keys = [key for key in _lengths(config) if config.entry(key) is not None]
    activation = config.entry("model.activation")
    is_told = config.train.is_padded and "mlp" in config.kinds
    if isinstance(activation, CategoricalSearch) and is_told:
        keys.append("model.activation")
    return {key: config.drawn_values(key) or () for key in keys}


def _lengths(config: StudyConfig) -> Iterator[str]:
    """The settings that tell how long phases are."""
    if isinstance(config.train, AlternatingTable):
        yield from (f"train.{key}" for key in config.train.lengths)


def workload_of(
    config: StudyConfig,
    settings: Settings,
    data: DataSizes,
    traced: Mapping[str, Sequence[Scalar]],
) -> Workload:
    train, model = settings.train, settings.model
    epochs = config.entry("train.epochs")
    mean = train.epochs
    if epochs is not None:
        mean = sum(float(value) * chance for value, chance in chances(epochs).items())
    return Workload(
        in_size=data.in_size,
        out_size=data.out_size,
        batch_size=train.batch_size,
        steps=max(1, data.train_rows // train.batch_size),
        epochs=float(mean) * len(config.members),
        val_rows=data.val_rows,
        layer_norm=model.kind == "mlp" and model.layer_norm,
        dropout=settings.has("model.dropout"),
        n_activations=len(traced.get("model.activation", ("",))),
        optimizer_slots=settings.optimizer.slots
        + settings.has("train.ema")
        + (settings.keeps is not None),
        bytes_per_number=8 if config.execution.precision == "float64" else 4,
    )
