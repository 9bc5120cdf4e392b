"""The task of every peer: the data, the trials and how long to train them.

A peer is a program with one argument, a problem as JSON, which prints one line of JSON: the best
and the mean of the validation accuracies after the last epoch, and the number of trials.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEARNING_RATES = (1e-4, 1e-2)
WEIGHT_DECAYS = (1e-6, 1e-1)


class Trial(NamedTuple):
    """The searched settings of one network, and the class that the project trained it in."""

    depth: int
    width: int
    lr: float
    weight_decay: float
    class_id: str = ""
    class_depth: int = 0
    class_width: int = 0


class Data(NamedTuple):
    """The training and the validation part, inputs scaled by the training part."""

    x: NDArray[np.float32]
    y: NDArray[np.int32]
    x_val: NDArray[np.float32]
    y_val: NDArray[np.int32]

    @property
    def n_classes(self) -> int:
        """How many classes the target has; they count from 0."""
        return int(self.y.max()) + 1


@dataclass(frozen=True, slots=True)
class Problem:
    """A search to run; `widths` is "powers" of two or "integers" within the limits of `width`.

    `data` is "digits" or an .npz file with x and y. `drawn` is a JSON file of the trials; without
    it they are drawn by `seed`.
    """

    trials: int
    epochs: int = 20
    batch_size: int = 64
    depth: tuple[int, int] = (1, 4)
    width: tuple[int, int] = (16, 128)
    widths: str = "powers"
    data: str = "digits"
    seed: int = 0
    drawn: str | None = None

    def draw(self) -> list[Trial]:
        """The trials, the same for every peer."""
        if self.drawn is not None:
            return [Trial(*row) for row in json.loads(Path(self.drawn).read_text())]
        rng = np.random.default_rng(self.seed)
        return [self._trial(rng) for _ in range(self.trials)]

    def load(self) -> Data:
        """The data, split and scaled as the project does."""
        # only here, because some programs need only the trials
        from sklearn.model_selection import train_test_split

        x, y = self._rows()
        rest, _ = train_test_split(
            np.arange(len(y)), test_size=ceil(0.1 * len(y)), random_state=self.seed, stratify=y
        )
        train, val = train_test_split(
            rest, test_size=ceil(0.2 * len(y)), random_state=self.seed, stratify=y[rest]
        )
        mean, spread = x[train].mean(0), x[train].std(0)
        x = ((x - mean) / np.where(spread > 0, spread, 1)).astype(np.float32)
        return Data(x[train], y[train], x[val], y[val])

    def _rows(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        if self.data == "digits":
            from sklearn.datasets import load_digits

            x, y = load_digits(return_X_y=True)
        else:
            with np.load(self.data) as arrays:
                x, y = arrays["x"], arrays["y"]
        return x, y.astype(np.int32)

    def _trial(self, rng: np.random.Generator) -> Trial:
        low, high = self.width
        if self.widths == "powers":
            width = 2 ** int(rng.integers(low.bit_length() - 1, high.bit_length()))
        else:
            width = int(rng.integers(low, high + 1))
        depth = int(rng.integers(self.depth[0], self.depth[1] + 1))
        lr, weight_decay = (_log_uniform(rng, *ends) for ends in (LEARNING_RATES, WEIGHT_DECAYS))
        return Trial(depth, width, lr, weight_decay)


def read() -> Problem:
    """The problem in the program's argument."""
    return Problem(**json.loads(sys.argv[1]))


def report(accuracies: Sequence[float]) -> None:
    """Print the results of the trials."""
    best, mean = max(accuracies), sum(accuracies) / len(accuracies)
    print(json.dumps({"best": best, "mean": mean, "trials": len(accuracies)}))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
