"""The arrays of a study, as every trial trains on them, and their file for worker processes.

Reading the file needs NumPy alone: a worker imports neither pandas nor scikit-learn.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Scaled and encoded rows in three parts; the test part may have no rows.

    `x_*` are shaped (rows, n_features). For cross-entropy `y_*` are class indices, int32, shaped
    (rows,): the place in `class_names`. For regression they are shaped (rows, 1), and
    `y * y_scale + y_mean` is the target in the data's own unit.
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_val: NDArray[Any]
    y_val: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...] = ()
    y_mean: float = 0.0
    y_scale: float = 1.0

    @property
    def n_features(self) -> int:
        """The columns that a model takes in: numbers, and one a value of every text column."""
        return self.x_train.shape[1]

    @property
    def out_size(self) -> int:
        """What a model gives for a row: one logit a class, or one number."""
        return len(self.class_names) or 1

    def has_sizes_of(self, other: Dataset) -> bool:
        """Whether a program that was compiled for the one can be given the other."""
        mine, theirs = (
            [(array.shape, array.dtype) for array in data._arrays().values()]
            for data in (self, other)
        )
        return (mine, self.out_size) == (theirs, other.out_size)

    @cached_property
    def digest(self) -> str:
        """Equal for two datasets exactly where every bit of them is equal."""
        digest = blake2b(self._meta().encode(), digest_size=16)
        for name, array in self._arrays().items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write everything to `path` as an .npz file that holds no pickled objects."""
        # an open file keeps NumPy from adding a suffix of its own to the path
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, meta=np.array(self._meta()), **self._arrays())

    @classmethod
    def load(cls, source: Path | BinaryIO) -> Dataset:
        """The dataset that `save` wrote to a path, or to this open file."""
        with np.load(source, allow_pickle=False) as file:
            meta = json.loads(file["meta"].item())
            arrays = {name: file[name] for name in file.files if name != "meta"}
        names = {name: tuple(meta.pop(name)) for name in ("feature_names", "class_names")}
        return cls(**arrays, **names, **meta)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def _meta(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(
            {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}
        )
