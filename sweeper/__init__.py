"""Hyperparameter sweeps for JAX networks whose architectures differ from trial to trial.

    study = sweeper.load_study("studies/digits.toml")
    sweeper.run(study).best(5)
    sweeper.open_results("runs/digits").trials()
    sweeper.load("best/").predict(rows)

Slow modules are imported when a name is first used: `import sweeper` alone imports neither JAX nor
Optuna nor pandas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from sweeper.cli.address_space import check_address_space
from sweeper.errors import (
    DamagedLedgerError,
    DataError,
    FitError,
    LedgerError,
    NoTrialError,
    SetupError,
    StudyError,
    StudyHeldError,
    SweeperError,
    UnfitRowsError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from sweeper.api import run
    from sweeper.cli.main import command
    from sweeper.config import StudyConfig
    from sweeper.estimators import SweepClassifier, SweepRegressor
    from sweeper.export.saved_model import load
    from sweeper.models.decay_masks import decay_mask
    from sweeper.notebook.results import open_results

__all__ = [
    "DamagedLedgerError",
    "DataError",
    "FitError",
    "LedgerError",
    "NoTrialError",
    "SetupError",
    "StudyError",
    "StudyHeldError",
    "SweepClassifier",
    "SweepRegressor",
    "SweeperError",
    "UnfitRowsError",
    "UnsupportedError",
    "command",
    "decay_mask",
    "load",
    "load_study",
    "open_results",
    "run",
]

Overrides = str | Sequence[str] | Mapping[str, Any]

_HOMES = {
    "command": "sweeper.cli.main",
    "SweepClassifier": "sweeper.estimators",
    "SweepRegressor": "sweeper.estimators",
    "decay_mask": "sweeper.models.decay_masks",
    "load": "sweeper.export.saved_model",
    "open_results": "sweeper.notebook.results",
    "run": "sweeper.api",
}


@overload
def load_study(study: Path | str, overrides: Overrides = ()) -> StudyConfig: ...


@overload
def load_study(
    study: Mapping[str, Any],
    overrides: Overrides = (),
    *,
    data: Any = None,
    target: str | Sequence[str] | None = None,
) -> StudyConfig: ...


def load_study(
    study: Path | str | Mapping[str, Any],
    overrides: Overrides = (),
    *,
    data: Any = None,
    target: str | Sequence[str] | None = None,
) -> StudyConfig:
    """The study that a file describes, or a mapping with the tables of such a file.

    The keys of a mapping are those of a study file, as nested tables, dotted, or both; functions
    and classes may be given directly. `data` has the rows of a study without `data.path`: a
    DataFrame of pandas or Polars with the columns `target`, or arrays `(X, y)`, shaped (rows,
    features) and (rows,) or (rows, targets). The index of a DataFrame is not read. If the mapping
    lacks what a study file must have, it is what `sweeper init` writes for these rows; without
    `search`, so is everything else. None omits a setting of `init`. `overrides` change settings:
    one text such as "study.seed=1", several, or values by dotted key or by table. A table changes
    the settings that it names and keeps the others, unless it has a `name` or `kind`, or is an
    entry of `search` with its `type`.

        >>> x, y = np.linspace(0.0, 1.0, 60).reshape(30, 2), np.arange(30.0)
        >>> study = sweeper.load_study({"study.n_trials": 8, "model.depth": 1}, data=(x, y))
        >>> study.study.metric, study.study.n_trials
        ('val_r2', 8)
        >>> text = study.source.text  # all of it, as a study file

    Raises:
        StudyError: with all problems of the settings.
        DataError: `data` is not such a table, or has no such target.
    """
    from sweeper.templates.mapping import load_study

    return load_study(study, overrides, data, target)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sweeper' has no attribute {name!r}")
    check_address_space()
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
