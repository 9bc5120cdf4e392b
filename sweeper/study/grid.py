"""Every point of a finite space, each once, in an order of the study's seed.

Optuna's own grid sampler ends a study that asks and tells with an error, so points are enqueued.
"""

from __future__ import annotations

import numpy as np

from sweeper.config import StudyConfig
from sweeper.randomness import generator
from sweeper.study.options import n_points
from sweeper.study.space import drawn
from sweeper.trial import Scalar


class Grid:
    """The points of a study's space; trial `number` is the `number`-th of them."""

    def __init__(self, config: StudyConfig) -> None:
        self._entries = config.columns
        self._values = {name: entry.values() or () for name, entry in self._entries.items()}
        self._order = generator(config.study.seed, "grid").permutation(n_points(config))

    def point(self, number: int) -> dict[str, Scalar]:
        """The parameters of trial `number`, as the sampler would have drawn them."""
        sizes = [len(values) for values in self._values.values()]
        places = np.unravel_index(int(self._order[number]), sizes)
        return {
            name: drawn(self._entries[name], int(place), values[int(place)])
            for place, (name, values) in zip(places, self._values.items(), strict=True)
        }
