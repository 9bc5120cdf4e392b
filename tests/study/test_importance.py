"""The importance of a parameter depends on the trials that have it, not on their order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sweeper.config import StudyConfig
from sweeper.study.importance import Importance
from tests.command_line import STUDY
from tests.in_process import study_in

SEARCH = (
    "search={}",
    "search.optimizer.lr={type='float', low=1e-5, high=1e-1, log=true}",
    "search.model.width={type='int', low=8, high=64}",
    "search.model.activation={type='categorical', choices=['relu', 'tanh']}",
    "search.model.dropout={type='float', low=0.1, high=0.5, when={'model.activation'=['tanh']}}",
    "search.train.batch_size={type='categorical', choices=[64, 16]}",
)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> StudyConfig:
    return study_in(tmp_path_factory.mktemp("importance"), STUDY, *SEARCH)


def rows(n_trials: int, dropout: float = 0.0) -> list[dict[str, Any]]:
    """Trials whose value depends on the learning rate for nine tenths, and on this of dropout."""
    rng = np.random.default_rng(5)
    found: list[dict[str, Any]] = []
    for number in range(n_trials):
        lr, share, size = rng.uniform(-5, -1), rng.uniform(0.1, 0.5), rng.uniform(8, 64)
        params: dict[str, Any] = {"lr": 10**lr, "width": int(size), "activation": "relu"}
        params["batch_size"] = 16 if rng.uniform() < 0.5 else 64
        if number % 2:
            params |= {"activation": "tanh", "dropout": share}
        value = -3 * (lr + 5) / 4 + (size - 8) / 56 + dropout * params.get("dropout", 0.0)
        found.append(
            {
                "trial_number": number,
                "state": "COMPLETE",
                "value": value,
                "params_json": json.dumps(params),
            }
        )
    return found


def importance(config: StudyConfig, *parts: list[dict[str, Any]]) -> dict[str, Any]:
    known = Importance(config)
    for part in parts:
        known.add(part)
    return dict(known.of(0))


def test_the_learning_rate_comes_first_and_has_a_sign(config: StudyConfig) -> None:
    found = importance(config, rows(20))
    assert max(found, key=lambda name: found[name]["fanova"] or 0.0) == "lr"
    assert found["lr"]["fanova"] > 0.5
    assert found["lr"]["rank_correlation"] < -0.7
    assert sum(own["importance"] for own in found.values()) == pytest.approx(1)
    assert set(found) == set(config.columns)


def test_a_conditional_parameter_is_judged_among_the_trials_that_have_it(
    config: StudyConfig,
) -> None:
    found = importance(config, rows(60, dropout=30.0))
    assert found["dropout"]["n_trials_with"] == 30
    assert found["lr"]["n_trials_with"] == 60
    assert found["dropout"]["fanova"] > 0.7
    assert found["dropout"]["rank_correlation"] > 0.8


def test_too_few_trials_with_a_parameter_give_no_measures(config: StudyConfig) -> None:
    found = importance(config, rows(18))["dropout"]
    assert (found["n_trials_with"], found["fanova"], found["rank_correlation"]) == (9, None, None)


def test_choices_have_a_rank_if_they_are_numbers(config: StudyConfig) -> None:
    trials = rows(40)
    for row in trials:
        row["value"] = float(json.loads(row["params_json"])["batch_size"])
    found = importance(config, trials)
    assert found["batch_size"]["rank_correlation"] == pytest.approx(1)
    assert found["activation"]["rank_correlation"] is None


def test_the_order_in_which_trials_ended_changes_nothing(config: StudyConfig) -> None:
    trials = rows(24)
    assert importance(config, trials) == importance(config, trials[12:], trials[:12][::-1])
