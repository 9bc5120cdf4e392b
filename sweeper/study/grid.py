"""Every point of a finite space, each once, in an order of the study's seed.

Optuna's own grid sampler ends a study that asks and tells with an error, so points are enqueued.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.config.conditions import in_order
from sweeper.trial import Scalar, generator


class GridPoints:
    """The points of a study's space; trial `number` is the `number`-th of them."""

    def __init__(self, config: StudyConfig) -> None:
        self._values = {name: entry.values() or () for name, entry in config.columns.items()}
        self._points = _points(config)
        self._order = generator(config.study.seed, "grid").permutation(len(self._points))

    def point(self, number: int) -> dict[str, Scalar]:
        """The parameters of trial `number`; those of no use have their first value."""
        places = np.unravel_index(int(self._points[self._order[number]]), _shape(self._values))
        return {
            name: values[int(place)]
            for place, (name, values) in zip(places, self._values.items(), strict=True)
        }


def n_points(config: StudyConfig) -> int:
    """How many points the space has; every entry is finite, as `config` has checked."""
    return len(_points(config)) if _is_conditional(config) else n_combinations(config)


def n_combinations(config: StudyConfig) -> int:
    """How many points there are where conditions are left out of account."""
    product = 1
    for entry in config.search.values():
        product *= entry.count() or 0
    return product


def _points(config: StudyConfig) -> NDArray[np.int64]:
    """The combinations of values in which every setting of no use has its first value."""
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
