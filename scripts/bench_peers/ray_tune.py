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
from problem import Data, Problem, Result, Trial
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from torch_joblib import train


def trainable(
    config: dict[str, Any], task: Problem, trials: list[Trial], data: Data
) -> dict[str, Any]:
    """The function that Ray Tune calls for a trial: its last result."""
    number = config["number"]

    def report(epoch: int, score: float) -> None:
        if task.prunes and epoch < task.epochs:  # the last one comes with the test score
            tune.report({"score": score, "epoch": epoch})  # the scheduler may end the trial in it

    result = train(task, trials[number], data, number, report)
    return {**result._asdict(), "epoch": task.epochs}


def main() -> None:
    """Train every trial."""
    task = problem.read()
    known = {"task": task, "trials": task.draw(), "data": task.load()}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    scheduler = None
    if task.prunes:
        shortest = min(3, task.epochs)
        scheduler = ASHAScheduler(
            "epoch", max_t=task.epochs, grace_period=shortest, reduction_factor=3
        )
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
    found = [result.metrics for result in results]
    # a trial that the scheduler ended has no test score
    ends = [(one["score"], one.get("test"), one.get("ended", one["timestamp"])) for one in found]
    problem.report([score for score, *_ in ends], [Result(*end) for end in ends])


if __name__ == "__main__":
    main()
