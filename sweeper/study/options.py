"""The options of samplers and pruners, checked without importing Optuna."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from sweeper.config import StudyConfig
from sweeper.errors import Problem, StudyError

LARGEST_GRID = 1_000_000


@dataclass(frozen=True, slots=True)
class Option:
    """What a value of an option may be: of `kind`, and not below `least`."""

    kind: type[bool] | type[int]
    least: int = 0

    def fault(self, value: object) -> str | None:
        """What to write instead of `value`; None where it fits."""
        if self.kind is bool:
            return None if isinstance(value, bool) else "write true or false"
        if isinstance(value, int) and not isinstance(value, bool) and value >= self.least:
            return None
        return f"write a whole number of {self.least} or more"


# Those of Optuna's options that a study file can say; the others take Python functions.
_OPTIONS: dict[str, dict[str, Option]] = {
    "tpe": {
        "n_startup_trials": Option(int),
        "n_ei_candidates": Option(int, 1),
        "multivariate": Option(bool),
        "group": Option(bool),
        "constant_liar": Option(bool),
    },
    "random": {},
    "grid": {},
    "none": {},
    "median": {
        "n_startup_trials": Option(int),
        "n_warmup_steps": Option(int),
        "interval_steps": Option(int, 1),
        "n_min_trials": Option(int, 1),
    },
    "asha": {
        "min_resource": Option(int, 1),
        "reduction_factor": Option(int, 2),
        "min_early_stopping_rate": Option(int),
        "bootstrap_count": Option(int),
    },
}


def n_points(config: StudyConfig) -> int:
    """How many points the space has; every entry is finite, as `config` has checked."""
    return prod(entry.count() or 0 for entry in config.columns.values())


def rungs(config: StudyConfig) -> tuple[int, ...]:
    """The epochs before the last at which the pruner decides; empty where it may at any."""
    if config.study.pruner.name != "asha":
        return ()
    options = asha_options(config)
    factor = options.get("reduction_factor", 4)
    rung = options["min_resource"] * factor ** options.get("min_early_stopping_rate", 0)
    found: list[int] = []
    while rung < config.max_epochs:
        found.append(rung)
        rung *= factor
    return tuple(found)


def learns(config: StudyConfig) -> bool:
    """Whether the sampler's proposals depend on how trials ended; such an ask takes its time."""
    return config.study.sampler.name not in ("random", "grid")


def n_proposals(config: StudyConfig) -> int:
    """How many trials the study can hold: `n_trials`, or the points of a smaller grid."""
    if config.study.sampler.name != "grid":
        return config.study.n_trials
    return min(config.study.n_trials, n_points(config))


def check(config: StudyConfig) -> None:
    """Refuse options that the sampler or the pruner does not take.

    Raises:
        StudyError: with every option that is unknown or out of range.
    """
    chosen = config.study.pruner
    problems = [
        *_sampler_problems(config),
        *_option_problems(config, "study.pruner", chosen.name, chosen.options),
    ]
    if problems:
        raise StudyError(problems)


def _sampler_problems(config: StudyConfig) -> Iterator[Problem]:
    chosen = config.study.sampler
    yield from _option_problems(config, "study.sampler", chosen.name, chosen.options)
    if chosen.name == "grid" and n_points(config) > LARGEST_GRID:
        yield config.problem(
            "study.sampler.name",
            f"a grid of {n_points(config):,} points",
            f'write coarser steps, {LARGEST_GRID:,} points at most, or name = "random"',
        )


def _option_problems(
    config: StudyConfig, table: str, name: str, options: Mapping[str, Any]
) -> Iterator[Problem]:
    """What the sampler or pruner `name` would not take; Optuna itself checks little of it."""
    known = _OPTIONS[name]
    for key, value in options.items():
        if key not in known:
            mend = f"it takes {', '.join(known)}" if known else "it takes none"
            yield config.problem(f"{table}.{key}", f"{name!r} has no such option", mend)
        elif mend := known[key].fault(value):
            yield config.problem(f"{table}.{key}", f"{value!r} does not fit", mend)


def asha_options(config: StudyConfig) -> dict[str, Any]:
    """Optuna's options; "auto" would wait for a finished trial, so the first rung is epoch 1."""
    return {"min_resource": 1, **config.study.pruner.options}
