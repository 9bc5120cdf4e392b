"""Ray Tune over the PyTorch function of `torch_joblib.py`, one core per trial."""

from __future__ import annotations

import logging
import os
import tempfile
from typing import Any

import problem
import ray
from problem import Data, Problem, Trial
from ray import tune
from torch_joblib import train


def trainable(
    config: dict[str, Any], task: Problem, trials: list[Trial], data: Data
) -> dict[str, float]:
    """The function that Ray Tune calls for a trial: its last result."""
    number = config["number"]
    return {"accuracy": train(task, trials[number], data, number)}


def main() -> None:
    """Train every trial."""
    task = problem.read()
    known = {"task": task, "trials": task.draw(), "data": task.load()}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        tuner = tune.Tuner(
            tune.with_resources(tune.with_parameters(trainable, **known), {"cpu": 1}),
            param_space={"number": tune.grid_search(list(range(task.trials)))},
            tune_config=tune.TuneConfig(reuse_actors=True),
            run_config=tune.RunConfig(storage_path=directory, verbose=0),
        )
        results = tuner.fit()
    problem.report([result.metrics["accuracy"] for result in results])


if __name__ == "__main__":
    main()
