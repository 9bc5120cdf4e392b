"""Cross-validation: which fold validates each row, and how each fold scales its features."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.encode import SCALERS
from sweeper.data.memory import blocks


def with_folds(
    config: StudyConfig,
    data: Dataset,
    scaled: NDArray[np.bool_],
    groups: NDArray[Any] | None = None,
) -> Dataset:
    """`data` with its training rows in folds, if the study uses folds.

    The folds are scikit-learn's, with the seed of the split as `random_state`; rows of one group in
    `groups` are in one fold. Features marked in `scaled` are scaled by the training rows of each
    fold. Everything else that is fitted to data (categories, fill values, targets) is fitted to all
    rows that are not for testing.
    """
    count = config.study.folds
    if count is None:
        return data
    if groups is None:
        ways: Any = StratifiedKFold if config.data.split.stratify else KFold
        folds = ways(count, shuffle=True, random_state=config.split_seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a note names the classes with few rows
            fold_of = _fold_of_rows(folds.split(data.x_train, data.y_train), len(data.x_train))
    else:
        fold_of = grouped_folds(config, groups, count)
    scaling = [
        _scale_and_shift(config, data.x_train, fold_of != fold, scaled) for fold in range(count)
    ]
    scale, shift = (np.stack(by).astype(data.x_train.dtype) for by in zip(*scaling, strict=True))
    return replace(data, fold_of=fold_of, fold_scale=scale, fold_shift=shift)


def grouped_folds(config: StudyConfig, groups: NDArray[Any], count: int) -> NDArray[np.int32]:
    """The fold that validates each row, the same for all rows of a group."""
    folds = GroupKFold(count, shuffle=True, random_state=config.split_seed)
    return _fold_of_rows(folds.split(groups, groups=groups), len(groups))


def _fold_of_rows(folds: Iterable[tuple[Any, Any]], n_rows: int) -> NDArray[np.int32]:
    fold_of = np.empty(n_rows, np.int32)
    for fold, (_, validated) in enumerate(folds):
        fold_of[validated] = fold
    return fold_of


def _scale_and_shift(
    config: StudyConfig, x: NDArray[Any], rows: NDArray[np.bool_], scaled: NDArray[np.bool_]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The factor and the shift that scale each feature by these `rows`."""
    scale, shift = np.ones(x.shape[1]), np.zeros(x.shape[1])
    features = np.flatnonzero(scaled) if config.data.scale in SCALERS else np.empty(0, np.intp)
    for block in blocks(len(x), len(features)):
        own = features[block]
        scaler: Any = SCALERS[config.data.scale]()
        scaler.fit(np.asarray(x[:, own][rows], np.float64, order="F"))
        # scalers are linear, so two points determine them
        ends = scaler.transform(np.stack([np.zeros(len(own)), np.ones(len(own))]))
        scale[own], shift[own] = ends[1] - ends[0], ends[0]
    return scale, shift
