"""The arrays of a study, as every trial trains on them, and their file for worker processes.

Reading the file needs NumPy alone: a worker imports neither pandas nor scikit-learn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

_DIGEST = "content_digest"  # among what `save` writes


@dataclass(frozen=True, slots=True)
class TableColumn:
    """What a column held; `values` is how many different ones, of a category.

    `words` counts the words of a text file that were read as missing values.
    """

    name: str
    role: Literal["feature", "target"]
    kind: Literal["number", "category"]
    values: int | None
    missing: int
    words: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Scaled and encoded rows in three parts; the test part may have no rows.

    `x_*` are shaped (rows, n_features). Of classes `y_*` are their indices, int32, shaped (rows,):
    the place in `class_names`, and `class_weights` is what each counts for, empty where all count
    the same; `one_logit` says that a model gives one number for two of them: the log-odds of the
    second. Of numbers they are shaped (rows, targets), and `y * y_scale + y_mean` are the targets
    in the data's own units; where nothing is predicted there are 0 targets.

    Where rows are generated, `x * x_scale + x_mean` are features in the data's own units, and
    `mode_means`, shaped (modes, n_features), what the training rows of each mode are at the mean,
    in these units.

    Where there are folds, the validation part is empty. `fold_of` is the fold that validates each
    row of the training part; its features times `fold_scale` plus `fold_shift`, both shaped
    (folds, n_features), are scaled as the fold's own training rows ask for.

    `transform` is how a row as it is read becomes its features, as `Transform` is written as JSON.
    `notes` is what the user should know about the data; it is not part of the digest.
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_val: NDArray[Any]
    y_val: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...] = ()
    y_mean: tuple[float, ...] = (0.0,)
    y_scale: tuple[float, ...] = (1.0,)
    class_weights: tuple[float, ...] = ()
    one_logit: bool = False
    columns: tuple[TableColumn, ...] = ()
    transform: Mapping[str, Any] = field(default_factory=dict[str, Any])
    x_mean: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    x_scale: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    mode_names: tuple[str, ...] = ()
    mode_means: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    fold_of: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    fold_scale: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    fold_shift: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    notes: tuple[str, ...] = ()

    @property
    def n_folds(self) -> int:
        """How many folds the training part has; 0 where validation rows are apart."""
        return len(self.fold_scale)

    @property
    def train_rows(self) -> int:
        """How many rows a member of a trial trains on, the first fold where there are folds."""
        return len(self.training_rows(0))

    @property
    def val_rows(self) -> int:
        """How many it is validated on."""
        return len(self.x_val) or len(self.x_train) - self.train_rows

    def training_rows(self, fold: int) -> NDArray[np.int32]:
        """The rows of the training part that `fold` trains on."""
        if not self.n_folds:
            return np.arange(len(self.x_train), dtype=np.int32)
        return np.flatnonzero(self.fold_of != fold).astype(np.int32)

    @property
    def n_features(self) -> int:
        """The columns that a model takes in: numbers, and one a value of every text column."""
        return self.x_train.shape[1]

    @property
    def out_size(self) -> int:
        """What a model gives for a row: a logit a class, one for two, or a number a target."""
        if self.class_names:
            return 1 if self.one_logit else len(self.class_names)
        return self.y_train.shape[1]

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take."""
        return sum(array.nbytes for array in self._arrays().values())

    @cached_property
    def digest(self) -> str:
        """Equal for two datasets exactly where every bit of them is equal."""
        digest = blake2b(_json(self._meta()).encode(), digest_size=16)
        for name, array in self._arrays().items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            # its bytes as they lie there: a copy of the largest array is as large again
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def _content_digest(self) -> str:
        """The digest of all that `save` writes."""
        return blake2b(f"{self.digest} {_json({'notes': self.notes})}".encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write everything to `path` as an .npz file that holds no pickled objects."""
        meta = _json({**self._meta(), "notes": self.notes, _DIGEST: self._content_digest()})
        # an open file keeps NumPy from adding a suffix of its own to the path
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, meta=np.array(meta), **self._arrays())

    @classmethod
    def load(cls, source: Path | BinaryIO) -> Dataset:
        """The dataset that `save` wrote to a path, or to this open file.

        Raises:
            Exception: of whatever class, it is damaged.
        """
        if isinstance(source, Path):  # NumPy would leave open what it cannot read
            with source.open("rb") as opened:
                return cls.load(opened)
        with np.load(source, allow_pickle=False) as file:
            meta: dict[str, Any] = json.loads(file["meta"].item())
            arrays = {name: file[name] for name in file.files if name != "meta"}
        written = meta.pop(_DIGEST)
        columns = tuple(TableColumn(**column) for column in meta.pop("columns"))
        others: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in meta.items()
        }
        data = cls(**arrays, **others, columns=columns)
        if data._content_digest() != written:
            raise ValueError("the prepared data are not what was written")
        return data

    def _arrays(self) -> dict[str, NDArray[Any]]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def _meta(self) -> dict[str, Any]:
        """Everything but arrays and notes."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["notes"]
        return {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}


def _json(meta: Mapping[str, Any]) -> str:
    return json.dumps(meta, default=_column_body)


def _column_body(column: TableColumn) -> dict[str, Any]:
    """A column as JSON has it; without words as before they were counted."""
    return {name: value for name, value in asdict(column).items() if name != "words" or value}
