"""Whether there is room to prepare a study's data, asked before anything large is made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sweeper.config import StudyConfig
from sweeper.data.blocks import block_bytes
from sweeper.data.features import feature_names, numbers_of
from sweeper.data.memory import check_host
from sweeper.data.raw import RawData
from sweeper.data.transform import Category

# columns are filled, scaled and measured in copies of a block
_BLOCKS_AT_ONCE = 6
# of each row while a target or a category is encoded: codes, places, a text
_ROW_BYTES = 96


def check_room(config: StudyConfig, raw: RawData, categories: Sequence[Category]) -> None:
    """Refuse data that take more than this machine's share of memory while they are prepared.

    Raises:
        DataError: with both numbers; a category of most features is named.
    """
    widest = max(categories, key=lambda one: len(one.values), default=None)
    mends: list[str] = []
    why = "while they are prepared"
    n_features = len(feature_names(config, raw, categories))
    if config.data.categorical == "onehot" and widest and len(widest.values) > n_features / 2:
        why += f", most of it a column for each of {len(widest.values)} values of '{widest.name}'"
        mends.append('write data.categorical = "ordinal"')
    check_host(config, peak_bytes(config, raw, categories), why, mends)


def peak_bytes(config: StudyConfig, raw: RawData, categories: Sequence[Category]) -> int:
    """What is held at the most: what was read, what it becomes, and the columns between."""
    n_features = len(feature_names(config, raw, categories))
    size = np.dtype(config.execution.precision).itemsize
    becomes = len(raw.frame) * n_features * size
    read = int(raw.frame.memory_usage(deep=True).sum())
    n_rows, n_wholes = len(raw.frame), len(raw.targets) + bool(categories)
    block = block_bytes(n_rows, max(len(numbers_of(raw)), len(categories)))
    return read + becomes + _BLOCKS_AT_ONCE * block + _ROW_BYTES * n_rows * n_wholes
