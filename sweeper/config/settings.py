"""The settings of one trial: the study's tables with searched values filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweeper.config.alternating import AlternatingTable
from sweeper.config.arguments import arguments_of
from sweeper.config.coupled import CoupledTable
from sweeper.config.defaults import general, has_number_without, number_without
from sweeper.config.model import ModelTable, PartsTable
from sweeper.config.optimizer import OptimizersTable, OptimizerTable, decays_of
from sweeper.config.study import EDITION
from sweeper.config.table import Role, Table, settings_of, value_of
from sweeper.config.train import OwnProgramTable, SupervisedTable
from sweeper.trial import Scalar

# traced hyperparameters whose part of the program is left out if the study does not use it
OPTIONAL_PARTS = (
    "model.dropout",
    "optimizer.clip_norm",
    "optimizer.clip_value",
    "train.label_smoothing",
    "train.ema",
)

TrainTable = SupervisedTable | AlternatingTable | CoupledTable | OwnProgramTable


def optional_parts(
    tables: Mapping[str, Table], is_searched: Callable[[str], bool]
) -> Iterator[str]:
    """The keys of the optional parts that the programs of a study with these tables have.

    This includes numbers without a value in the study that some of its trials draw.
    """
    for name, table in tables.items():
        for setting in settings_of(type(table), Role.TRACED):
            key, value = f"{name}.{setting}", value_of(table, setting)
            is_part, searched = general(key) in OPTIONAL_PARTS, is_searched(key)
            is_number = value is None and has_number_without(key)
            if (is_part and value) or (searched and (is_part or is_number)):
                yield key


def is_optional(key: str) -> bool:
    """Whether only some studies have a part or number with this dotted key."""
    return general(key) in OPTIONAL_PARTS or has_number_without(key)


@dataclass(frozen=True, slots=True)
class MetricRule:
    """A metric of a trial's epochs, and which of its values are better."""

    metric: str
    maximize: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """One trial's model, optimizer and training.

    `parts` are the keys of those `OPTIONAL_PARTS` that are compiled in, and of numbers that only
    some trials draw. They depend on the study, not on the trial: a searched dropout is compiled in
    even for a trial that drew 0. The study also determines `keeps`, the rule for which epoch's
    weights to keep instead of the last, and `stops`, the rule for ending a trial early; both may be
    None. `saves` says whether the optimizer state is needed at the end. `base_dir` is searched
    first for user modules, and `edition` is that of the rules that the study began with.
    """

    model: ModelTable | PartsTable
    optimizer: OptimizerTable | OptimizersTable
    train: TrainTable
    parts: frozenset[str]
    base_dir: Path
    keeps: MetricRule | None = None
    stops: MetricRule | None = None
    saves: bool = False
    edition: int = EDITION

    def has(self, part: str) -> bool:
        """Whether the optional part with this key is compiled in."""
        return part in self.parts

    @property
    def sole_optimizer(self) -> OptimizerTable:
        """The optimizer of a model with one part."""
        assert not isinstance(self.optimizer, OptimizersTable)
        return self.optimizer

    def of_part(self, name: str) -> Settings:
        """The settings of one part of the model, as if it were the whole; "" is the whole model."""
        if not name:
            return self
        assert isinstance(self.model, PartsTable)
        tables = f"model.{name}", f"optimizer.{name}"
        optimizer = self.optimizer
        if isinstance(optimizer, OptimizersTable):
            optimizer = optimizer.by_part[name]
        model = self.model.parts[name]
        own = {key for key in self.parts if key.rpartition(".")[0] in (*tables, "optimizer")}
        return replace(self, model=model, optimizer=optimizer, parts=frozenset(map(general, own)))

    def phase_at(self, epoch: int) -> str:
        """The phase in which an epoch, counted from 1, is trained; constant without phases."""
        return self.train.phase_at(epoch) if isinstance(self.train, AlternatingTable) else ""

    def structure(self) -> dict[str, Scalar | tuple[str, ...]]:
        """Everything that is compiled into the trial's program, by dotted key."""
        values = self._values(Role.STRUCTURAL)
        traced = self._values(Role.TRACED)
        parts = {key: self.has(key) for key in traced if general(key) in OPTIONAL_PARTS}
        for name, table in self._tables:
            parts |= arguments_of(name, table, traced=False)
        decays = decays_of(self.optimizer).items()
        return values | parts | {key: decay.text for key, decay in decays}

    def traced(self) -> dict[str, float]:
        """The numbers that the program gets at run time, by dotted key."""
        values = self._values(Role.TRACED)
        for name, table in self._tables:
            values |= arguments_of(name, table, traced=True)
        tables = dict(self._tables)
        return {
            key: float(number_without(key, tables) if value is None else value)
            for key, value in values.items()
            if self.has(key) or (general(key) not in OPTIONAL_PARTS and value is not None)
        }

    @property
    def _tables(self) -> tuple[tuple[str, Table], ...]:
        return ("model", self.model), ("optimizer", self.optimizer), ("train", self.train)

    def _values(self, role: Role) -> dict[str, Any]:
        """The settings with this role, by dotted key, in the order of the tables."""
        return {
            f"{table}.{name}": value_of(values, name) if "." in name else getattr(values, name)
            for table, values in self._tables
            for name in settings_of(type(values), role)
        }
