"""What each class counts for in the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.errors import DataError
from sweeper.naming import did_you_mean, listed


def class_weights(
    config: StudyConfig, class_names: tuple[str, ...], y_train: NDArray[Any]
) -> tuple[float, ...]:
    """The weight of each class, in their order; none where all count the same.

    Raises:
        DataError: a weight is of no class, or a class has no training row to balance it by.
    """
    weights = config.data.class_weights
    if weights == "none":
        return ()
    if weights == "balanced":
        return _balanced(config, class_names, y_train)
    unknown = [name for name in weights if name not in class_names]
    if unknown:
        raise DataError(
            config.problem(
                f"data.class_weights.{name}",
                f"no class '{name}'",
                did_you_mean(name, class_names) or f"the classes are {listed(class_names)}",
            )
            for name in unknown
        )
    return tuple(weights.get(name, 1.0) for name in class_names)


def _balanced(
    config: StudyConfig, class_names: tuple[str, ...], y_train: NDArray[Any]
) -> tuple[float, ...]:
    """As scikit-learn's `compute_class_weight`, on the training part."""
    counts = np.bincount(y_train, minlength=len(class_names))
    absent = [f"'{name}'" for name, count in zip(class_names, counts, strict=True) if not count]
    if absent:
        found = f"no training row is of class {listed(absent)}"
        mend = "write split.stratify = true, or a weight for each class"
        raise DataError(config.problem("data.class_weights", found, mend))
    return tuple((len(y_train) / (len(class_names) * counts)).tolist())
