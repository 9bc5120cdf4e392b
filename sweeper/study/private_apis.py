"""Private parts of Optuna that have no public alternatives.

If an upgrade removes one, `tests/test_private_apis.py` fails. `optuna_export` itself uses the
tables of Optuna's database, because SQLAlchemy is slow to import.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import optuna
from optuna.distributions import BaseDistribution

_IMPORTANCE = "optuna.importance"


def suggest(trial: optuna.Trial, space: Mapping[str, BaseDistribution]) -> None:
    """Draw the parameters of a trial from distributions."""
    for name, distribution in space.items():
        trial._suggest(name, distribution)


def generation_attribute() -> str:
    """The attribute of a trial in which NSGA-II stores its generation."""
    return optuna.samplers.NSGAIISampler._get_generation_key()


def importance_evaluator() -> Any:
    """Optuna's PED-ANOVA evaluator, without the others in its package.

    The others import scikit-learn, which costs a running study more than a second.
    """
    if _IMPORTANCE not in sys.modules:
        bare = ModuleType(_IMPORTANCE)
        bare.__path__ = [str(Path(optuna.__file__).parent / "importance")]
        sys.modules[_IMPORTANCE] = bare
        try:
            import_module(f"{_IMPORTANCE}._ped_anova")
        finally:
            del sys.modules[_IMPORTANCE]
    return sys.modules[f"{_IMPORTANCE}._ped_anova"].PedAnovaImportanceEvaluator()
