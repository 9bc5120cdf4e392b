"""Data of the right sizes and without content, to compile for while the real ones are read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.config.data import SklearnTable
from sweeper.data.dataset import Dataset
from sweeper.data.sizes import part_sizes

# rows, features and classes of the classification sets that ship with scikit-learn; importing it
# takes longer than anything else that could tell
_PACKAGED = {
    "digits": (1797, 64, 10),
    "iris": (150, 4, 3),
    "wine": (178, 13, 3),
    "breast_cancer": (569, 30, 2),
}


def _is_told_later(config: StudyConfig, data: SklearnTable) -> bool:
    """Whether the rows themselves decide on sizes or numbers of the program."""
    ways = data.split
    split_by_column = ways.group is not None or ways.time is not None
    encoded = bool(data.categorical_columns) or data.class_weights != "none"
    return split_by_column or encoded or config.study.folds is not None


def blank(config: StudyConfig) -> Dataset | None:
    """A dataset of the sizes that the study's will have; None where they are not known before."""
    data = config.data
    if not isinstance(data, SklearnTable) or config.train.target != "classes":
        return None
    if data.name not in _PACKAGED or _is_told_later(config, data):
        return None
    n_rows, n_features, n_classes = _PACKAGED[data.name]
    sizes = part_sizes(config, n_rows)
    if sizes.train < 1:
        return None
    also = {"train": 0, "train+val": sizes.val, "all": sizes.val + sizes.test}
    n_train = sizes.train + also[data.split.train_on]

    def rows(count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        x = np.zeros((count, n_features), config.execution.precision)
        return x, np.zeros(count, np.int32)

    return Dataset(
        *rows(n_train),
        *rows(sizes.val),
        *rows(sizes.test),
        feature_names=tuple(f"feature {index}" for index in range(n_features)),
        class_names=tuple(f"class {index}" for index in range(n_classes)),
        one_logit=config.train.loss == "binary_cross_entropy",
    )
