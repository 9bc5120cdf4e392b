"""The numbers of one part of a model, under the names that they have for a model of one part."""

from __future__ import annotations

from typing import Any

from sweeper.config import Settings
from sweeper.config.optimizers import OptimizersTable
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import Hparams
from sweeper.programs.schedules import STEPS


def hparams_of(part: str, hparams: Hparams, settings: Settings) -> dict[str, Any]:
    """What the optimizer and the network of `part` are told, of what its lane is told."""
    is_own = isinstance(settings.optimizer, OptimizersTable)
    prefixes = {f"model.{part}.": "model."}
    prefixes |= {f"optimizer.{part}." if is_own else "optimizer.": "optimizer."}
    return {
        general + key.removeprefix(prefix): value
        for prefix, general in prefixes.items()
        for key, value in hparams.items()
        if key.startswith(prefix)
    }


def schedule_steps(settings: Settings, data: DataSpec) -> dict[str, float]:
    """The steps that a lane trains, for each optimizer whose rate depends on them."""
    optimizer = settings.optimizer
    tables = {"optimizer": optimizer}
    if isinstance(optimizer, OptimizersTable):
        tables = {f"optimizer.{part}": table for part, table in optimizer.by_part.items()}
    steps = settings.train.epochs * (data.train_rows // settings.train.batch_size)
    return {
        STEPS.replace("optimizer", key, 1): float(steps)
        for key, table in tables.items()
        if table.schedule.name != "constant"  # type: ignore[union-attr]
    }
