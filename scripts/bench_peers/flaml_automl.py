"""FLAML: AutoML over its default estimators, for a fixed time."""

from __future__ import annotations

import problem
from flaml import AutoML

BUDGET_S = 60.0


def main() -> None:
    """Search, with the validation part."""
    task = problem.read()
    data = task.load_frames()
    model = AutoML()
    model.fit(
        X_train=data.x,
        y_train=data.y,
        X_val=data.x_val,
        y_val=data.y_val,
        task="regression" if task.score == "r2" else "classification",
        metric=task.score,
        time_budget=BUDGET_S if task.trials > 2 else 5.0,
        retrain_full=False,
        seed=task.seed,
        verbose=0,
    )
    problem.report_model(model.score, data)


if __name__ == "__main__":
    main()
