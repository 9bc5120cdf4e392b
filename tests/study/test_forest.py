"""Main effects are those of functional ANOVA; a correlation is Spearman's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from sweeper.study.importance import main_effects, rank_correlation

Function = Callable[[np.ndarray], np.ndarray]
FUNCTIONS: dict[str, Function] = {
    "linear": lambda x: 3 * x[0] + x[1],
    "bowl": lambda x: 10 * (x[0] - 0.4) ** 2 + 0.5 * x[1],
    "cliff": lambda x: np.exp(25 * x[0]) + x[1],
    "step": lambda x: (x[0] > 0.55) + 0.4 * x[1],
}


def drawn(n_trials: int, seed: int, n_parameters: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=(n_trials, n_parameters))


def effects_of(places: np.ndarray, values: np.ndarray) -> np.ndarray:
    return main_effects(places, values, np.random.default_rng(0))


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_the_parameter_that_explains_most_comes_first_with_20_trials(function: Function) -> None:
    places = [drawn(20, seed) for seed in range(5)]
    assert [int(effects_of(own, function(own.T)).argmax()) for own in places] == [0] * 5


def test_many_trials_give_the_shares_of_the_function() -> None:
    places = drawn(300, 1, 3)
    found = effects_of(places, 3 * places[:, 0] + places[:, 1])
    assert found == pytest.approx([0.9, 0.1, 0.0], abs=0.04)


def test_what_parameters_explain_only_together_is_not_shared_out() -> None:
    places = drawn(300, 2, 2)
    values = np.sign(places - 0.5).prod(axis=1)
    assert effects_of(places, values).sum() < 0.2


def test_one_outlier_does_not_decide() -> None:
    places = drawn(30, 3)
    values = 3 * places[:, 0] + places[:, 1]
    values[7] = 1e12
    assert int(effects_of(places, values).argmax()) == 0


def test_equal_values_have_no_explanation() -> None:
    assert not effects_of(drawn(12, 4), np.ones(12)).any()
    assert not effects_of(np.full((12, 2), 0.5), np.arange(12.0)).any()


def test_equal_numbers_share_their_rank() -> None:
    places, values = np.array([1.0, 2, 2, 3, 5, 5]), np.array([9.0, 7, 8, 7, 1, 2])
    expected = pd.Series(places).rank().corr(pd.Series(values).rank())
    assert rank_correlation(places, values) == pytest.approx(expected)
    assert rank_correlation(places, -np.exp(places)) == pytest.approx(-1)
    assert rank_correlation(np.ones(6), values) is None
