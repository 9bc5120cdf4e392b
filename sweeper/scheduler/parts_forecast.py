"""What models of several parts are predicted to cost, and the classes that this makes the best."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from sweeper.config import Settings, StudyConfig
from sweeper.config.agreement import sizes_of_parts
from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import CoupledTable
from sweeper.config.model import PartsTable
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.cost import CostModel, Workload
from sweeper.scheduler.parts_lattice import PartsCell, PartsClass, Sizes, parts_lattice
from sweeper.scheduler.population import chances
from sweeper.scheduler.signature import family_of, sizes_of
from sweeper.trial import Scalar

# a space of more structures than these is not looked through: each of its trials has its own sizes
_MAX_STRUCTURES = 2048


@dataclass(frozen=True, slots=True)
class PartsFamily:
    """Trials of parts that padding can bring together; `workloads` is what a lane does in each.

    `phases` are compiled into one program; a step goes through one of them.
    """

    workloads: Mapping[str, Workload]
    phases: int
    trials: float
    classes: tuple[PartsClass, ...]

    def best_class(
        self, sizes: Sizes, costs: CostModel, lane_loop: LaneLoop, capacity: int
    ) -> PartsClass | None:
        """The class that trains such a trial in the least time; None where none has room."""
        holding = [known for known in self.classes if known.holds(sizes)]
        return min(
            holding,
            key=lambda known: self.lane_s(known.sizes, sizes, costs, lane_loop, capacity),
            default=None,
        )

    def compile_s(self, sizes: Sizes, costs: CostModel) -> float:
        """Seconds to compile a class; every phase has a backward pass of its own."""
        base_s = costs.compile_base_s
        layers_s = sum(
            costs.compile_s(depth, self.workloads[name]) - base_s for name, _, depth in sizes
        )
        return (base_s + layers_s) * (1 + self.phases) / 2

    def lane_s(
        self, room: Sizes, own: Sizes, costs: CostModel, lane_loop: LaneLoop, capacity: int
    ) -> float:
        """Seconds to train a lane of its `own` sizes, for all of its epochs, in a class of `room`.

        As if every part were trained in every step: which are differs from phase to phase.
        """
        return sum(
            costs.lane_s(width, padded, depth, self.workloads[name], lane_loop, capacity)
            for (name, width, padded), (_, _, depth) in zip(room, own, strict=True)
        )


def parts_families(
    config: StudyConfig,
    traced: Mapping[str, Sequence[Scalar]],
    whole: Workload,
    costs: CostModel,
    lane_loop: LaneLoop,
    capacity: int,
    n_trials: int,
) -> dict[str, PartsFamily]:
    """The families of a study of parts by name; `whole` is what a lane does of data and batches."""
    population: dict[str, dict[Sizes, PartsCell]] = {}
    for params, chance in _structures(config, traced):
        settings = config.filled(params)
        name = family_of(settings, traced)
        if name is None:
            continue
        cells, sizes = population.setdefault(name, {}), sizes_of(settings)
        trials = n_trials * chance + (cells[sizes].trials if sizes in cells else 0.0)
        cells[sizes] = PartsCell(sizes, trials, params)
    found: dict[str, PartsFamily] = {}
    for name, by_sizes in population.items():
        cells = [*by_sizes.values()]
        settings = config.filled(cells[0].example)
        trials = sum(cell.trials for cell in cells)
        family = PartsFamily(_workloads(settings, whole), _phases(settings), trials, ())

        def compile_s(sizes: Sizes, family: PartsFamily = family) -> float:
            return family.compile_s(sizes, costs)

        def lane_s(room: Sizes, own: Sizes, family: PartsFamily = family) -> float:
            return family.lane_s(room, own, costs, lane_loop, capacity)

        found[name] = replace(family, classes=parts_lattice(cells, compile_s, lane_s))
    return found


def _structures(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]]
) -> Iterator[tuple[dict[str, Scalar], float]]:
    """Parameters of a trial of each structure, and the share of trials that have it."""
    keys = [key for key in config.search if config.splits(key, "parts") and key not in traced]
    if any(config.search[key].when for key in keys):
        return
    entries = {key: chances(config.search[key]) for key in keys}
    if math.prod(len(entry) for entry in entries.values()) > _MAX_STRUCTURES:
        return
    for values in product(*(entry.items() for entry in entries.values())):
        drawn = zip(entries, values, strict=True)
        params = {config.search[key].column(key): value for key, (value, _) in drawn}
        yield params, math.prod(chance for _, chance in values)


def _workloads(settings: Settings, whole: Workload) -> dict[str, Workload]:
    model, train = settings.model, settings.train
    assert isinstance(model, PartsTable) and isinstance(train, AlternatingTable | CoupledTable)
    sizes = sizes_of_parts(model, train, whole.in_size, whole.out_size)
    found: dict[str, Workload] = {}
    for name, part in model.parts.items():
        in_size, out_size = sizes[name]
        its = settings.of_part(name)
        runs = train.runs_of(name) if isinstance(train, CoupledTable) else 1
        found[name] = replace(
            whole,
            in_size=in_size,
            out_size=out_size,
            batch_size=runs * whole.batch_size,
            layer_norm=part.kind == "mlp" and part.layer_norm,
            dropout=its.has("model.dropout"),
            optimizer_slots=its.sole_optimizer.slots,
        )
    return found


def _phases(settings: Settings) -> int:
    train = settings.train
    return len(train.by_phase) if isinstance(train, AlternatingTable) else 1
