"""LightGBM with its defaults: one model, no search."""

from __future__ import annotations

import problem
from lightgbm import LGBMClassifier, LGBMRegressor


def main() -> None:
    """Train the model."""
    task = problem.read()
    data = task.load_frames()
    kind = LGBMRegressor if task.score == "r2" else LGBMClassifier
    model = kind(random_state=task.seed, verbosity=-1).fit(data.x, data.y)
    problem.report_model(model.score, data)


if __name__ == "__main__":
    main()
