"""From the data that a study names to a dataset: read, check, split, encode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sweeper.config import StudyConfig
from sweeper.data.checks import notes, problems
from sweeper.data.dataset import Dataset
from sweeper.data.encode import encode, scaled_features
from sweeper.data.features import categories_of
from sweeper.data.folds import with_folds
from sweeper.data.part_checks import group_notes
from sweeper.data.prepare import read
from sweeper.data.raw import RawData
from sweeper.data.room import check_room
from sweeper.data.split import Parts, groups_of, split
from sweeper.errors import DataError, Problem


def prepare(config: StudyConfig) -> Dataset:
    """The dataset that every trial of the study trains on; a function of the file and its seed.

    Raises:
        DataError: the data is missing, unfit or too large; the message has every problem, and its
            mend.
    """
    raw = read(config)
    _refuse(problems(config, raw))
    parts = split(config, raw)
    _refuse(_untrained(config, raw, parts))
    categories = categories_of(config, raw, parts)
    check_room(config, raw, categories)
    data, groups = encode(config, raw, parts, categories), groups_of(config, raw)
    data = replace(data, notes=(*raw.notes, *notes(config, raw), *group_notes(config, raw)))
    of_training = None if groups is None else groups[parts.train]
    return with_folds(config, data, scaled_features(config, raw, data), of_training)


def _refuse(found: Iterator[Problem]) -> None:
    if every := tuple(found):
        raise DataError(every)


def _untrained(config: StudyConfig, raw: RawData, parts: Parts) -> Iterator[Problem]:
    """Columns that are missing in every training row, so that there is nothing to fill gaps by."""
    # else a missing category is one of its own
    every = config.data.impute == "most_frequent"
    for name in raw.features:
        is_filled = every or not raw.is_category(name)
        if not is_filled or raw.frame[name].iloc[parts.train].count():
            continue
        found = f"column '{name}' of {raw.name} has no value in the training part"
        yield config.problem(raw.key, found, "add rows, or leave the column out")
