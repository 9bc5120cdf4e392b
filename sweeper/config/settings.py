"""The settings of one trial: the study's tables with searched values filled in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.config.arguments import structural_arguments, traced_arguments
from sweeper.config.model import ModelTable
from sweeper.config.optimizer import OptimizerTable
from sweeper.config.roles import Role, settings_of
from sweeper.config.table import Table, value_of
from sweeper.config.train import TrainTable
from sweeper.trial import Scalar

# traced hyperparameters whose part of the program is left out where the study has no use for it
OPTIONAL_PARTS = (
    "model.dropout",
    "optimizer.clip_norm",
    "optimizer.clip_value",
    "train.label_smoothing",
    "train.ema",
)
# what such a part is told in a trial that does not draw it, and has no value for it
_NEUTRAL = {"optimizer.clip_norm": math.inf, "optimizer.clip_value": math.inf, "train.ema": 0.0}


@dataclass(frozen=True, slots=True)
class Judge:
    """A metric of the epochs of a trial, and which of its values are better."""

    metric: str
    maximize: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """One trial's model, optimizer and training.

    `parts` are those of `OPTIONAL_PARTS` that are compiled in. They are the study's, not the
    trial's: a searched dropout is compiled in even for the trial that drew 0. So are `keeps`, by
    which an epoch's weights are kept instead of the last, and `stops`, by which a trial ends
    early; None where the program does neither. `base_dir` is where the user's modules are looked
    up first.
    """

    model: ModelTable
    optimizer: OptimizerTable
    train: TrainTable
    parts: frozenset[str]
    base_dir: Path
    keeps: Judge | None = None
    stops: Judge | None = None

    def has(self, part: str) -> bool:
        """Whether the optional part with this dotted key is compiled in."""
        return part in self.parts

    def structure(self) -> dict[str, Scalar | tuple[str, ...]]:
        """Everything that is compiled into the trial's program, by dotted key."""
        values = self._values(Role.STRUCTURAL)
        traced = self._values(Role.TRACED)
        parts = {part: self.has(part) for part in OPTIONAL_PARTS if part in traced}
        for name, table in (("model", self.model), ("optimizer", self.optimizer)):
            parts |= {f"{name}.{key}": value for key, value in structural_arguments(table).items()}
        return values | parts

    def traced(self) -> dict[str, float]:
        """The numbers that the program is given at run time, by dotted key."""
        own = traced_arguments(self.optimizer)
        values = self._values(Role.TRACED) | {f"optimizer.{key}": own[key] for key in own}
        return {
            key: float(_NEUTRAL[key] if value is None else value)
            for key, value in values.items()
            if (self.has(key) if key in OPTIONAL_PARTS else value is not None)
        }

    def _values(self, role: Role) -> dict[str, Any]:
        """The settings with this role, by dotted key, in the order of the tables."""
        tables: tuple[tuple[str, Table], ...] = (
            ("model", self.model),
            ("optimizer", self.optimizer),
            ("train", self.train),
        )
        return {
            f"{table}.{name}": value_of(values, name) if "." in name else getattr(values, name)
            for table, values in tables
            for name in settings_of(type(values), role)
        }
