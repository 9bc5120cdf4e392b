"""Rows as a study reads them, to try a model on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sweeper.config import StudyConfig
from sweeper.data.prepare import read
from sweeper.data.split import split_rows
from sweeper.data.transform import Transform

_UNKNOWN = "a value that no row has"
_MADE_ROWS = 64


def validation_rows(config: StudyConfig, most: int) -> pd.DataFrame:
    """Validation rows of a study before anything is changed, at most this many, evenly chosen.

    With folds, these are training rows.

    Raises:
        DataError: the data cannot be read.
    """
    raw = read(config)
    split = split_rows(config, raw)
    rows = split.val if len(split.val) else split.train
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int))
    return raw.frame[raw.features].iloc[np.sort(rows[chosen])]


def odd_rows(transform: Transform) -> dict[str, Any]:
    """Artificial rows with gaps, numbers beyond the training range and unknown categories."""
    rng = np.random.default_rng(0)
    scaled = rng.normal(0.0, 2.0, (_MADE_ROWS, len(transform.numbers)))
    x = scaled if transform.scaling is None else transform.scaling.undo(scaled)
    x[::7] += np.ptp(x, axis=0)
    x[3::7] -= np.ptp(x, axis=0)
    found: dict[str, Any] = {}
    for place, name in enumerate(transform.numbers):
        if transform.fills:
            x[place % 5 :: 5, place] = np.nan
        found[name] = x[:, place]
    for one in transform.categories:
        values = [one.values[row % len(one.values)] for row in range(_MADE_ROWS)]
        values[5::13], values[7::11] = [_UNKNOWN] * 5, [None] * 6
        found[one.name] = values
    return found
