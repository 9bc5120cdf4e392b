"""Hyperparameter sweeps for JAX networks whose architectures differ from trial to trial.

    study = sweeper.load_study("studies/digits.toml")
    sweeper.run(study)
    sweeper.open_results("runs/digits").best(5)

The names are fetched when they are first used: `import sweeper` alone imports neither JAX
nor Optuna nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeper.api import run
    from sweeper.config import load as load_study
    from sweeper.results.read import open_results

__all__ = ["load_study", "open_results", "run"]

_HOMES = {
    "load_study": ("sweeper.config", "load"),
    "open_results": ("sweeper.results.read", "open_results"),
    "run": ("sweeper.api", "run"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sweeper' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)
