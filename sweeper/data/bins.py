"""The bins of numbers for piecewise-linear encoding, fitted to the training rows.

By quantiles or by a decision tree, as in Gorishniy et al. 2022 (arXiv 2203.05556, sections 3.2 and
3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from sweeper.config import StudyConfig
from sweeper.config.model import bins_name
from sweeper.data.dataset import Dataset, Edges
from sweeper.data.raw import RawData
from sweeper.errors import DataError


def bins_of(config: StudyConfig, raw: RawData, data: Dataset) -> dict[str, Edges]:
    """The edges of the bins of each number, for each way to choose them that is used.

    They are fitted to the training rows as networks see them, numbers first; with folds, to all
    rows that are not for testing. Keys are as in `bins_name`.

    Raises:
        DataError: no column has different numbers.
    """
    places = range(len(raw.numbers))
    found = {
        bins_name(way, count): tuple(_edges(way, count, place, data) for place in places)
        for way, count in config.used_bins
    }
    is_embedded = "plr" in config.number_encodings
    if (is_embedded and not raw.numbers) or any(
        max(map(len, edges), default=0) < 2 for edges in found.values()
    ):
        what = "no column of numbers" if not raw.numbers else "only numbers that never change"
        hint = 'write "linear"'
        raise DataError(config.problem("model.numbers", f"{raw.name} has {what} to encode", hint))
    return found


def _edges(way: str, count: int, place: int, data: Dataset) -> tuple[float, ...]:
    """The edges of the bins of one number, increasing; only one if it is constant."""
    x = data.x_train[:, place]
    if way == "tree":
        inner = _thresholds(count, x, data)
        edges = np.array([x.min(), *inner, x.max()], np.float64)
    else:
        edges = np.quantile(x.astype(np.float64), np.linspace(0, 1, count + 1))
    # in the precision of training, in which two edges may be equal
    return tuple(_apart(np.unique(edges.astype(x.dtype)).tolist(), float(np.finfo(x.dtype).max)))


def _apart(edges: Iterable[float], most: float) -> Iterator[float]:
    """Those of the increasing `edges` whose bins have a slope of at most `most`.

    In a narrower bin, numbers times the slope would not be finite.
    """
    last = -math.inf
    for edge in edges:
        if 1 / (edge - last) <= most:
            last = edge
            yield edge


def _thresholds(count: int, x: NDArray[Any], data: Dataset) -> list[float]:
    """Where a decision tree with `count` leaves splits a number to predict the target."""
    if count == 1:  # fewer leaves than a tree may be asked for
        return []
    kind = DecisionTreeClassifier if data.class_names else DecisionTreeRegressor
    tree: Any = kind(max_leaf_nodes=count, random_state=0)
    tree.fit(x[:, None], data.y_train, sample_weight=data.weights("train"))
    fitted = tree.tree_
    return sorted(fitted.threshold[fitted.children_left != fitted.children_right].tolist())
