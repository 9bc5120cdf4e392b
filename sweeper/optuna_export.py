"""A run directory written to a storage of Optuna's, for the tools that read these."""

from __future__ import annotations

from pathlib import Path

from sweeper.config.recorded import study_of
from sweeper.config.study import N_PARAMETERS
from sweeper.results.listing import curves_of_all, listed
from sweeper.rundir import RunDir
from sweeper.study.optuna_export import frozen_trials, with_gaps
from sweeper.study.stored import write_study


def export_optuna(run_dir: RunDir, url: str, name: str | None) -> tuple[str, int]:
    """Write the trials that have ended to `url`; gives the study's name there, and their number.

    Raises:
        SweeperError: nothing was published, or the storage cannot be written.
    """
    known = listed(run_dir)
    config = study_of(known.study["settings"], Path(known.study["study_file"]))
    metric = config.study.objectives[0]
    is_judged = len(config.study.objectives) == 1 and metric != N_PARAMETERS
    curves = curves_of_all(run_dir, metric) if is_judged else {}
    trials = [*frozen_trials(config, known.rows(), curves)]
    whole = [*with_gaps(config, trials)]
    return write_study(config, whole, url, name), len(trials)
