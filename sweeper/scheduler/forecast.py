"""What a study is predicted to cost, and the classes that this makes the best: its lattice.

A forecast is made once, from the search space, the number of trials and the cost model, and is
recorded. Trials are expected where a sampler that knows nothing yet would draw them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from sweeper.config import Settings, StudyConfig
from sweeper.config.conditions import is_active, needed
from sweeper.config.search import CategoricalSearch, IntSearch, SearchEntry
from sweeper.scheduler.capacity import LaneLoop, capacity_for
from sweeper.scheduler.cost import CostModel, Workload
from sweeper.scheduler.lattice import Cell, LaneSeconds, LatticeClass, lattice, place
from sweeper.scheduler.signature import Structure, family_of
from sweeper.trial import Scalar

# a space of more families than these has hardly two trials in one, and is not worth a lattice
_MOST_FAMILIES = 1024


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

    `capacity` is the number of lanes that a class is reckoned with.
    """

    costs: CostModel
    lane_loop: LaneLoop
    capacity: int
    families: Mapping[str, Family]

    def best_class(self, structure: Structure) -> LatticeClass | None:
        """The class that trains such a trial in the least time; None where padding is of no use."""
        family = self.families.get(structure.family or "")
        if family is None or structure.width is None or structure.depth is None:
            return None
        lane_s = self._lane_seconds(family.workload)
        return family.classes[place(structure.width, structure.depth, family.classes, lane_s)]

    def epoch_s(
        self, structure: Structure, width: int | None, depth: int | None, lane_loop: LaneLoop
    ) -> float | None:
        """Seconds that a trial trains for one epoch in a class of this size, or of its own.

        None where nothing is known of such trials.
        """
        family = self.families.get(structure.family or "")
        if family is None or structure.width is None or structure.depth is None:
            return None
        work, capacity = family.workload, self.capacity if lane_loop == "vmap" else 1
        size = width or structure.width, depth or structure.depth
        return self.costs.lane_s(*size, structure.depth, work, lane_loop, capacity) / work.epochs

    def compile_s(self, structure: Structure, depth: int | None) -> float | None:
        """Seconds to compile the class of such a trial, with nothing in the compile cache."""
        family = self.families.get(structure.family or "")
        if family is None or structure.depth is None:
            return None
        return self.costs.compile_s(depth or structure.depth, family.workload)

    def train_s(self, n_trials: int) -> float | None:
        """Seconds to train so many trials, drawn as all are; None where nothing is known."""
        trials = sum(family.trials for family in self.families.values())
        seconds = sum(block.train_s for f in self.families.values() for block in f.classes)
        return seconds * n_trials / trials if trials else None

    def as_dict(self) -> dict[str, Any]:
        """The forecast as JSON-able values; `from_dict` reads it back."""
        return {
            "costs": self.costs.as_dict(),
            "lane_loop": self.lane_loop,
            "capacity": self.capacity,
            "families": {name: asdict(family) for name, family in self.families.items()},
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Forecast:
        """The forecast that `as_dict` wrote."""
        families = {name: _family(**family) for name, family in values["families"].items()}
        costs = CostModel.from_dict(values["costs"])
        return Forecast(costs, values["lane_loop"], values["capacity"], families)

    def _lane_seconds(self, workload: Workload) -> LaneSeconds:
        def lane_s(width: int, padded: int, depth: int) -> float:
            return self.costs.lane_s(width, padded, depth, workload, self.lane_loop, self.capacity)

        return lane_s


def _family(
    workload: Mapping[str, Any],
    trials: float,
    example: Mapping[str, Scalar],
    classes: Sequence[Mapping[str, Any]],
) -> Family:
    return Family(Workload(**workload), trials, example, tuple(map(_lattice_class, classes)))


def _lattice_class(entry: Mapping[str, Any]) -> LatticeClass:
    spans: dict[str, Any] = {name: tuple(entry[name]) for name in ("widths", "depths")}
    return LatticeClass(**{**entry, **spans})


def forecast(
    config: StudyConfig,
    data: DataSizes,
    costs: CostModel,
    lane_loop: LaneLoop,
    traced: Mapping[str, Sequence[Scalar]],
    n_trials: int,
) -> Forecast:
    """The forecast of a study of `n_trials` trials on `data`.

    `traced` are structural settings that programs are told at run time.
    """
    at_once = min(n_trials, config.schedule.parallel) * len(config.members)
    capacity = capacity_for(lane_loop, at_once)
    population: dict[str, tuple[dict[str, Scalar], list[Cell]]] = {}
    for example, chance in _families(config, traced):
        name = family_of(config.filled(example), traced)
        if name is not None:
            _, cells = population.setdefault(name, (example, []))
            cells += _cells(config, traced, example, n_trials * chance)
    families: dict[str, Family] = {}
    for name, (example, every) in population.items():
        work = workload_of(config, config.filled(example), data, traced)
        cells = list(_merged(every))

        def lane_s(width: int, padded: int, depth: int, work: Workload = work) -> float:
            return costs.lane_s(width, padded, depth, work, lane_loop, capacity)

        def compile_s(_width: int, depth: int, work: Workload = work) -> float:
            return costs.compile_s(depth, work)

        trials = sum(cell.trials for cell in cells)
        families[name] = Family(work, trials, example, lattice(cells, compile_s, lane_s))
    return Forecast(costs, lane_loop, capacity, families)


def traced_structure(config: StudyConfig, lane_loop: LaneLoop) -> dict[str, Sequence[Scalar]]:
    """Structural settings that programs of this study are told at run time, with all values.

    Under `map` a lane takes one branch; under `vmap` every lane would compute all of them.
    """
    entry = config.entry("model.activation")
    if lane_loop != "map" or not isinstance(entry, CategoricalSearch) or "mlp" not in config.kinds:
        return {}
    return {"model.activation": config.drawn_values("model.activation") or ()}


def chances(entry: SearchEntry) -> dict[Scalar, float]:
    """How likely each value of an entry is when drawn without knowledge."""
    if isinstance(entry, CategoricalSearch):
        return {value: 1 / len(entry.choices) for value in entry.choices}
    values, parts = entry.in_range() or (), 1 + len(entry.beside)
    found: dict[Scalar, float] = {value: 1 / len(values) / parts for value in values}
    if isinstance(entry, IntSearch) and entry.log:
        whole = math.log((entry.high + 1) / entry.low) * parts
        found = {value: math.log((value + 1) / value) / whole for value in entry.in_range()}
    for value in entry.beside:
        found[value] = found.get(value, 0.0) + 1 / parts
    return found


def _families(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]]
) -> Iterator[tuple[dict[str, Scalar], float]]:
    """Parameters of a trial of each family of the space, and the family's share of trials.

    Models of the user's own have none.
    """
    if "mlp" not in config.kinds:
        return
    entries = {key: chances(config.search[key]) for key in _telling(config, traced)}
    if math.prod(len(entry) for entry in entries.values()) > _MOST_FAMILIES:
        return
    share = 1 / len(config.kinds)
    fixed = {
        config.search[key].column(key): value
        for key, value in {"model.kind": "mlp", **_deepest(config)}.items()
        if key in config.search and key not in entries
    }
    for values in product(*(entry.items() for entry in entries.values())):
        drawn = zip(entries, values, strict=True)
        params = {config.search[key].column(key): value for key, (value, _) in drawn}
        yield config.active(params | fixed), share * math.prod(chance for _, chance in values)


def _telling(config: StudyConfig, traced: Mapping[str, Sequence[Scalar]]) -> tuple[str, ...]:
    """The searched settings that tell a family, with those that they depend on."""
    splitting = [
        key
        for key in config.search
        if config.splits(key, "mlp") and key not in ("model.width", "model.depth", *traced)
    ]
    sizes = (key for key in ("model.width", "model.depth") if key in config.search)
    if not any(config.search[key].when for key in config.search):
        return tuple(splitting)
    found = needed([*splitting, *sizes], config.search)
    # sizes are no mark of a family, unless something depends on them
    parents = {key for one in found for key in config.search[one].when or ()}
    kept = {*splitting, *parents} - {"model.kind"}
    return tuple(key for key in found if key in kept)


def _deepest(config: StudyConfig) -> dict[str, int]:
    depths = config.drawn_values("model.depth") or (0,)
    return {"model.depth": max(int(depth) for depth in depths)}


def _cells(
    config: StudyConfig,
    traced: Mapping[str, Sequence[Scalar]],
    example: Mapping[str, Scalar],
    trials: float,
) -> Iterator[Cell]:
    model = config.filled(example).model
    assert model.kind == "mlp", "no other has a family"
    pinned = _telling(config, traced)
    widths, depths = (
        {own: 1.0} if key in pinned or entry is None else chances(entry)
        for own, key in ((model.width, "model.width"), (model.depth, "model.depth"))
        for entry in (_drawn_beside(config, key, example),)
    )
    for (width, likely), (depth, deep) in product(widths.items(), depths.items()):
        if depth:
            yield Cell(int(width), int(depth), trials * likely * deep)


def _drawn_beside(
    config: StudyConfig, key: str, example: Mapping[str, Scalar]
) -> SearchEntry | None:
    """The entry that a setting is drawn from in a trial with these parameters."""
    entry = config.entry(key)
    columns = {one.column(setting): setting for setting, one in config.search.items()}
    values = {columns[column]: value for column, value in example.items()}
    return entry if entry is not None and is_active(entry, values) else None


def _merged(cells: Iterable[Cell]) -> Iterator[Cell]:
    """The cells, those of one size as one."""
    trials: dict[tuple[int, int], float] = {}
    for cell in cells:
        size = cell.width, cell.depth
        trials[size] = trials.get(size, 0.0) + cell.trials
    for (width, depth), count in trials.items():
        yield Cell(width, depth, count)


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


def partnered_share(config: StudyConfig, n_trials: int) -> float:
    """The share of MLP trials that will have another of identical structure in the study."""
    shares = [
        cell.trials
        for example, chance in _families(config, {})
        for cell in _cells(config, {}, example, chance)
    ]
    whole = sum(shares)
    alone = (share / whole * (1 - share) ** (n_trials - 1) for share in shares)
    return 1 - sum(alone) if shares else 0.0
