"""What a program needs to know about the data before it sees a row, and states of zeros.

The states of zeros are views, which take neither memory nor time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset, Edges
from sweeper.data.target import in_unit


@dataclass(frozen=True, slots=True)
class DataSpec:
    """Sizes, units of the targets, whether there are test rows, and the study's seed.

    `in_unit` returns targets in the data's own units, in which metrics are reported: `y_transform`
    of these is `y * y_scale + y_mean`. For generated rows, `x * x_scale + x_mean` are features in
    the data's own units.
    """

    in_size: int
    out_size: int
    train_rows: int
    """The training rows of the smallest fold."""
    y_mean: tuple[float, ...]
    y_scale: tuple[float, ...]
    has_test: bool
    dtype: str
    seed: int
    class_weights: tuple[float, ...] = ()
    """One per class; empty if all are equal."""
    x_mean: tuple[float, ...] = ()
    x_scale: tuple[float, ...] = ()
    mode_means: tuple[tuple[float, ...], ...] = ()
    """The means of each mode of generated rows, in the data's own units."""
    bins: tuple[tuple[str, Edges], ...] = ()
    """The edges of the bins of each number, by how they are chosen."""
    y_transform: str = "none"
    n_numbers: int = 0
    """How many of the features are numbers, which come first; 0 if no network embeds them."""

    @property
    def body(self) -> dict[str, Any]:
        """The spec as JSON, without what earlier versions did not have, unless it is used."""
        later = {"bins": (), "y_transform": "none", "n_numbers": 0}
        return {k: value for k, value in asdict(self).items() if value != later.get(k, ...)}

    def in_unit(self, y: Any, xp: Any = np) -> Any:
        """Numeric targets `y`, shaped (rows, targets), in the data's own units; by `xp`."""
        scale, mean = np.asarray(self.y_scale, self.dtype), np.asarray(self.y_mean, self.dtype)
        return in_unit(y, scale, mean, self.y_transform, xp)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> DataSpec:
        """The spec from its JSON form."""
        return DataSpec(**{name: _tuples(value) for name, value in body.items()})


def data_spec(config: StudyConfig, data: Dataset) -> DataSpec:
    """What the programs of a study need to know about its data."""
    return DataSpec(
        in_size=data.n_features,
        out_size=data.out_size,
        train_rows=min(len(data.training_rows(fold)) for fold in range(data.n_folds or 1)),
        y_mean=data.y_mean,
        y_scale=data.y_scale,
        has_test=len(data.x_test) > 0,
        dtype=config.execution.precision,
        seed=config.study.seed,
        class_weights=data.class_weights,
        x_mean=tuple(data.x_mean.tolist()),
        x_scale=tuple(data.x_scale.tolist()),
        mode_means=tuple(map(tuple, data.mode_means.tolist())),
        bins=_tuples([*data.bins.items()]),
        y_transform=data.y_transform,
        n_numbers=n_embedded(config, data),
    )


def n_embedded(config: StudyConfig, data: Dataset) -> int:
    """How many numbers networks embed; 0 if none does."""
    is_embedded = "plr" in config.number_encodings
    return len(data.transform.get("numbers", ())) if is_embedded else 0


def _tuples(value: Any) -> Any:
    """A value with tuples in place of all lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def blank_of(abstract: PyTree) -> Any:
    """A state with these shapes and dtypes, each leaf a read-only view of a single 0."""
    return jax.tree.map(
        lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape), abstract
    )


def is_blank(leaf: Any) -> bool:
    """Whether `leaf` is such a view; a leaf with one number never is."""
    is_view_of_one = isinstance(leaf, np.ndarray) and leaf.size > 1 and not any(leaf.strides)
    return is_view_of_one and leaf.flat[0] == 0
