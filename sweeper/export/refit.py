"""Trains the winner again on more rows than it was chosen with, for its best number of epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sweeper.config import StudyConfig, parse
from sweeper.config.study import N_PARAMETERS
from sweeper.config.toml import toml_text
from sweeper.export.trial_file import trial_of, trial_tables
from sweeper.rundir import RunDir

TrainOn = Literal["train+val", "all"]


def refit_study(
    run_dir: RunDir, number: int | None, train_on: TrainOn
) -> tuple[StudyConfig, Mapping[str, Any]]:
    """The study that trains a trial again on more rows, and the trial's row; the best if None.

    Raises:
        SweeperError: the trial does not exist.
    """
    config, row = trial_of(run_dir.root, number)
    tables = trial_tables(config, row)
    name = f"{config.study.name[:80]}-refit-{row['trial_number']}"
    # no rows are left to choose an epoch by, so the last one is used
    tables["study"] |= {"name": name, "value": "last", "replicates": 1, "folds": None}
    tables["train"] |= {"early_stop": None}
    tables["data"]["split"] |= {"train_on": train_on, "seed": config.split_seed}
    directory = f"{row['trial_number']}{'-all' if train_on == 'all' else ''}"
    tables["results"] |= {"dir": str(run_dir.refit / directory), "keep_models": 1, "ensemble": None}
    # all epochs have the same number of parameters
    best_epoch = row["best_epoch"] if config.study.objectives[0] != N_PARAMETERS else None
    of_class = tables["trial"]["class"]
    unpadded = {"width": None, "depth": None, "run_widths": [], "sizes": {}}
    alone = {"strategy": "exact", "capacity": 1, **unpadded}
    tables["trial"] |= {
        "epochs": best_epoch or row["epochs_done"],
        "class": {**of_class, **alone, "traced": {}},
    }
    return parse(toml_text(tables), config.source.path), row
