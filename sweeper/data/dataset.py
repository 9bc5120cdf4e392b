"""The arrays that every trial of a study trains on, and their file for worker processes.

Reading the file only needs NumPy: workers import neither pandas nor scikit-learn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sweeper.data.target import in_unit

SplitName = Literal["train", "val", "test"]
Edges = tuple[tuple[float, ...], ...]
"""The edges of the bins of each number."""

_DIGEST = "content_digest"  # key in what `save` writes


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A summary of a column; `values` is the number of different values of a category.

    `words` counts the words in a text file that were read as missing values.
    """

    name: str
    role: Literal["feature", "target"]
    kind: Literal["number", "category"]
    values: int | None
    missing: int
    words: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, eq=False)
class Dataset:
    """Scaled and encoded rows in three splits; there may be no test rows.

    `x_*` are shaped (rows, n_features). For classes, `y_*` are indices into `class_names`, int32,
    shaped (rows,). For numbers, `y_*` are shaped (rows, targets), and `targets_in_unit` returns
    them in the data's own units, in which they were transformed by `y_transform` and then scaled by
    `y_scale` and `y_mean`; if nothing is predicted, there are 0 targets.

    `w_*` are the weights of rows in the loss and the metrics, shaped (rows,), whose mean over the
    training rows is 1; empty if all rows count equally.

    With folds, the validation split is empty. Features times `fold_scale` plus `fold_shift` of a
    fold are scaled by the training rows of that fold.

    For generated rows, `x * x_scale + x_mean` are features in the data's own units.
    """

    x_train: NDArray[Any]
    y_train: NDArray[Any]
    x_val: NDArray[Any]
    y_val: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...] = ()
    """Empty if the targets are not classes."""
    y_mean: tuple[float, ...] = (0.0,)
    y_scale: tuple[float, ...] = (1.0,)
    y_transform: str = "none"
    class_weights: tuple[float, ...] = ()
    """One per class; empty if all are equal."""
    one_logit: bool = False
    """Whether a model has one output for two classes: the log-odds of the second."""
    columns: tuple[TableColumn, ...] = ()
    """The columns of the data: features, then targets."""
    transform: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """How a row as read becomes features, in the JSON form of `Transform`."""
    x_mean: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    x_scale: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    mode_names: tuple[str, ...] = ()
    """The values of the column that labels the modes of generated rows."""
    mode_means: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    """The mean training row of each mode in the data's own units, shaped (modes, n_features)."""
    fold_of: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """The fold that validates each training row."""
    fold_scale: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    """Shaped (folds, n_features), like `fold_shift`."""
    fold_shift: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))
    bins: Mapping[str, Edges] = field(default_factory=dict)
    """The edges of the bins of each number, by how they are chosen; empty if no network encodes
    numbers by them."""
    notes: tuple[str, ...] = ()
    """Messages for the user about the data; they are not part of the digest."""
    w_train: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    w_val: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    w_test: NDArray[Any] = field(default_factory=lambda: np.empty(0))

    @property
    def is_weighted(self) -> bool:
        """Whether rows have weights."""
        return len(self.w_train) > 0

    def targets(self, split: SplitName) -> NDArray[Any]:
        """The targets of the rows of a split, scaled."""
        return {"train": self.y_train, "val": self.y_val, "test": self.y_test}[split]

    def all_targets(self, train_on: str) -> NDArray[Any]:
        """The targets of all rows, each once, if `data.split.train_on` has this value."""
        trained_on = {"train": ("train",), "train+val": ("train", "val")}.get(train_on)
        splits = {"train": self.y_train, "val": self.y_val, "test": self.y_test}
        others = [y for name, y in splits.items() if trained_on and name not in trained_on]
        return np.concatenate([self.y_train, *others])

    def rows_of_classes(self, train_on: str) -> dict[str, int]:
        """How many rows each class has, as in `all_targets`; empty for numbers."""
        if not self.class_names:
            return {}
        counts = np.bincount(self.all_targets(train_on), minlength=len(self.class_names))
        return dict(zip(self.class_names, counts.tolist(), strict=True))

    def weights(self, split: SplitName) -> NDArray[Any] | None:
        """The weights of the rows of a split; None if all rows count equally."""
        found = {"train": self.w_train, "val": self.w_val, "test": self.w_test}
        return found[split] if self.is_weighted else None

    def counting(self, split: SplitName) -> NDArray[np.bool_]:
        """Which rows of a split count: all whose weight is not 0."""
        weights = self.weights(split)
        return np.ones(len(self.targets(split)), bool) if weights is None else weights > 0

    @property
    def n_folds(self) -> int:
        """How many folds the training rows have; 0 if there are separate validation rows."""
        return len(self.fold_scale)

    @property
    def rows_of_folds(self) -> tuple[tuple[int, int], ...]:
        """How many rows each fold trains and is validated on; those of the split without folds."""
        if not self.n_folds:
            return ((len(self.x_train), len(self.x_val)),)
        validated = np.bincount(self.fold_of, minlength=self.n_folds).tolist()
        return tuple((len(self.x_train) - rows, rows) for rows in validated)

    @property
    def train_rows(self) -> int:
        """How many rows each training uses; with folds, the fewest of any fold."""
        return min(train for train, _ in self.rows_of_folds)

    @property
    def val_rows(self) -> int:
        """How many rows each training is validated on; with folds, the most of any fold."""
        return max(val for _, val in self.rows_of_folds)

    def training_rows(self, fold: int) -> NDArray[np.int32]:
        """The training rows that `fold` trains on."""
        if not self.n_folds:
            return np.arange(len(self.x_train), dtype=np.int32)
        return np.flatnonzero(self.fold_of != fold).astype(np.int32)

    @property
    def n_features(self) -> int:
        """The number of model inputs: numeric columns, and one per value of every text column."""
        return self.x_train.shape[1]

    @property
    def out_size(self) -> int:
        """The number of model outputs: one logit per class, one for two, or one per target."""
        if self.class_names:
            return 1 if self.one_logit else len(self.class_names)
        return self.y_train.shape[1]

    def targets_in_unit(self, y: NDArray[Any]) -> NDArray[Any]:
        """Numeric targets `y`, shaped (rows, targets), in the data's own units."""
        return in_unit(y, self.y_scale, self.y_mean, self.y_transform)

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take."""
        return sum(array.nbytes for array in self._arrays().values())

    @cached_property
    def digest(self) -> str:
        """Equal for two datasets if and only if every bit of them is equal."""
        digest = blake2b(_json(self._meta()).encode(), digest_size=16)
        for name, array in self._arrays().items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
            # the bytes in place: a copy of the largest array would take as much memory again
            digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def _content_digest(self) -> str:
        """The digest of everything that `save` writes."""
        return blake2b(f"{self.digest} {_json({'notes': self.notes})}".encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write everything to `path` as an .npz file without pickled objects."""
        meta = _json({**self._meta(), "notes": self.notes, _DIGEST: self._content_digest()})
        # given an open file, NumPy does not add a suffix to the path
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, meta=np.array(meta), **self._arrays())

    @classmethod
    def load(cls, path: Path) -> Dataset:
        """The dataset that `save` wrote to `path`.

        Raises:
            Exception: of any class, if it is damaged.
        """
        # given a path, NumPy would leave a file open that it cannot read
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            meta: dict[str, Any] = json.loads(file["meta"].item())
            arrays = {name: file[name] for name in file.files if name != "meta"}
        written = meta.pop(_DIGEST)
        columns = tuple(TableColumn(**column) for column in meta.pop("columns"))
        others: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in meta.items()
        }
        data = cls(**arrays, **others, columns=columns)
        if data._content_digest() != written:
            raise ValueError("the prepared data is damaged")
        return data

    def _arrays(self) -> dict[str, NDArray[Any]]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.is_weighted:  # data of studies without weights keeps its digest
            values = {name: value for name, value in values.items() if not name.startswith("w_")}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def _meta(self) -> dict[str, Any]:
        """Everything except arrays and notes."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["notes"]
        for name, absent in (("bins", {}), ("y_transform", "none")):
            if values[name] == absent:  # data of studies without them keeps its digest
                del values[name]
        return {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}


def _json(meta: Mapping[str, Any]) -> str:
    return json.dumps(meta, default=_column_body)


def _column_body(column: TableColumn) -> dict[str, Any]:
    """A column as JSON; without words, as in versions that did not count them."""
    return {name: value for name, value in asdict(column).items() if name != "words" or value}
