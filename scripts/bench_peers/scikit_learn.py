"""scikit-learn: RandomizedSearchCV over MLPClassifier, one process per core."""

from __future__ import annotations

import warnings

import numpy as np
import problem
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import PredefinedSplit, RandomizedSearchCV
from sklearn.neural_network import MLPClassifier


def main() -> None:
    """Search, with the validation part as the only fold."""
    task = problem.read()
    data = task.load()
    folds = PredefinedSplit(np.r_[np.full(len(data.y), -1), np.zeros(len(data.y_val))])
    network = MLPClassifier(
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
    search = RandomizedSearchCV(
        network, space, n_iter=len(space), cv=folds, n_jobs=-1, random_state=task.seed, refit=False
    )
    search.fit(np.r_[data.x, data.x_val], np.r_[data.y, data.y_val])
    problem.report(search.cv_results_["mean_test_score"].tolist())


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    main()
