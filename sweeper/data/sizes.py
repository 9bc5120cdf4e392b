"""How many rows each split of a study's data gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from sweeper.config import StudyConfig


@dataclass(frozen=True, slots=True)
class SplitSizes:
    """How many rows each split gets; `train` is what the others leave, and may be below 1.

    With `folds`, each fold in turn is taken from `train` for validation. `also` is how many rows of
    the other splits are trained on, too.
    """

    train: int
    val: int
    test: int
    folds: int = 0
    also: int = 0

    @property
    def n_splits(self) -> int:
        """How many splits the rows are in: folds, or training and validation, plus testing."""
        return (self.folds or 2) + (self.test > 0)

    @property
    def smallest(self) -> int:
        """The rows of the smallest split that the study has."""
        return min([self.train, *(size for size in (self.val, self.test) if size)])

    def has_each(self, rows: int) -> bool:
        """Whether every split, and every fold, gets some of the `rows` of a class, if stratified.

        The test rows are drawn first, and may take one more of a class than its share.
        """
        if not self.folds or rows < self.n_splits:
            return rows >= self.n_splits
        return rows - ceil(rows * self.test / (self.train + self.test)) >= self.folds

    @property
    def least_train(self) -> int:
        """The fewest rows that any training uses."""
        held_out = ceil(self.train / self.folds) if self.folds else 0
        return self.train - held_out + self.also


def split_sizes(config: StudyConfig, n_rows: int) -> SplitSizes:
    """The shares of the study file in rows, rounded up as in scikit-learn.

    With folds, all rows that are not for testing are for training.
    """
    shares = config.data.split
    val, test = ceil(shares.val * n_rows), ceil(shares.test * n_rows)
    if config.study.folds is not None:
        val = 0
    also = also_trained(config, val, test)
    return SplitSizes(n_rows - val - test, val, test, config.study.folds or 0, also)


def also_trained(config: StudyConfig, val: int, test: int) -> int:
    """How many of the `val` and `test` rows are trained on, too."""
    return {"train": 0, "train+val": val, "all": val + test}[config.data.split.train_on]


def can_stratify(config: StudyConfig, rows_of_classes: Iterable[int]) -> bool:
    """Whether `data.split.stratify = true`, which the study lacks, would be accepted.

    Classes have these numbers of rows.
    """
    ways, rows = config.data.split, [*rows_of_classes]
    if not rows or ways.stratify or any((ways.group, ways.time, ways.column)):
        return False
    return split_sizes(config, sum(rows)).has_each(min(rows))
