"""The classes to time for the cost model, chosen to separate its constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from sweeper.config import StudyConfig, parse
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.forecast import DataSizes

_STUDY = """
version = 1
[study]
name = "calibration"
metric = "val_loss"
direction = "minimize"
n_trials = 1
[data]
source = "sklearn"
name = "digits"
[model]
depth = 1
width = 16
[optimizer]
name = "adamw"
lr = 1e-3
[train]
loss = "cross_entropy"
batch_size = 64
[search]
"""
IN, OUT = 64, 10
LANES: Mapping[LaneLoop, int] = {"map": 2, "vmap": 16}


@dataclass(frozen=True, slots=True)
class Case:
    """A class to time: its size, a lane's own depth, and everything else that costs time.

    The lane runs at `width`; `others` are the class's other widths.
    """

    width: int
    padded_depth: int
    depth: int
    others: tuple[int, ...] = ()
    batch_size: int = 64
    layer_norm: bool = False
    dropout: bool = False
    n_activations: int = 1
    lane_loop: LaneLoop = "map"
    rows: int = 2048
    epochs: int = 20

    @property
    def widths(self) -> tuple[int, ...]:
        """All widths that the class runs lanes at."""
        return tuple(sorted({self.width, *self.others}))

    @property
    def sizes(self) -> DataSizes:
        """The sizes of the data that it is trained on."""
        return DataSizes(IN, OUT, train_rows=self.rows, val_rows=self.rows // 8)

    def config(self) -> StudyConfig:
        """A study with one such trial."""
        names = ["relu", "tanh", "gelu", "silu"][: self.n_activations]
        search = f'model.activation={{type="categorical",choices={names}}}'
        return parse(
            _STUDY,
            Path("calibration"),
            [
                f"model.width={self.width}",
                f"model.depth={self.depth}",
                f"model.layer_norm={str(self.layer_norm).lower()}",
                f"model.dropout={0.1 if self.dropout else 0.0}",
                f"train.batch_size={self.batch_size}",
                f"train.epochs={self.epochs}",
                *([f"search.{search}"] if self.n_activations > 1 else []),
            ],
        )


def cases() -> tuple[Case, ...]:
    """Classes that separate the constants of the cost model; about a minute's work."""
    sizes = product((16, 64, 256), ((1, 1), (4, 1), (4, 4)))
    plain = [Case(width, padded, depth) for width, (padded, depth) in sizes]
    batches = [replace(case, batch_size=256) for case in plain if case.width != 64]
    parts = [
        replace(Case(width, 3, 3), **part)
        for width in (32, 128)
        for part in ({"layer_norm": True}, {"dropout": True}, {"n_activations": 3})
    ]
    side_by_side = [
        Case(width, depth, depth, lane_loop="vmap")
        for width, depth in product((16, 64, 256), (1, 4))
    ]
    several = [
        Case(16, 4, 1, others=(64,)),
        Case(16, 4, 4, others=(64, 256)),
        Case(64, 4, 4, others=(16, 32, 128)),
        Case(128, 3, 3, others=(32,), layer_norm=True),
        Case(32, 3, 3, others=(128,), dropout=True),
    ]
    # with few steps per epoch, the work done once per epoch matters
    few_rows = [
        Case(16, depth, depth, lane_loop=loop, batch_size=16, rows=128, epochs=100)
        for loop, depth in product(LANES, (1, 4))
    ]
    chosen = (*plain, *batches, *parts, *side_by_side, *several, *few_rows)
    # wide ones take long, compared with which the time of a call is negligible
    return tuple(replace(case, epochs=2) if case.width == 256 else case for case in chosen)
