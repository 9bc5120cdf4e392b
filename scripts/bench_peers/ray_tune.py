"""Ray Tune over the PyTorch function of `torch_joblib.py`, one core per trial.

If it prunes, with ASHA.
"""

from __future__ import annotations

import logging
import os
import tempfile
from typing import Any

import problem
import ray
from problem import Data, Problem, Trial
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from torch_joblib import train


def trainable(
    config: dict[str, Any], task: Problem, trials: list[Trial], data: Data
) -> dict[str, float]:
    """The function that Ray Tune calls for a trial: its last result."""
    number = config["number"]
    if not task.prunes:
        return {"score": train(task, trials[number], data, number)}

    def report(epoch: int, score: float) -> None:
        tune.report({"score": score, "epoch": epoch})  # the scheduler may end the trial in it

    return {"score": train(task, trials[number], data, number, report), "epoch": task.epochs}


def main() -> None:
    """Train every trial."""
    task = problem.read()
    known = {"task": task, "trials": task.draw(), "data": task.load()}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    scheduler = None
    if task.prunes:
        scheduler = ASHAScheduler("epoch", max_t=task.epochs, grace_period=3, reduction_factor=3)
    with tempfile.TemporaryDirectory() as directory:
        tuner = tune.Tuner(
            tune.with_resources(tune.with_parameters(trainable, **known), {"cpu": 1}),
            param_space={"number": tune.grid_search(list(range(task.trials)))},
            tune_config=tune.TuneConfig(
                metric="score", mode="max", scheduler=scheduler, reuse_actors=True
            ),
            run_config=tune.RunConfig(storage_path=directory, verbose=0),
        )
        results = tuner.fit()
    problem.report([result.metrics["score"] for result in results])


if __name__ == "__main__":
    main()
