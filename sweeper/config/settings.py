"""The settings of one trial: the study's tables with searched values filled in."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.config.model import MlpTable
from sweeper.config.optimizer import OptimizerTable
from sweeper.config.roles import Role, settings_of
from sweeper.config.table import Table
from sweeper.config.train import TrainTable
from sweeper.trial import Scalar


@dataclass(frozen=True, slots=True)
class Settings:
    """One trial's model, optimizer and training.

    `has_dropout` says whether dropout is compiled in. It is the study's, not the trial's: a
    searched probability is compiled in even for the trial that drew 0.
    """

    model: MlpTable
    optimizer: OptimizerTable
    train: TrainTable
    has_dropout: bool

    def structure(self) -> dict[str, Scalar | tuple[str, ...]]:
        """Everything that is compiled into the trial's program, by dotted key."""
        structure: dict[str, Scalar | tuple[str, ...]] = {
            f"{table}.{name}": getattr(values, name)
            for table, values in self._tables()
            for name in settings_of(type(values), Role.STRUCTURAL)
        }
        structure["model.dropout"] = self.has_dropout
        return structure

    def traced(self) -> dict[str, float]:
        """The numbers that the program is given at run time, by dotted key."""
        return {
            f"{table}.{name}": float(getattr(values, name))
            for table, values in self._tables()
            for name in settings_of(type(values), Role.TRACED)
        }

    def _tables(self) -> tuple[tuple[str, Table], ...]:
        return ("model", self.model), ("optimizer", self.optimizer), ("train", self.train)
