"""From the data that a study names to a dataset: read, check, split, encode."""

from __future__ import annotations

from sweeper.config import StudyConfig
from sweeper.data import sources
from sweeper.data.checks import problems
from sweeper.data.dataset import Dataset
from sweeper.data.encode import encode, scaled_features
from sweeper.data.folds import with_folds
from sweeper.data.split import split
from sweeper.errors import DataError


def prepare(config: StudyConfig) -> Dataset:
    """The dataset that every trial of the study trains on; a function of the file and its seed.

    Raises:
        DataError: the data is missing or unfit; the message has every problem, and its mend.
    """
    raw = sources.read(config)
    found = tuple(problems(config, raw))
    if found:
        raise DataError(found)
    data = encode(config, raw, split(config, raw.frame[raw.target].to_numpy()))
    return with_folds(config, data, scaled_features(raw, data))
