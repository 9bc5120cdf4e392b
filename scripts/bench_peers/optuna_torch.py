"""Optuna's Hyperband over the PyTorch function of `torch_joblib.py`, one process per core.

The processes share a study in a journal file, as Optuna's documentation advises.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import optuna
import problem
from joblib import Parallel, delayed
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from problem import Data, Problem, Result
from torch_joblib import train

NAME = "search"


def storage(directory: str) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(Path(directory) / "journal.log")))


def search(task: Problem, data: Data, directory: str) -> None:
    """Train trials until every one of the task has begun."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    points = task.draw()

    def value(trial: optuna.Trial) -> float:
        if trial.number >= len(points):
            study.stop()
            raise optuna.TrialPruned

        def judge(epoch: int, score: float) -> None:
            trial.report(score, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

        result = train(task, points[trial.number], data, trial.number, judge)
        trial.set_user_attr("result", result)
        return result.score

    pruner = optuna.pruners.HyperbandPruner(max_resource=task.epochs)
    study = optuna.load_study(study_name=NAME, storage=storage(directory), pruner=pruner)
    study.optimize(value)


def main() -> None:
    """Train every trial."""
    task = problem.read()
    data = task.load()
    with tempfile.TemporaryDirectory() as directory:
        kept = storage(directory)
        study = optuna.create_study(study_name=NAME, storage=kept, direction="maximize")
        jobs = [delayed(search)(task, data, directory)] * (os.cpu_count() or 1)
        Parallel(n_jobs=len(jobs))(jobs)
        complete = study.get_trials(states=[TrialState.COMPLETE])
        results = [Result(*trial.user_attrs["result"]) for trial in complete]
        problem.report([result.score for result in results], results)


if __name__ == "__main__":
    main()
