"""RealMLP with the tuned defaults of pytabkit (Holzmueller et al. 2024): one model, no search."""

from __future__ import annotations

from typing import Any

import problem


def train(regressor: Any, classifier: Any) -> None:
    """Train a model of pytabkit, which takes no gaps in numbers.

    The validation part chooses its epoch.
    """
    task = problem.read()
    data = task.load_frames()
    kind = regressor if task.score == "r2" else classifier
    more = {"n_epochs": task.epochs} if task.trials <= 2 else {}  # a quick test
    model = kind(device="cpu", random_state=task.seed, **more)
    medians = data.x.median(numeric_only=True)
    x, x_val, x_test = (rows.fillna(medians) for rows in (data.x, data.x_val, data.x_test))
    model.fit(x, data.y, x_val, data.y_val)
    problem.report_model(model.score, data._replace(x_val=x_val, x_test=x_test))


if __name__ == "__main__":
    from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

    train(RealMLP_TD_Regressor, RealMLP_TD_Classifier)
