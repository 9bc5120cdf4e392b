"""User-defined samplers and pruners: their options, and checks of what they do."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isclose
from typing import Any, Literal

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler

from sweeper.config import StudyConfig
from sweeper.config.kinds import is_function
from sweeper.config.user_code import LoadError, check_keywords, keywords_of, load_class
from sweeper.config.user_errors import RAISED, describe_error
from sweeper.errors import FRESH, Problem, SweeperError
from sweeper.study.recording_storage import USER_ATTRIBUTE
from sweeper.trial import Memory

_NOT_JSON = "stores {!r}, which cannot be written to the ledger as JSON ({})"

_FIX = "fix it, then run the same command to resume from the last round"
_LACKING = (
    "if it cannot learn from earlier trials that lack a setting, start over with "
    f"{FRESH}, and without them"
)


def create_user_class(config: StudyConfig, name: str, options: Mapping[str, Any]) -> Any:
    """The user-defined class `name`, created with `options`."""
    made = load_class(name, config.base_dir)
    return made(**{**seed_argument(config, made), **options})


def seed_argument(config: StudyConfig, made: Callable[..., Any]) -> dict[str, int]:
    """The study's seed, for classes that take one."""
    return {"seed": config.study.seed} if "seed" in keywords_of(made)[0] else {}


@contextmanager
def without_experimental_warnings() -> Iterator[None]:
    """Suppress warnings about experimental features of Optuna, which the user has chosen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


@contextmanager
def guarded(
    config: StudyConfig, table: Literal["sampler", "pruner"], *, lacks_settings: bool = False
) -> Iterator[None]:
    """End the study if the user's sampler or pruner raises anything, including SystemExit.

    What Optuna's own samplers and pruners raise is not the user's fault. `lacks_settings` says that
    it learns from trials of earlier studies that lack a setting, which it may not support.

    Raises:
        SweeperError: with the last line of user code that the error passed through.
    """
    try:
        yield
    except SweeperError:
        raise
    except RAISED as error:
        if config.own_class(table) is None:
            raise
        hint = f"{_FIX}; {_LACKING}" if lacks_settings else _FIX
        raise _failed(config, table, f"raised {describe_error(error)}", hint) from error


def check_proposal(
    config: StudyConfig, drawn: Mapping[str, Any], space: Mapping[str, BaseDistribution]
) -> None:
    """Refuse a value out of range, since Optuna passes on what a user-defined sampler returns.

    Raises:
        SweeperError: naming the parameter.
    """
    if not is_function(config.study.sampler.name):
        return
    for name, value in drawn.items():
        distribution = space[name]
        if not isinstance(distribution, FloatDistribution | IntDistribution):
            continue  # Optuna has checked that it is one of the choices
        steps = (value - distribution.low) / (distribution.step or 1)
        is_between = distribution.low <= value <= distribution.high
        if not is_between or (distribution.step and not isclose(steps, round(steps))):
            of = f"{distribution.low} to {distribution.high}"
            by = f" in steps of {distribution.step}" if distribution.step not in (None, 1) else ""
            raise _failed(config, "sampler", f"proposes {name} = {value}, which is not in {of}{by}")


def ended_outside(config: StudyConfig, number: int) -> SweeperError:
    """The error of a user-defined pruner, or else sampler, that has ended a trial."""
    return _failed(config, _own_table(config), f"has ended trial {number} itself")


def addition_error(config: StudyConfig, table: Literal["sampler", "pruner"]) -> SweeperError:
    """The error of a user-defined sampler or pruner that has added a trial."""
    found = "has added a trial itself (enqueue_trial, add_trial or ask), which no resume repeats"
    return _failed(config, table, found, f"write them into study.enqueue of a new study, or {_FIX}")


def check_memory(config: StudyConfig, memory: Memory) -> None:
    """Refuse values stored by the user's sampler or pruner that are not JSON.

    Raises:
        SweeperError: naming the attribute.
    """
    if not config.has_own_class:
        return
    for attributes in (memory.study, *memory.trials.values()):
        for name, value in attributes.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                stored = _NOT_JSON.format(name.removeprefix(USER_ATTRIBUTE), error)
                raise _failed(config, _own_table(config), stored) from error


def _own_table(config: StudyConfig) -> Literal["sampler", "pruner"]:
    """Which of the two is user-defined: the pruner, if both are."""
    return "pruner" if config.own_class("pruner") else "sampler"


def _failed(
    config: StudyConfig, table: Literal["sampler", "pruner"], found: str, hint: str = _FIX
) -> SweeperError:
    by_name = getattr(config.study, table).name, f"study.{table}.name"
    name, key = config.own_class(table) or by_name
    return SweeperError(config.problem(key, f"'{name}' {found}", hint))


def user_class_problems(
    config: StudyConfig, table: str, name: str, options: Mapping[str, Any]
) -> Iterator[Problem]:
    """What prevents creating the class `name` with `options`."""
    key, wanted = f"{table}.name", BaseSampler if "sampler" in table else BasePruner
    try:
        found = load_class(name, config.base_dir)
    except LoadError as error:
        yield config.problem(key, error.found, error.hint)
        return
    base = f"optuna's {wanted.__name__}"
    if not (inspect.isclass(found) and issubclass(found, wanted)):
        yield config.problem(key, f"'{name}' is not a subclass of {base}", f"derive it from {base}")
        return
    apart = () if "seed" in options else ("seed",)  # it gets the study's seed
    problems = [*check_keywords(config, table, name, found, options, apart)]
    yield from problems
    if not problems:
        try:
            with without_experimental_warnings():
                found(**{**seed_argument(config, found), **options})
        except RAISED as error:
            hint = "write other options, or fix it"
            yield config.problem(key, f"'{name}' raised {describe_error(error)}", hint)
