"""The split that a column of the data gives: training, validation or testing for each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from sweeper.config import StudyConfig
from sweeper.config.data import SplitTable
from sweeper.config.refusals import format_value
from sweeper.data.raw import RawData
from sweeper.data.sizes import SplitSizes, also_trained
from sweeper.errors import Problem, listed

_KEY = "data.split.column"
# what a row may say, in any case
_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
_VALUES_SHOWN = 5
PARTS_HINT = "write train, val or test in each row"


@dataclass(frozen=True, slots=True)
class GivenSplit:
    """The rows that a column says are for training, for validation and for testing."""

    train: NDArray[np.intp]
    val: NDArray[np.intp]
    test: NDArray[np.intp]

    def validation_pool(self, config: StudyConfig) -> NDArray[np.intp]:
        """The rows to draw validation rows from, in order; empty if the column marks such rows.

        Folds are drawn from all rows that are not for testing.
        """
        if config.study.folds is not None:
            return np.sort(np.concatenate([self.train, self.val]))
        return self.train[:0] if len(self.val) else self.train


def given_split(config: StudyConfig, raw: RawData) -> GivenSplit | None:
    """The rows of each split by `data.split.column`; None if the study has no such column."""
    name = config.data.split.column
    if name is None:
        return None
    parts = _parts(raw.frame[name])
    return GivenSplit(*(np.flatnonzero(parts == part) for part in ("train", "val", "test")))


def given_sizes(config: StudyConfig, given: GivenSplit) -> SplitSizes:
    """How many rows each split gets; without those for testing if others are drawn."""
    n_pool = len(given.validation_pool(config))
    if config.study.folds is not None:
        return SplitSizes(n_pool, 0, 0, config.study.folds)
    if n_pool:
        val = ceil(config.data.split.val * n_pool)
        return SplitSizes(n_pool - val, val, 0, also=also_trained(config, val, len(given.test)))
    val, test = len(given.val), len(given.test)
    return SplitSizes(len(given.train), val, test, also=also_trained(config, val, test))


def given_notes(config: StudyConfig, raw: RawData) -> Iterator[str]:
    """Warnings about settings of a split that have no effect, since a column gives it."""
    given = given_split(config, raw)
    if given is None:
        return
    split, usual = config.data.split, SplitTable()
    idle = [("test", split.test, usual.test, "testing")]
    if not len(given.validation_pool(config)):
        keys = ["val", "stratify", *([] if config.repeats_split else ["seed"])]
        idle += [(key, getattr(split, key), getattr(usual, key), "validation") for key in keys]
    for key, value, default, use in idle:
        if value != default:
            yield (
                f"data.split.{key} = {format_value(value)} changes nothing: column "
                f"'{split.column}' says which rows are for {use}; remove it"
            )


def _parts(column: pd.Series[Any]) -> NDArray[Any]:
    """The split of each row; missing if the column says none."""
    return column.astype(str).str.strip().str.lower().map(_WORDS).to_numpy(object)


def splits_rows(column: pd.Series[Any]) -> bool:
    """Whether each value of a column names a split, and more than one of them occurs."""
    if is_numeric_dtype(column.dtype):
        return False
    parts = {_WORDS.get(str(value).strip().lower()) for value in column.unique()}
    return "train" in parts and None not in parts and len(parts) > 1


def given_problems(config: StudyConfig, raw: RawData, name: str) -> Iterator[Problem]:
    """Values of the column that name no split, or no row to train on."""
    column = raw.frame[name]
    parts = _parts(column)
    if stray := np.flatnonzero(pd.isna(parts)).tolist():
        values = [repr(value) for value in column.iloc[stray].unique().tolist()]
        shown = values[:_VALUES_SHOWN] + (["others"] if len(values) > _VALUES_SHOWN else [])
        what = f"{'does' if len(stray) == 1 else 'do'} not name a split: {listed(shown)}"
        yield config.problem(_KEY, raw.describe_rows(name, stray, what), PARTS_HINT)
    elif "train" not in parts:
        found = f"column '{name}' of {raw.name} has no row for training"
        yield config.problem(_KEY, found, PARTS_HINT)
