"""scikit-learn's HistGradientBoosting with its defaults: one model, no search."""

from __future__ import annotations

import problem
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor


def main() -> None:
    """Train the model."""
    task = problem.read()
    data = task.load_frames()
    is_number = task.score == "r2"
    kind = HistGradientBoostingRegressor if is_number else HistGradientBoostingClassifier
    model = kind(random_state=task.seed).fit(data.x, data.y)
    problem.report_model(model.score, data)


if __name__ == "__main__":
    main()
