"""Which rows are for training, for validation and for testing; scikit-learn draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from sweeper.config import StudyConfig
from sweeper.data.sizes import part_sizes
from sweeper.errors import DataError


@dataclass(frozen=True, slots=True)
class Parts:
    """The rows of each part; every row is in exactly one."""

    train: NDArray[np.intp]
    val: NDArray[np.intp]
    test: NDArray[np.intp]


def split(config: StudyConfig, target: NDArray[Any]) -> Parts:
    """Draw the parts with the study's seed: first the test part, then the validation part.

    The seed is scikit-learn's `random_state` as it stands, so that anybody can draw them again.

    Raises:
        DataError: a class of `target` cannot be kept in proportion.
    """
    sizes = part_sizes(config, len(target))
    rest, test = np.arange(len(target)), np.empty(0, np.intp)
    try:
        if sizes.test:
            rest, test = _draw(config, rest, sizes.test, target)
        train, val = rest, np.empty(0, np.intp)
        if sizes.val:
            train, val = _draw(config, rest, sizes.val, target)
    except ValueError as error:
        found = "the shares leave a class too few rows to be kept in proportion"
        mend = "write other shares or stratify = false"
        raise DataError(config.problem("data.split", found, mend)) from error
    return Parts(train, val, test)


def _draw(
    config: StudyConfig, rows: NDArray[np.intp], size: int, target: NDArray[Any]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The other rows, and `size` of them."""
    classes = target[rows] if config.data.split.stratify else None
    rest, drawn = train_test_split(
        rows, test_size=size, random_state=config.study.seed, stratify=classes
    )
    return np.asarray(rest), np.asarray(drawn)
