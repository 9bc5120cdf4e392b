"""What each sampler and pruner of Optuna takes, of what a study file can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeper.config.refusals import shown


@dataclass(frozen=True, slots=True)
class Option:
    """What a value of an option may be: of `kind`, and within bounds or one of `choices`."""

    kind: type[bool] | type[int] | type[float] | type[str]
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    required: bool = False

    def fault(self, value: object) -> str | None:
        """What to write instead of `value`; None where it fits."""
        return None if self._fits(value) else f"write {self._wanted()}"

    def _fits(self, value: object) -> bool:
        if self.kind is bool or isinstance(value, bool):
            return self.kind is type(value)
        if self.kind is str:
            return value in self.choices
        if not isinstance(value, int if self.kind is int else (int, float)):
            return False
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)

    def _wanted(self) -> str:
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return f"one of {', '.join(map(shown, self.choices))}"
        noun = "a whole number" if self.kind is int else "a number"
        if self.least is None:
            return noun
        return f"{noun} of {self.least:g} or more" + (
            "" if self.most is None else f", {self.most:g} at most"
        )


_MOST_HELD = 1_000_000  # of what a sampler holds in memory for each trial
_COUNT = Option(int, 0)
_ONE = Option(int, 1)
_SHARE = Option(float, 0, 1)
_FLAG = Option(bool)
_MEDIAN = {
    "n_startup_trials": _COUNT,
    "n_warmup_steps": _COUNT,
    "interval_steps": _ONE,
    "n_min_trials": _ONE,
}

# those of Optuna's options that a study file can say; the others take Python functions
OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "tpe": {
        "n_startup_trials": _COUNT,
        "n_ei_candidates": Option(int, 1, _MOST_HELD),
        "multivariate": _FLAG,
        "group": _FLAG,
        "constant_liar": _FLAG,
    },
    "random": {},
    "grid": {},
    "qmc": {"qmc_type": Option(str, choices=("sobol", "halton")), "scramble": _FLAG},
    "gp": {"n_startup_trials": _COUNT, "deterministic_objective": _FLAG},
    "cmaes": {
        "n_startup_trials": _COUNT,
        "popsize": Option(int, 4, _MOST_HELD),  # of fewer it divides by zero
        "consider_pruned_trials": _FLAG,
        "use_separable_cma": _FLAG,
        "with_margin": _FLAG,
        "lr_adapt": _FLAG,
    },
    "nsgaii": {
        "population_size": Option(int, 2),
        "mutation_prob": _SHARE,
        "crossover_prob": _SHARE,
        "swapping_prob": _SHARE,
    },
    "none": {},
    "median": _MEDIAN,
    "percentile": {"percentile": Option(float, 0, 100, required=True), **_MEDIAN},
    "asha": {
        "min_resource": _ONE,
        "reduction_factor": Option(int, 2),
        "min_early_stopping_rate": Option(int, 0, 30),  # an exponent: no trial has 2^30 epochs
        "bootstrap_count": _COUNT,
    },
    "hyperband": {
        "min_resource": _ONE,
        "max_resource": _ONE,
        "reduction_factor": Option(int, 2),
        "bootstrap_count": _COUNT,
    },
    "patient": {"patience": Option(int, 0, required=True), "min_delta": Option(float, 0)},
    "threshold": {
        "lower": Option(float),
        "upper": Option(float),
        "n_warmup_steps": _COUNT,
        "interval_steps": _ONE,
    },
    "wilcoxon": {"p_threshold": _SHARE, "n_startup_steps": _COUNT},
}

# of pruners; n_min_trials and max_resource depend on other settings
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "median": {"n_startup_trials": 5, "n_warmup_steps": 0, "interval_steps": 1},
    "percentile": {"n_startup_trials": 5, "n_warmup_steps": 0, "interval_steps": 1},
    "threshold": {"n_warmup_steps": 0, "interval_steps": 1},
    "asha": {"min_resource": 1, "reduction_factor": 4},
    "hyperband": {"min_resource": 1, "reduction_factor": 3},
    "wilcoxon": {"p_threshold": 0.1, "n_startup_steps": 2},
}
# settings of which one at most may be true
EXCLUSIVE: Mapping[str, tuple[str, ...]] = {
    "cmaes": ("use_separable_cma", "with_margin", "lr_adapt")
}
# Python packages that Optuna does not bring along
PACKAGES: Mapping[str, str] = {"cmaes": "cmaes", "gp": "torch"}
