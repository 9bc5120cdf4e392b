"""How much each parameter alone affects a value: functional ANOVA of a random forest.

Optuna's evaluator of this kind imports scikit-learn and took 78 s for 1,000 trials, too long for a
short study; it also treats logarithmic ranges as linear ones, and leaves out parameters that some
trials lack.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "trial parameter"]
Vector = Float[np.ndarray, " trial"]
Leaves = tuple[np.ndarray, np.ndarray, np.ndarray]

MAX_TREES = 32
_MAX_TRIALS = 300
_CELLS = 64  # number of points at which each axis of the unit cube is evaluated


def main_effects(
    places: Matrix, values: Vector, rng: np.random.Generator, n_trees: int = MAX_TREES
) -> np.ndarray:
    """The share of the variance of `values` that each parameter explains alone, from 0 to 1.

    `places` are the trials in the unit cube, assumed to be searched uniformly. The shares sum to
    less than 1 if parameters only explain the rest together. Many trials are sampled.
    """
    values = _without_outliers(values)
    shares = np.zeros((n_trees, places.shape[1]))
    for tree in range(n_trees):
        drawn = rng.integers(len(values), size=min(len(values), _MAX_TRIALS))
        shares[tree] = _shares(_leaves(places[drawn], values[drawn]))
    return shares.mean(axis=0)


def rank_correlation(places: Vector, values: Vector) -> float | None:
    """Spearman's rank correlation; None if either is constant."""
    if np.ptp(places) == 0 or np.ptp(values) == 0:
        return None
    return float(np.corrcoef(_ranks(places), _ranks(values))[0, 1])


def _ranks(numbers: Vector) -> Vector:
    """The ranks of numbers; equal numbers share their mean rank."""
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[which]


def _without_outliers(values: Vector) -> Vector:
    """`values` clipped to Tukey's outer fences; one outlier could cause most of the variance."""
    low, high = np.quantile(values, (0.25, 0.75))
    reach = 3 * (high - low)
    return np.clip(values, low - reach, high + reach) if reach > 0 else values


def _leaves(places: Matrix, values: Vector) -> Leaves:
    """The boxes of a fully grown regression tree: lower and upper corners, and means."""
    n_parameters = places.shape[1]
    growing = [(np.arange(len(values)), np.zeros(n_parameters), np.ones(n_parameters))]
    leaves: list[tuple[np.ndarray, np.ndarray, float]] = []
    while growing:
        rows, low, high = growing.pop()
        split = _best_split(places[rows], values[rows])
        if split is None:
            leaves.append((low, high, float(values[rows].mean())))
            continue
        parameter, threshold = split
        is_left = places[rows, parameter] < threshold
        left_high, right_low = high.copy(), low.copy()
        left_high[parameter] = right_low[parameter] = threshold
        growing += [(rows[is_left], low, left_high), (rows[~is_left], right_low, high)]
    lows, highs, means = zip(*leaves, strict=True)
    return np.array(lows), np.array(highs), np.array(means)


def _best_split(places: Matrix, values: Vector) -> tuple[int, float] | None:
    """The parameter and threshold that leave the least variance; None if no split is possible."""
    n = len(values)
    if n < 2 or np.ptp(values) == 0:
        return None
    order = np.argsort(places, axis=0, kind="stable")
    ordered = np.take_along_axis(places, order, axis=0)
    left = np.cumsum(values[order], axis=0)[:-1]
    n_left = np.arange(1, n)[:, None]
    gain = left**2 / n_left + (left[-1] + values[order][-1] - left) ** 2 / (n - n_left)
    can_split = ordered[1:] > ordered[:-1]
    if not can_split.any():
        return None
    gain[~can_split] = -np.inf
    row, parameter = np.unravel_index(np.argmax(gain), gain.shape)
    return int(parameter), float(ordered[row : row + 2, parameter].mean())


def _shares(leaves: Leaves) -> np.ndarray:
    """For each parameter, the share of variance of the mean over all other parameters."""
    low, high, means = leaves
    sizes = high - low
    volumes = sizes.prod(axis=1)
    variance = volumes @ means**2 - (volumes @ means) ** 2
    if variance <= 1e-12:
        return np.zeros(low.shape[1])
    middles = (np.arange(_CELLS) + 0.5) / _CELLS
    covers = (low[:, :, None] <= middles) & (middles < high[:, :, None])
    marginal = np.einsum("l,lp,lpc->pc", means * volumes, 1 / sizes, covers.astype(float))
    return np.minimum(marginal.var(axis=1) / variance, 1.0)
