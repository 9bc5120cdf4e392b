"""What a program needs to know of the data before it sees a row of it."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset


@dataclass(frozen=True, slots=True)
class DataSpec:
    """Sizes, the units of the targets, whether there is a test part, and the study's seed.

    Each target is scaled by its `y_scale`; squared errors are reported in the data's own units.
    `class_weights` is what each class counts for, empty where all count the same.
    """

    in_size: int
    out_size: int
    y_scale: tuple[float, ...]
    has_test: bool
    dtype: str
    seed: int
    class_weights: tuple[float, ...] = ()


def data_spec(config: StudyConfig, data: Dataset) -> DataSpec:
    """What the programs of a study need to know of its data."""
    return DataSpec(
        in_size=data.n_features,
        out_size=data.out_size,
        y_scale=data.y_scale,
        has_test=len(data.x_test) > 0,
        dtype=config.execution.precision,
        seed=config.study.seed,
        class_weights=data.class_weights,
    )
