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
from typing import TYPE_CHECKING, Any

from sweeper.cli.address_space import check_address_space
from sweeper.errors import (
    DamagedLedgerError,
    DataError,
    LedgerError,
    SetupError,
    StudyError,
    StudyHeldError,
    SweeperError,
)

if TYPE_CHECKING:
    from sweeper.api import run
    from sweeper.cli.main import command
    from sweeper.config import StudyConfig
    from sweeper.export.saved_model import load
    from sweeper.models.decay_masks import decay_mask
    from sweeper.notebook.results import open_results

__all__ = [
    "DamagedLedgerError",
    "DataError",
    "LedgerError",
    "SetupError",
    "StudyError",
    "StudyHeldError",
    "SweeperError",
    "command",
    "decay_mask",
    "load",
    "load_study",
    "open_results",
    "run",
]

_HOMES = {
    "command": "sweeper.cli.main",
    "decay_mask": "sweeper.models.decay_masks",
    "load": "sweeper.export.saved_model",
    "open_results": "sweeper.notebook.results",
    "run": "sweeper.api",
}


def load_study(
    path: Path | str, overrides: str | Sequence[str] | Mapping[str, Any] = ()
) -> StudyConfig:
    """The study that the file at `path` describes, with `overrides` such as "study.seed=1".

    They are one text, several, or values by dotted key or by table.

    Raises:
        StudyError: with all problems of the file and of `overrides`.
    """
    from sweeper.config import load
    from sweeper.config.load import override_texts, study_path
    from sweeper.config.toml import IN_PYTHON

    return load(study_path(path), override_texts(overrides), IN_PYTHON)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sweeper' has no attribute {name!r}")
    check_address_space()
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
