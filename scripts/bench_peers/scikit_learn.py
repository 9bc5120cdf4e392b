"""scikit-learn: RandomizedSearchCV over its networks, one process per core.

If it prunes, HalvingRandomSearchCV, which trains the best third anew for three times the epochs.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import problem
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingRandomSearchCV, PredefinedSplit, RandomizedSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor


def main() -> None:
    """Search, with the validation part as the only fold."""
    task = problem.read()
    data = task.load()
    folds = PredefinedSplit(np.r_[np.full(len(data.y), -1), np.zeros(len(data.y_val))])
    kind = MLPRegressor if task.score == "r2" else MLPClassifier
    network = kind(
        max_iter=task.epochs, batch_size=task.batch_size, n_iter_no_change=task.epochs + 1
    )
    # one set of choices per trial: they are drawn without repetition, so each is trained once
    space = [
        {
            "hidden_layer_sizes": [(trial.width,) * trial.depth],
            "learning_rate_init": [trial.lr],
            "alpha": [trial.weight_decay],
        }
        for trial in task.draw()
    ]
    common = {"cv": folds, "n_jobs": -1, "random_state": task.seed, "refit": False}
    if task.prunes:
        search = HalvingRandomSearchCV(
            network,
            space,
            n_candidates=len(space),
            resource="max_iter",
            min_resources="exhaust",
            max_resources=task.epochs,
            **common,
        )
    else:
        search = RandomizedSearchCV(network, space, n_iter=len(space), **common)
    search.fit(np.r_[data.x, data.x_val], np.r_[data.y, data.y_val])
    scores = search.cv_results_["mean_test_score"]
    rungs = search.cv_results_.get("iter", np.zeros(len(scores)))
    began = time.perf_counter()
    # the search does not keep its networks; the time of training the best one again is not counted
    network.set_params(**search.best_params_).fit(data.x, data.y)
    test = network.score(data.x_test, data.y_test)
    extra_s = time.perf_counter() - began
    problem.report(scores[rungs == rungs.max()].tolist(), test=test, extra_s=extra_s)


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    main()
