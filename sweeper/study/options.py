"""The options of samplers and pruners, checked without importing Optuna if possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.kinds import is_function
from sweeper.config.refusals import format_value, missing, unknown_name
from sweeper.config.study import PRUNERS
from sweeper.errors import Problem, StudyError
from sweeper.study.grid import n_combinations


@dataclass(frozen=True, slots=True)
class Option:
    """The valid values of an option: of `kind`, and within bounds or one of `choices`."""

    kind: type[bool] | type[int] | type[float] | type[str]
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    required: bool = False

    def hint_for(self, value: object) -> str | None:
        """A hint with the valid values if `value` is invalid; else None."""
        return None if self._fits(value) else f"write {self.wanted}"

    @property
    def example(self) -> bool | int | float | str:
        """A valid value."""
        if self.kind is bool:
            return True
        if self.kind is str:
            return self.choices[0]
        return max(1, int(self.least or 0)) if self.kind is int else 0.5

    def _fits(self, value: object) -> bool:
        if self.kind is bool or isinstance(value, bool):
            return self.kind is type(value)
        if self.kind is str:
            return value in self.choices
        if not isinstance(value, int if self.kind is int else (int, float)):
            return False
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)

    @property
    def wanted(self) -> str:
        """The valid values, in words."""
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return f"one of {', '.join(map(format_value, self.choices))}"
        noun = "an integer" if self.kind is int else "a number"
        if self.least is None:
            return noun
        return f"{noun} of {self.least:g} or more" + (
            "" if self.most is None else f", {self.most:g} at most"
        )


_MAX_HELD = 1_000_000  # limit for what a sampler stores per trial
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

# Optuna's options that a study file can express; the others take Python functions
OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "tpe": {
        "n_startup_trials": _COUNT,
        "n_ei_candidates": Option(int, 1, _MAX_HELD),
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
        "popsize": Option(int, 4, _MAX_HELD),  # with fewer it divides by zero
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
    "halving": {
        "min_resource": _ONE,
        "reduction_factor": Option(int, 2),
        "score": Option(str, choices=("best", "forecast")),
    },
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

# options of pruners; n_min_trials and max_resource depend on other settings
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "median": {"n_startup_trials": 5, "n_warmup_steps": 0, "interval_steps": 1},
    "percentile": {"n_startup_trials": 5, "n_warmup_steps": 0, "interval_steps": 1},
    "threshold": {"n_warmup_steps": 0, "interval_steps": 1},
    "halving": {"min_resource": 4, "reduction_factor": 3, "score": "forecast"},
    "asha": {"min_resource": 1, "reduction_factor": 4},
    "hyperband": {"min_resource": 1, "reduction_factor": 3},
    "wilcoxon": {"p_threshold": 0.1, "n_startup_steps": 2},
}
# settings of which at most one may be true
EXCLUSIVE: Mapping[str, tuple[str, ...]] = {
    "cmaes": ("use_separable_cma", "with_margin", "lr_adapt")
}
# Python packages that Optuna does not install
PACKAGES: Mapping[str, str] = {"cmaes": "cmaes", "gp": "torch"}


LARGEST_GRID = 1_000_000
_SAMPLER, _PRUNER = "study.sampler", "study.pruner"


def default_of(name: str, key: str) -> str:
    """The default of an option of the sampler or pruner `name`, in words."""
    if OPTIONS[name][key].required:
        return "none: it must be given"
    if key in ("n_min_trials", "max_resource"):
        return "n_startup_trials" if key == "n_min_trials" else "the largest number of epochs"
    known = DEFAULTS.get(name, {})
    return format_value(known[key]) if key in known else "that of Optuna"


def pruner_chain(name: str, options: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A pruner and those that it wraps, each with its options; all must agree to end a trial."""
    yield name, options
    if name == "patient" and (wrapped := options.get("wrapped")):
        yield from pruner_chain(wrapped["name"], without_name(wrapped))


def without_name(table: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a wrapped pruner, from a table that also names it."""
    return {key: value for key, value in table.items() if key != "name"}


def given_options(config: StudyConfig, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that one of Optuna's pruners is created with, including defaults.

    Optuna's "auto" of asha and hyperband waits for a finished trial. Here, the first rung is epoch
    1, and hyperband gets the number of epochs. Since edition 2, `n_min_trials` defaults to
    `n_startup_trials`, so that no trial is judged against fewer others.
    """
    defaults = DEFAULTS.get(name, {})
    if name == "halving" and config.edition < 3:
        defaults = {"min_resource": 3, "reduction_factor": 3, "score": "best"}
    given = {**defaults, **options}
    if name == "hyperband":
        given.setdefault("max_resource", config.max_epochs)
    if name == "halving":
        given["last_epoch"] = config.max_epochs
    if name in ("median", "percentile") and config.edition >= 2:
        given.setdefault("n_min_trials", max(1, given["n_startup_trials"]))
    return given


def check(config: StudyConfig, *, python: bool = True) -> None:
    """Refuse invalid options of the sampler or the pruner, and rules that cannot compare values.

    Without `python`, user-defined samplers and pruners are not checked.

    Raises:
        StudyError: with every option that is unknown or out of range, and missing packages.
    """
    sampler, pruner = config.study.sampler, config.study.pruner
    problems = [
        *_option_problems(config, _SAMPLER, sampler.name, sampler.options, python),
        *_sampler_problems(config),
        *_option_problems(config, _PRUNER, pruner.name, pruner.options, python),
        *_unclear_stop(config),
    ]
    if problems:
        raise StudyError(problems)


def _unclear_stop(config: StudyConfig) -> Iterator[Problem]:
    """A metric of a user-defined program that stops trials, although its direction is not known.

    Studies of earlier editions continue, and maximize it.
    """
    stop = config.train.early_stop
    metric = None if stop is None else stop.metric
    is_unclear = metric in config.train.unclear_metrics - {*config.study.objectives}
    if config.edition > 5 and is_unclear:
        found = f"it is not known which values of '{metric}' are better"
        hint = "stop by study.metric, whose direction is written, or by val_loss"
        yield config.problem("train.early_stop.metric", found, hint)


def _sampler_problems(config: StudyConfig) -> Iterator[Problem]:
    chosen = config.study.sampler
    if chosen.name == "grid" and n_combinations(config) > LARGEST_GRID:
        yield config.problem(
            f"{_SAMPLER}.name",
            f"a grid of {n_combinations(config):,} points",
            f'write coarser steps, {LARGEST_GRID:,} points at most, or name = "random"',
        )
    package = PACKAGES.get(chosen.name)
    if package is not None and find_spec(package) is None:
        found = f"the sampler '{chosen.name}' needs the package {package}, which is not installed"
        yield config.problem(f"{_SAMPLER}.name", found, f"run `python -m pip install {package}`")
    options = chosen.options
    if chosen.name == "tpe" and options.get("group") and options.get("multivariate") is False:
        found = "group with multivariate = false"
        yield config.problem(f"{_SAMPLER}.group", found, "remove one of the two")


def _option_problems(
    config: StudyConfig, table: str, name: str, options: Mapping[str, Any], python: bool
) -> Iterator[Problem]:
    """Invalid options of the sampler or pruner `name`; Optuna itself checks few of them."""
    if is_function(name):
        if not python:
            return
        from sweeper.study.user_sampler import user_class_problems  # this needs Optuna

        yield from user_class_problems(config, table, name, options)
        return
    known = OPTIONS[name]
    for key, value in options.items():
        if name == "patient" and key == "wrapped":
            yield from _wrapped_problems(config, f"{table}.wrapped", value, python)
        elif key not in known:
            hint = f"its options are {', '.join(known)}" if known else "it has none: remove it"
            if f"{table}.name" in config.source.overridden:
                hint += f", or override the whole table: '{table}={{ name = \"{name}\" }}'"
            yield config.problem(f"{table}.{key}", f"{name!r} has no such option", hint)
        elif hint := known[key].hint_for(value):
            yield config.problem(f"{table}.{key}", f"{value!r} does not fit", hint)
    for key in (key for key, option in known.items() if option.required and key not in options):
        yield config.source.problem(missing(f"{table}.{key}", f"write {key} = ..."))
    chosen = [key for key in EXCLUSIVE.get(name, ()) if options.get(key) is True]
    if len(chosen) > 1:
        found = f"{chosen[0]} with {chosen[1]}"
        yield config.problem(f"{table}.{chosen[1]}", found, "remove one of the two")
    if name == "threshold":
        yield from _threshold_problems(config, table, options)
    if name == "hyperband":
        yield from _resource_problems(config, table, options)


def _wrapped_problems(
    config: StudyConfig, key: str, wrapped: object, python: bool
) -> Iterator[Problem]:
    if not isinstance(wrapped, dict) or "name" not in wrapped:
        found = (
            "no name" if isinstance(wrapped, dict) else f"{format_value(wrapped)} is not a table"
        )
        yield config.problem(key, found, 'write e.g. { name = "median" }')
        return
    name = wrapped["name"]
    if not isinstance(name, str) or not (name in PRUNERS or is_function(name)):
        options = f'{", ".join(PRUNERS)}, or "module:Class"'
        flaw = unknown_name("study.pruner.name", name, options)
        yield config.problem(f"{key}.name", flaw.found, flaw.hint)
        return
    yield from _option_problems(config, key, name, without_name(wrapped), python)


def _threshold_problems(
    config: StudyConfig, table: str, options: Mapping[str, Any]
) -> Iterator[Problem]:
    lower, upper = options.get("lower"), options.get("upper")
    if lower is None and upper is None:
        yield config.problem(table, "no threshold", "write upper = ..., or lower = ...")
    elif isinstance(lower, int | float) and isinstance(upper, int | float) and lower > upper:
        found = f"lower {lower} is above upper {upper}"
        yield config.problem(f"{table}.lower", found, "swap the two")


def _resource_problems(
    config: StudyConfig, table: str, options: Mapping[str, Any]
) -> Iterator[Problem]:
    given = given_options(config, "hyperband", options)
    least, most = given["min_resource"], given["max_resource"]
    if isinstance(least, int) and isinstance(most, int) and least > most:
        found = f"min_resource {least} is above the maximum of epochs, {most}"
        yield config.problem(f"{table}.min_resource", found, f"write {most} or less")
