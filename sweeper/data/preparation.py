"""From the data that a study names to a dataset: read, check, split, encode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sweeper.config import StudyConfig
from sweeper.data import sources
from sweeper.data.checks import problems
from sweeper.data.dataset import Dataset
from sweeper.data.encode import encode, encoded_width, scaled_features
from sweeper.data.folds import with_folds
from sweeper.data.memory import check_host
from sweeper.data.raw import RawData
from sweeper.data.split import Parts, groups_of, split
from sweeper.errors import DataError, Problem


def prepare(config: StudyConfig) -> Dataset:
    """The dataset that every trial of the study trains on; a function of the file and its seed.

    Raises:
        DataError: the data is missing, unfit or too large; the message has every problem, and its
            mend.
    """
    raw = sources.read(config)
    _refuse(problems(config, raw))
    parts = split(config, raw)
    _refuse(_untrained(config, raw, parts))
    # rows of one-hot columns may be many times what was read
    size = np.dtype(config.execution.precision).itemsize
    check_host(config, len(raw.frame) * encoded_width(config, raw, parts) * size)
    data, groups = encode(config, raw, parts), groups_of(config, raw)
    of_training = None if groups is None else groups[parts.train]
    return with_folds(config, data, scaled_features(config, raw, data), of_training)


def _refuse(found: Iterator[Problem]) -> None:
    if every := tuple(found):
        raise DataError(every)


def _untrained(config: StudyConfig, raw: RawData, parts: Parts) -> Iterator[Problem]:
    """Columns that are missing in every training row, so that there is nothing to fill gaps by."""
    # else a missing category is one of its own
    every = config.data.impute == "most_frequent"
    filled = [name for name in raw.features if every or not raw.is_category(name)]
    counts = raw.frame[filled].iloc[parts.train].count()
    for name in counts.index[counts == 0]:
        found = f"column '{name}' of {raw.name} has no value in the training part"
        yield config.problem(raw.key, found, "add rows, or leave the column out")
