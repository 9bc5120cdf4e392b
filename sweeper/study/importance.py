"""How much each parameter matters, by several measures, updated trial by trial."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial

from sweeper.config import StudyConfig
from sweeper.config.search import CategoricalSearch, FloatSearch, SearchEntry
from sweeper.study.frozen_trials import blank_study, frozen_trials
from sweeper.study.private_apis import importance_evaluator
from sweeper.trial import generator

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


LEAST_TRIALS = 10  # fewer are not meaningful
_LEAST_TREES = 8
ParameterMeasures = Mapping[str, float | int | None]


def enclosing_distributions(config: StudyConfig) -> dict[str, BaseDistribution]:
    """A distribution of each parameter that has all its values, by column."""
    return {name: _enclosing_distribution(entry) for name, entry in config.columns.items()}


class Importance:
    """The importance of parameters, from the trials reported so far; for one thread at a time."""

    def __init__(self, config: StudyConfig) -> None:
        self._config = config
        self._study = blank_study(config, InMemoryStorage(), config.study.name)
        self._evaluator = importance_evaluator()
        self._distributions = enclosing_distributions(config)
        self._numbers: list[int] = []
        self._places: list[list[float]] = []
        self._values: list[Sequence[float]] = []

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows of COMPLETE trials, with columns of trials.parquet."""
        for trial in frozen_trials(self._config, [*rows], {}, self._distributions):
            self._study._storage.create_new_trial(self._study._study_id, trial)
            self._numbers.append(trial.number)
            self._places.append(self._place(trial))
            self._values.append(trial.values)

    def of(self, objective: int) -> dict[str, ParameterMeasures]:
        """The measures of each searched parameter for an objective, by table column.

        `importance` is Optuna's PED-ANOVA, `fanova` the share of the variance of the values that
        the parameter explains alone, `rank_correlation` Spearman's. The last two are based on the
        `n_trials_with` trials that have the parameter, and None if there are too few.
        """
        ped_anova = self._ped_anova(objective)
        order = np.argsort(self._numbers)  # trials end in another order if a study was resumed
        places = np.array(self._places)[order]
        values = np.array(self._values, float)[order, objective]
        shares = self._main_effects(places, values, objective)
        found: dict[str, ParameterMeasures] = {}
        for at, (name, distribution) in enumerate(self._distributions.items()):
            has = np.isfinite(places[:, at])
            correlation = None
            if shares[at] is not None and _is_ordered(distribution):
                correlation = rank_correlation(places[has, at], values[has])
            found[name] = {
                "importance": ped_anova[name],
                "fanova": shares[at],
                "rank_correlation": correlation,
                "n_trials_with": int(has.sum()),
            }
        return found

    def _main_effects(
        self, places: np.ndarray, values: np.ndarray, objective: int
    ) -> list[float | None]:
        """The measures of each parameter, among the trials that have it."""
        has = np.isfinite(places)
        patterns = [column.tobytes() for column in has.T]
        n_trees = max(_LEAST_TREES, MAX_TREES // len({*patterns}))
        known: dict[bytes, dict[int, float]] = {}
        for pattern, rows in zip(patterns, has.T, strict=True):
            if pattern not in known and rows.sum() >= LEAST_TRIALS:
                shared = np.flatnonzero(has[rows].all(axis=0))
                rng = generator(self._config.study.seed, "importance", objective)
                shares = main_effects(places[rows][:, shared], values[rows], rng, n_trees)
                known[pattern] = dict(zip(shared.tolist(), shares.tolist(), strict=True))
        return [known.get(pattern, {}).get(at) for at, pattern in enumerate(patterns)]

    def _ped_anova(self, objective: int) -> dict[str, float]:
        """Optuna's PED-ANOVA; the measures sum to 1, or all are 0 if no parameter matters."""
        maximizes = self._config.study.directions[objective] == "maximize"

        def cost(trial: FrozenTrial) -> float:
            return -trial.values[objective] if maximizes else trial.values[objective]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self._evaluator.evaluate(self._study, target=cost)
        known = {name: max(0.0, float(found.get(name, 0.0))) for name in self._config.columns}
        total = sum(known.values())
        return {name: value / total if total else 0.0 for name, value in known.items()}

    def _place(self, trial: FrozenTrial) -> list[float]:
        """A trial's position in the search space, from 0 to 1; nan for parameters it lacks."""
        return [
            _position(trial.params[name], distribution) if name in trial.params else np.nan
            for name, distribution in self._distributions.items()
        ]


def _enclosing_distribution(entry: SearchEntry) -> BaseDistribution:
    """One range for all values of an entry, including those of `or`; powers are logarithmic."""
    if isinstance(entry, CategoricalSearch):
        return CategoricalDistribution(entry.choices)
    values = (entry.low, *entry.or_values, entry.high)
    low, high = min(values), max(values)
    is_log = (entry.log or getattr(entry, "base", None) is not None) and low > 0
    if isinstance(entry, FloatSearch):
        return FloatDistribution(low, high, log=is_log)
    step = 1 if is_log or entry.or_values else entry.step
    return IntDistribution(int(low), int(high - (high - low) % step), log=is_log, step=step)


def _position(value: Any, distribution: Any) -> float:
    """The position of a value in its searched range, from 0 to 1."""
    if isinstance(distribution, CategoricalDistribution):
        choices = distribution.choices
        if _is_ordered(distribution):
            choices = sorted(choices)  # pyright: ignore[reportArgumentType]
        return (choices.index(value) + 0.5) / len(choices)
    low, high, value = float(distribution.low), float(distribution.high), float(value)
    if low == high:
        return 0.5
    if distribution.log:
        return float(np.log(value / low) / np.log(high / low))
    return (value - low) / (high - low)


def _is_ordered(distribution: BaseDistribution) -> bool:
    """Whether the values of a parameter are numbers or booleans."""
    if not isinstance(distribution, CategoricalDistribution):
        return True
    return all(isinstance(choice, bool | int | float) for choice in distribution.choices)
