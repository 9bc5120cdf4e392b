"""How many rows each part of a study's data gets."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sweeper.config import StudyConfig


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows each part gets; `train` is what the others leave, and may be below 1."""

    train: int
    val: int
    test: int

    @property
    def n_parts(self) -> int:
        """Two where there is no test part, else three."""
        return 2 + (self.test > 0)


def part_sizes(config: StudyConfig, n_rows: int) -> Sizes:
    """The shares of the study file in rows, rounded up as scikit-learn does."""
    shares = config.data.split
    val, test = ceil(shares.val * n_rows), ceil(shares.test * n_rows)
    return Sizes(n_rows - val - test, val, test)
