"""How much each parameter matters: Optuna's PED-ANOVA, of trials that are told one by one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import optuna
from optuna.storages import InMemoryStorage

from sweeper.config import StudyConfig
from sweeper.study.foreign import blank_study, frozen_trials

_PACKAGE = "optuna.importance"


def _evaluator() -> Any:
    """Optuna's evaluator, without the others of its package.

    These import scikit-learn, which takes a running study more than a second.
    """
    if _PACKAGE not in sys.modules:
        bare = ModuleType(_PACKAGE)
        bare.__path__ = [str(Path(optuna.__file__).parent / "importance")]
        sys.modules[_PACKAGE] = bare
        try:
            import_module(f"{_PACKAGE}._ped_anova")
        finally:
            del sys.modules[_PACKAGE]
    return sys.modules[f"{_PACKAGE}._ped_anova"].PedAnovaImportanceEvaluator()


class Importance:
    """The importance of parameters by the trials that have been told; for one thread at a time."""

    def __init__(self, config: StudyConfig) -> None:
        self._config = config
        self._study = blank_study(config, InMemoryStorage(), config.study.name)
        self._evaluator = _evaluator()

    def tell(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows of trials that are COMPLETE, columns of trials.parquet."""
        for trial in frozen_trials(self._config, [*rows], {}):
            self._study._storage.create_new_trial(self._study._study_id, trial)

    def of(self, objective: int) -> dict[str, float]:
        """The importance of each searched parameter for an objective; they sum to 1.

        All are 0 where none makes a difference.
        """
        maximizes = self._config.study.directions[objective] == "maximize"

        def cost(trial: optuna.trial.FrozenTrial) -> float:
            return -trial.values[objective] if maximizes else trial.values[objective]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self._evaluator.evaluate(self._study, target=cost)
        known = {name: max(0.0, float(found.get(name, 0.0))) for name in self._config.columns}
        total = sum(known.values())
        return {name: value / total if total else 0.0 for name, value in known.items()}
