"""Every point of a finite space, each once, in an order determined by the study's seed.

Optuna's grid sampler ends an ask-and-tell study with an error, so points are enqueued.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.config.conditions import in_order
from sweeper.trial import Scalar, generator


class GridPoints:
    """The points of a study's space; trial `number` has the `number`-th of them."""

    def __init__(self, config: StudyConfig) -> None:
        self._values = {name: entry.values() or () for name, entry in config.columns.items()}
        self._points = _points(config)
        self._order = generator(config.study.seed, "grid").permutation(len(self._points))

    def point(self, number: int) -> dict[str, Scalar]:
        """The parameters of trial `number`; unused ones have their first value."""
        places = np.unravel_index(int(self._points[self._order[number]]), _shape(self._values))
        return {
            name: values[int(place)]
            for place, (name, values) in zip(places, self._values.items(), strict=True)
        }


def n_points(config: StudyConfig) -> int:
    """The number of points in the space; `config` has checked that it is finite."""
    return len(_points(config)) if _is_conditional(config) else n_combinations(config)


def n_combinations(config: StudyConfig) -> int:
    """The number of points if conditions are ignored."""
    product = 1
    for entry in config.search.values():
        product *= entry.count() or 0
    return product


def _points(config: StudyConfig) -> NDArray[np.int64]:
    """The combinations of values in which every unused setting has its first value."""
    values = {key: entry.values() or () for key, entry in config.search.items()}
    every = np.arange(n_combinations(config))
    if not _is_conditional(config):
        return every
    places = dict(zip(values, np.unravel_index(every, _shape(values)), strict=True))
    active: dict[str, NDArray[np.bool_]] = {}
    for key in in_order(config.search):
        active[key] = np.ones(len(every), bool)
        for parent, wanted in (config.search[key].when or {}).items():
            fitting = [place for place, value in enumerate(values[parent]) if value in wanted]
            active[key] &= active[parent] & np.isin(places[parent], fitting)
    kept = [active[key] | (places[key] == 0) for key in values]
    return every[np.logical_and.reduce(kept)]


def _is_conditional(config: StudyConfig) -> bool:
    return any(entry.when for entry in config.search.values())


def _shape(values: dict[str, tuple[Scalar, ...]]) -> tuple[int, ...]:
    return tuple(map(len, values.values()))
