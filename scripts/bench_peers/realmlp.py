"""RealMLP with the tuned defaults of pytabkit (Holzmueller et al. 2024): one model, no search."""

from __future__ import annotations

import problem
from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor


def main() -> None:
    """Train the model; the validation part chooses its epoch."""
    task = problem.read()
    data = task.load_frames()
    kind = RealMLP_TD_Regressor if task.score == "r2" else RealMLP_TD_Classifier
    more = {"n_epochs": task.epochs} if task.trials <= 2 else {}  # a quick test
    model = kind(device="cpu", random_state=task.seed, **more)
    model.fit(data.x, data.y, data.x_val, data.y_val)
    problem.report_model(model.score, data)


if __name__ == "__main__":
    main()
